"""What two clients call for the same programs:  python compare.py OFFICIAL OURS [--show PATTERN] [--forms]

OFFICIAL and OURS are files of record.py. Prints how many programs have equal calls, in which ways the others differ, and how much of what
OURS sends has a form that OFFICIAL sends too, and for the rest the reason: vocabulary.json has the operator's types and the properties of
its arguments, seen in other combinations or ranks, or a row of additions.yaml says why. Ends with code 1 if a form has none.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter, defaultdict
from fnmatch import fnmatchcase
from pathlib import Path

from recording import Call, Region, arguments_of, form_of, is_tensor, load, normal
from vocabulary import Vocabulary, addition_for, read_additions

ORDER = ["other names", "same names, other arguments", "equal but for format", "equal"]


def level(a: Region, b: Region) -> str:
    names = [[c.short for c in r.calls] for r in (a, b)]
    if a.end != "ok" or b.end != "ok":
        return "not comparable"
    if not names[0] and not names[1]:
        return "no calls"
    if names[0] != names[1]:
        return ORDER[0]
    for strict, name in ((True, ORDER[3]), (False, ORDER[2])):
        if all(arguments_of(x, strict) == arguments_of(y, strict) for x, y in zip(a.calls, b.calls)):
            return name
    return ORDER[1]


def is_idle(call: Call) -> bool:
    """Whether what the call writes has no elements: its last tensor."""
    tensors = [value for _, value in call.arguments if is_tensor(value)]
    return bool(tensors) and 0 in tensors[-1]["t"]


def kind(a: Region, b: Region) -> str:
    """Of a difference in names. What ours leaves out, if that is all, is the reason why it is better."""
    x, y = Counter(c.short for c in a.calls), Counter(c.short for c in b.calls)
    if y["copy d2h"] and not x["copy d2h"]:
        # What is computed there comes back. A number that does not is read to raise an error of torch's, such as LinAlgError.
        return "ours goes to the CPU" if y["copy h2d"] > x["copy h2d"] else "ours reads a number of the card"
    if x["copy d2h"] and not y["copy d2h"]:
        return "the official client goes to the CPU"
    if x == y:
        return "another order"
    if not y - x:
        busy = [Counter(c.short for c in r.calls if not is_idle(c)) for r in (a, b)]
        if busy[0] == busy[1]:
            return "ours launches nothing for results without elements"
        if set(x - y) == {"aclnnInplaceCopy"}:
            return "ours makes fewer copies: it sends strides, or needs no other type"
        return "ours makes fewer calls"
    if not x - y:
        return "ours makes more calls"
    if {re.sub(r"V\d+$", "", n) for n in x} == {re.sub(r"V\d+$", "", n) for n in y}:
        return "another version or number of calls"
    return "other operators"


def difference(x, y) -> list[str]:
    found = []
    for (name, v), (_, w) in zip(x.arguments, y.arguments):
        a, b = normal(v, False), normal(w, False)
        if a == b or any(r in name for r in ("seed", "offset", "stream")):
            continue
        if is_tensor(a) and is_tensor(b):
            parts = {"t": "shape", "d": "type", "s": "strides", "o": "offset", "p": "memory"}
            found.append(f"{x.name}.{name}: {next(parts[key] for key in parts if a[key] != b[key])}")
        elif a is None or b is None:
            found.append(f"{x.name}.{name}: {'null' if a is None else 'given'} there, {'null' if b is None else 'given'} here")
        elif isinstance(a, dict) and isinstance(b, dict):
            found.append(f"{x.name}.{name}: scalar {a} there, {b} here" if a["S"] != b["S"] else f"{x.name}.{name}: value")
        else:
            found.append(f"{x.name}.{name}: {str(a)[:40]} there, {str(b)[:40]} here")
    return found


def print_programs(title: str, names: list[str], levels: dict[str, str]) -> None:
    programs = defaultdict(list)
    for name in names:
        programs[name.split("|")[0]].append(levels[name])
    worst = [min((ORDER.index(each) for each in found if each in ORDER), default=None) for found in programs.values()]
    count = Counter(worst)
    comparable = len(programs) - count[None]
    print(f"{title}: {len(programs)} programs, {comparable} comparable")
    for number in reversed(range(len(ORDER))):
        print(f"  {ORDER[number]:28} {count[number]:5}  {100 * count[number] / max(1, comparable):5.1f} %")


def reason(call: Call, vocabulary: Vocabulary, additions: list[dict]) -> str:
    """Of a form that the client was not seen to send; "" if there is none."""
    if not call.name.startswith(("aclnn", "Hccl")):
        return "a function of the runtime"
    rows = [addition_for(call.name, what, additions) for what in vocabulary.misses(call)]
    if not rows:
        return "properties that the client sends, in other combinations or ranks"
    return "" if None in rows else "; ".join(dict.fromkeys(row["why"] for row in rows if row))


def print_reasons(missing: dict[tuple, Call], calls: Counter) -> int:
    """How many forms have none."""
    vocabulary, additions = Vocabulary.read(), read_additions()
    found: dict[str, list] = defaultdict(list)
    for form, call in missing.items():
        found[reason(call, vocabulary, additions)].append(form)
    for why, forms in sorted(found.items(), key=lambda item: -len(item[1])):
        names = sorted({f[0] for f in forms})
        print(f"  {len(forms):4} forms, {sum(calls[f] for f in forms):5} calls: {why or 'NO REASON'}: "
              f"{', '.join(names[:8])}{' ...' if len(names) > 8 else ''}")
    return len(found.get("", ()))


def compare_forms(official: dict[str, Region], ours: dict[str, Region], show: bool) -> int:
    unexplained = 0
    for strict in (True, False):
        known = {form_of(c, strict) for r in official.values() for c in r.calls if c.code == 0}
        calls: Counter = Counter()
        where: dict[tuple, set] = defaultdict(set)
        examples: dict[tuple, Call] = {}
        for name, r in ours.items():
            for c in (c for c in r.calls if c.code == 0):  # what the device refused is not sent
                calls[form_of(c, strict)] += 1
                examples.setdefault(form_of(c, strict), c)
                where[form_of(c, strict)].add(name.split("|")[0])
        seen = [f for f in calls if f in known]
        total, found = sum(calls.values()), sum(calls[f] for f in seen)
        print(f"forms, {'strict' if strict else 'without format, contiguity and scalar types'}: {len(seen)} of {len(calls)} "
              f"({100 * len(seen) / max(1, len(calls)):.1f} %), calls {found} of {total} ({100 * found / max(1, total):.1f} %)")
        if strict:
            unexplained = print_reasons({f: examples[f] for f in calls if f not in known}, calls)
        if show:
            names = {f[0] for f in known}
            for f in sorted((f for f in calls if f not in known), key=str):
                print(f"  {'' if f[0] in names else '(name never seen) '}{f[0]} {f[1]}  {calls[f]} x in {', '.join(sorted(where[f])[:3])}")
    return unexplained


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("official", type=Path)
    parser.add_argument("ours", type=Path)
    parser.add_argument("--show", help="print both sides of the regions that match")
    parser.add_argument("--forms", action="store_true", help="list the forms that only ours has")
    options = parser.parse_args()
    official, ours = load(options.official), load(options.ours)
    if options.show:
        for name in official:
            if fnmatchcase(name, options.show):
                for client, region in (("official", official[name]), ("ours", ours.get(name, Region()))):
                    print(f"---- {name} {client}: {region.end}")
                    for call in region.calls:
                        print(f"  {call.short} {arguments_of(call, True)}")
        return 0
    levels = {name: level(official[name], ours.get(name, Region())) for name in official}
    for title, pattern in (("forward", "op:*|forward"), ("backward", "op:*|backward"), ("training steps", "model:*")):
        print_programs(title, [name for name in official if fnmatchcase(name, pattern)], levels)
    kinds, whats, ends = defaultdict(set), defaultdict(set), defaultdict(set)
    for name, each in levels.items():
        program, a, b = name.split("|")[0], official[name], ours.get(name, Region())
        if each == ORDER[0]:
            kinds[kind(a, b)].add(program)
        elif each == ORDER[1]:
            for x, y in zip(a.calls, b.calls):
                for what in difference(x, y):
                    whats[what].add(program)
        elif each == "not comparable":
            why = "the official client fails" if b.end == "ok" else "both fail" if a.end != "ok" else f"ours fails: {b.end[:100]}"
            ends[why].add(program)
    for title, found in (("other names", kinds), ("same names, what differs", whats), ("not comparable", ends)):
        print(f"\n{title}:")
        for what, programs in sorted(found.items(), key=lambda item: -len(item[1])):
            print(f"  {len(programs):4}  {what}: {', '.join(sorted(programs)[:8])}{' ...' if len(programs) > 8 else ''}")
    print()
    return int(compare_forms(official, ours, options.forms) > 0)


if __name__ == "__main__":
    sys.exit(main())
