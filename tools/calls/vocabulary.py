"""What the official client was seen to send to the device, as data, and what of our own calls is not in it.

    python vocabulary.py make RECORDING...           writes vocabulary.json from recordings of the official client (ci/sweep.sh vocabulary)
    python vocabulary.py extend RECORDING...         adds to it what recordings of further programs have
    python vocabulary.py check RECORDING... [--all]   lists the calls of our adapter that it does not contain, but for additions.yaml

Note [Vocabulary]. For each operator: the types of its tensors, together, as they were seen (`-`: null; `*`: of a list); and of each
argument by itself the properties that were seen: formats other than those by rank, strides other than contiguous ones, the length of the
longest list, types of scalars, strings, and the numbers of enumerations. What the official client's code does not look at is free:
sizes, ranks, the memory that tensors share, values of scalars and arrays. A call that combines what was seen apart is contained.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml
from recording import Call, is_contiguous, is_tensor, lines

HERE = Path(__file__).resolve().parent
FILE, ADDITIONS = HERE / "vocabulary.json", HERE / "additions.yaml"
TYPES = {0: "f32", 1: "f16", 2: "i8", 3: "i32", 4: "u8", 6: "i16", 7: "u16", 8: "u32", 9: "i64", 10: "u64", 11: "f64", 12: "bool",
         16: "c64", 17: "c128", 27: "bf16", 29: "i4"}
BY_RANK = {3: 47, 4: 0, 5: 30}  # NCL, NCHW, NCDHW; else ND
# In the name of an argument whose number chooses between few ways: those that were seen are listed. Other numbers are free.
NUMBER = re.compile(r"^\w+ (number|text) ")
ENUMERATIONS = ("mode", "type", "reduc", "precise", "layout", "format", "rounding", "algorithm")


def type_name(code: int) -> str:
    return TYPES.get(code, str(code))


def type_of(value) -> str:
    """Of one argument; "" if it is no tensor."""
    if is_tensor(value):
        return type_name(value["d"])
    if isinstance(value, list) and value and is_tensor(value[0]):
        return "*" + "|".join(sorted({type_of(v) for v in value}))
    return ""


def types_of(call: Call) -> str:
    if call.name.startswith("Hccl"):
        return " ".join(f"{name} {value}" for name, value in call.arguments if name in ("type", "op"))
    return " ".join("-" if value is None else type_of(value) for _, value in call.arguments if value is None or type_of(value))


def properties(name: str, value) -> dict[str, Any]:
    """Of one argument by itself; sets but for the length."""
    tensors = [v for v in (value if isinstance(value, list) else [value]) if is_tensor(v)]
    found: dict[str, Any] = {}
    if tensors:
        if other := {v["m"] for v in tensors if v["m"] != BY_RANK.get(len(v["t"]), 2)}:
            found["formats"] = other
        if not all(is_contiguous(v) or 0 in v["t"] for v in tensors):
            found["strided"] = {True}
        if isinstance(value, list):
            found["length"] = len(value)
    elif isinstance(value, dict):
        found["scalar"] = {type_name(value["S"])}
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        found["scalar"], found["length"] = {type_name(v["S"]) for v in value}, len(value)
    elif isinstance(value, str):
        found["text"] = {value}
    elif isinstance(value, int) and any(part in name.lower() for part in ENUMERATIONS):
        found["number"] = {value}
    return found


def calls_of(files: list[Path]):
    """Calls that the device accepted: operators and collectives."""
    for file in files:
        mark = ""
        for line in lines(file):
            name, mark = line.get("f", ""), line.get("mark", mark)
            second = [a for a, _ in line.get("a", ())][-2:] == ["executor", "stream"]
            if name.startswith(("aclnn", "Hccl")) and line["rc"] == 0 and line["a"] and not second:
                yield Call(name, line["a"], mark=mark)


class Vocabulary:
    def __init__(self, data: dict | None = None):
        self.data = data or {}

    @classmethod
    def read(cls) -> Vocabulary:
        data = json.loads(FILE.read_text())
        for row in data.values():
            row["types"] = dict.fromkeys(row["types"])
        return cls(data)

    def add(self, call: Call) -> None:
        row = self.data.setdefault(call.name, {"types": {}, "arguments": {}})
        row["types"][types_of(call)] = None
        for name, value in call.arguments:
            for kind, seen in properties(name, value).items():
                old = row["arguments"].setdefault(name, {}).get(kind)
                row["arguments"][name][kind] = max(old or 0, seen) if kind == "length" else set(old or ()) | seen

    def misses(self, call: Call) -> list[str]:
        """What of a call was never seen, in words."""
        row = self.data.get(call.name)
        if row is None:
            return ["name"]
        missing = [] if types_of(call) in row["types"] else [f"types {types_of(call)}"]
        for name, value in call.arguments:
            seen = row["arguments"].get(name, {})
            for kind, has in properties(name, value).items():
                known = seen.get(kind, 0 if kind == "length" else [])
                if kind == "length":
                    missing += [f"{name} length {has}"] if has > known else []
                else:
                    missing += [f"{name} {kind} {each}" for each in sorted(has - set(known), key=str)]
        return missing

    def write(self, file: Path) -> None:
        rows = []
        for name, row in sorted(self.data.items()):
            arguments = {argument: {kind: seen if kind == "length" else sorted(seen, key=str) for kind, seen in kinds.items()}
                         for argument, kinds in row["arguments"].items()}
            rows.append(f"{json.dumps(name)}: {json.dumps({'types': sorted(row['types']), 'arguments': arguments}, separators=(',', ':'))}")
        file.write_text("{\n" + ",\n".join(rows) + "\n}\n")


def make(files: list[Path], vocabulary: Vocabulary) -> int:
    for call in calls_of(files):
        vocabulary.add(call)
    vocabulary.write(FILE)
    print(f"{FILE.name}: {len(vocabulary.data)} names, {sum(len(row['types']) for row in vocabulary.data.values())} combinations of types, "
          f"{FILE.stat().st_size >> 10} KB")
    return 0


def read_additions() -> list[dict]:
    return yaml.safe_load(ADDITIONS.read_text()) or []


def addition_for(name: str, what: str, additions: list[dict]) -> dict | None:
    """A row has one pattern of names, or several with spaces between them."""
    return next((a for a in additions if any(fnmatchcase(name, n) for n in a["name"].split()) and fnmatchcase(what, a["what"])), None)


def check(files: list[Path], everything: bool, forms_only: bool = False) -> int:
    vocabulary, additions = Vocabulary.read(), read_additions()
    found: dict[tuple[str, str], list[str]] = defaultdict(list)  # where a program or a test is named, which they come from
    forms, used, calls, known = {}, set(), 0, 0
    for call in calls_of(files):
        misses = [what for what in vocabulary.misses(call) if not forms_only or not NUMBER.search(what)]
        calls, known = calls + 1, known + (not misses)
        forms[(call.name, types_of(call), *map(str, (properties(*a) for a in call.arguments)))] = not misses
        for what in misses:
            addition = addition_for(call.name, what, additions)
            if addition:
                used.add(id(addition))
            if everything or not addition:
                found[call.name, what].append(call.mark.removeprefix("B "))
    for (name, what), marks in sorted(found.items()):
        print(f"{name}: {what}  ({len(marks)} x{f', {marks[0]}' if marks[0] else ''})")
    stale = [a for a in additions if id(a) not in used] if everything else []
    for addition in stale:
        print(f"{ADDITIONS.name}: {addition['name']}: {addition['what']} is not sent any more")
    print(f"{sum(forms.values())} of {len(forms)} forms ({100 * sum(forms.values()) / max(1, len(forms)):.1f} %), {known} of {calls} calls "
          f"({100 * known / max(1, calls):.1f} %) are the official client's; {len(found)} questions")
    return int(bool(found and not everything or not forms))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("make", "extend", "check"))
    parser.add_argument("recordings", type=Path, nargs="+")
    parser.add_argument("--all", action="store_true", help="the additions too, and those that nothing needs")
    parser.add_argument("--forms", action="store_true", help="without numbers and texts: of two calls that differ in these only, "
                        "SOFTNPU_RECORD_ONCE=1 writes one, and which one depends on the order of the tests")
    options = parser.parse_args()
    if options.command == "check":
        return check(options.recordings, options.all, options.forms)
    return make(options.recordings, Vocabulary() if options.command == "make" else Vocabulary.read())


if __name__ == "__main__":
    sys.exit(main())
