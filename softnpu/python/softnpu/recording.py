"""What a program asked of softnpu, from recordings that SOFTNPU_RECORD makes: one line of JSON for each call of a C function."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from softnpu import place

TYPES = {0: "float32", 1: "float16", 2: "int8", 3: "int32", 4: "uint8", 6: "int16", 7: "uint16", 8: "uint32", 9: "int64", 10: "uint64",
         11: "float64", 12: "bool", 16: "complex64", 17: "complex128", 27: "bfloat16", 29: "int4"}
COPIES = {0: "host to host", 1: "host to card", 2: "card to host", 3: "card to card"}


def lines(file: Path) -> Iterator[dict[str, Any]]:
    with file.open() as opened:
        for line in opened:
            try:
                yield json.loads(line)
            except ValueError:  # a process that ended within a line
                continue


def _tensors(value: Any) -> Iterator[dict[str, Any]]:
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict) and "t" in item:
            yield item


def types_of(arguments: Iterable[tuple[str, Any]]) -> str:
    """Of the call's tensors, each once, in order."""
    found = dict.fromkeys(TYPES.get(t["d"], str(t["d"])) for _, value in arguments for t in _tensors(value))
    return " ".join(found)


@dataclass
class Operator:
    launches: int = 0  # phase two
    prepared: int = 0  # phase one; a call that the client's executor cache knows has none
    refused: int = 0
    types: Counter[str] = field(default_factory=Counter)


@dataclass
class Summary:
    operators: dict[str, Operator] = field(default_factory=lambda: defaultdict(Operator))
    collectives: Counter[str] = field(default_factory=Counter)
    copies: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)

    def sorted_operators(self) -> list[tuple[str, Operator]]:
        return sorted(self.operators.items(), key=lambda entry: (-max(entry[1].launches, entry[1].prepared), entry[0]))


def summarise(files: Iterable[Path]) -> Summary:
    found = Summary()
    for file in files:
        for line in lines(file):
            if "f" in line:
                _count(found, line["f"], line["a"], line["rc"])
    return found


@cache
def _operators() -> frozenset[str]:
    return frozenset(place.operators())


def _count(found: Summary, name: str, arguments: list[tuple[str, Any]], code: int) -> None:
    names = [argument for argument, _ in arguments]
    if name in _operators():
        operator = found.operators[name]
        if names[-2:] == ["executor", "stream"]:
            operator.launches += 1
        else:
            operator.prepared += 1
            operator.types[types_of(arguments)] += 1
        operator.refused += code != 0
    elif name.startswith("Hccl") and "type" in names:
        found.collectives[name] += 1
    elif name.startswith("aclrtMemcpy"):
        found.copies[COPIES.get(dict(arguments).get("kind", 3), "other")] += 1
    else:
        found.others[name] += 1
    if code and name.startswith(("acl", "Hccl", "mspti")):  # the numbers of others (CanUsePTACache) are no codes
        found.failed[name] += 1


def text(found: Summary, everything: bool = False) -> str:
    """The summary of `softnpu trace`."""
    rows = [("operator", "launches", "prepared", "refused", "types")]
    for name, operator in found.sorted_operators():
        types = "; ".join(kind for kind, _ in operator.types.most_common(3))
        rows.append((name, str(operator.launches), str(operator.prepared), str(operator.refused), types))
    total = sum(operator.launches for operator in found.operators.values())
    result = [table(rows), f"{len(found.operators)} operators, {total} launches"] if found.operators else ["no operators"]
    for title, counter in (("collectives", found.collectives), ("copies", found.copies)):
        if counter:
            result.append(f"{title}: " + ", ".join(f"{count} {name}" for name, count in counter.most_common()))
    failed = {name: count for name, count in found.failed.items() if name not in found.operators}
    if failed:
        result.append("calls that failed: " + ", ".join(f"{count} {name}" for name, count in sorted(failed.items())))
    if everything:
        result.append("other calls: " + ", ".join(f"{count} {name}" for name, count in found.others.most_common()))
    return "\n".join(result)


def table(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)
