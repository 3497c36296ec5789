"""Mutants of softnpu's kernel tables: rows of softnpu/kernels/tables/*.yaml with one small mistake in their C++.

They are all compiled into one libopapi.so, which asks the environment which of them is on (schemata.py).
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "softnpu/kernels/tables"
sys.path.insert(0, str(ROOT / "tools"))
from codegen import aclnn  # noqa: E402

SYMBOLS = {" + ": " - ", " - ": " + ", " * ": " / ", " / ": " * ", " < ": " <= ", " > ": " >= ", " == ": " != ", " != ": " == ",
           " && ": " || ", " || ": " && ", "true": "false", "false": "true"}
NAMES = [("min", "max"), ("minimum", "maximum"), ("amin", "amax"), ("argmin", "argmax"), ("cummin", "cummax"), ("fmin", "fmax"),
         ("lt", "le"), ("gt", "ge"), ("eq", "ne"), ("and", "or"), ("add", "sub"), ("mul", "div"), ("floor", "ceil"), ("sin", "cos"),
         ("sinh", "cosh"), ("tril", "triu"), ("sum", "mean"), ("any", "all"), ("fmod", "remainder"), ("cumsum", "cumprod")]
OTHER_NAME = {a: b for pair in NAMES for a, b in (pair, pair[::-1])}
# What a kernel computes with that does not look at an argument of this type.
CONSTANTS = {"bool": ["true", "false"], "int": ["int64_t(0)"], "uint64": ["uint64_t(0)"], "double": ["1.0"], "float": ["1.0"],
             "Scalar": ["at::Scalar(1)"], "Scalar?": ["std::optional<at::Scalar>()"], "Tensor?": ["std::optional<at::Tensor>()"]}
# Table -> why it is not mutated.
NOT_MUTATED = {"cast": "one call without anything to change",
               "debug": "two operators that only C++ tests call: a way to be slow and a way to fail",
               "unknown": "no kernels: operators that are refused",
               **dict.fromkeys((file.stem for file in KERNELS.glob("legacy_*.yaml")), "only the official client calls them")}
TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')


@dataclass(frozen=True)
class TableMutant:
    name: str  # of the table, as "kernels/fft.yaml"
    line: int
    row: str
    before: str
    after: str
    part: int  # 0: the statement, 1: the loop of an elementwise operator

    @property
    def table(self) -> str:
        return Path(self.name).stem

    @property
    def where(self) -> str:
        return f"{self.row}:"

    def __str__(self) -> str:
        return f"{self.line}: {self.row}: {self.before} -> {self.after}"


def changes(code: str, signature: aclnn.Signature) -> Iterator[str]:
    """The code of a row with each of the mistakes that can be made in it. Nearly all of them compile."""
    texts = [match.span() for match in TEXT.finditer(code)]

    def places(pattern: str) -> Iterator[re.Match]:
        return (m for m in re.finditer(pattern, code) if not any(begin <= m.start() < end for begin, end in texts))

    def replaced(match: re.Match, new: str, group: int = 0) -> str:
        return code[:match.start(group)] + new + code[match.end(group):]

    for match in places("|".join(rf"\b{s}\b" if s.isalpha() else re.escape(s) for s in SYMBOLS)):
        yield replaced(match, SYMBOLS[match[0]])
    for match in places(r"(?<![\w.])\d+(?![\w.])"):
        yield replaced(match, str(int(match[0]) + 1))
    for match in places(r"(?<=[,;] )-(?=\w)"):
        yield replaced(match, "")
    for match in places(r"(?<=::)\w+|\b\w+(?=_stub)"):
        parts = match[0].split("_")
        for i, part in enumerate(parts):
            if part in OTHER_NAME:
                yield replaced(match, "_".join([*parts[:i], OTHER_NAME[part], *parts[i + 1:]]))
    arguments = {a.name: a for a in signature.arguments}
    uses = [m for m in places(r"(?<![\w.:])[a-zA-Z_]\w*(?![\w(:])") if m[0] in arguments]
    for first, second in zip(uses, uses[1:]):
        a, b = arguments[first[0]], arguments[second[0]]
        if a.name != b.name and (a.type, a.written) == (b.type, b.written) and code[first.end():second.start()] == ", ":
            yield code[:first.start()] + f"{b.name}, {a.name}" + code[second.end():]
    inputs = [a.name for a in signature.arguments if a.type == "Tensor" and not a.written]
    for match in uses:
        argument = arguments[match[0]]
        if argument.name in inputs[1:]:
            yield replaced(match, inputs[0])
        for constant in CONSTANTS.get(argument.type, []):
            yield replaced(match, constant)


def mutants(folder: Path = KERNELS) -> dict[str, list[TableMutant]]:
    """All mutants of each table."""
    signatures = aclnn.load(ROOT / "abi")
    found: dict[str, list[TableMutant]] = {}
    for file in sorted(folder.glob("*.yaml")):
        lines = file.read_text().splitlines()
        rows = yaml.safe_load(file.read_text()).get("kernels")
        if not rows or not rows.keys() <= signatures.keys():  # operators of the interface before aclnn have theirs in the table
            found[file.stem] = []
            continue
        begin = lines.index("kernels:")
        for row, code in rows.items():
            line = next(i for i, text in enumerate(lines[begin:], begin + 1) if text.startswith(f"  {row}:"))
            for part, before in enumerate(code if isinstance(code, list) else [code]):
                found.setdefault(file.stem, []).extend(
                    TableMutant(f"kernels/{file.name}", line, row, before, after, part)
                    for after in dict.fromkeys(changes(before, signatures[row])))
    return found


def choose(seed: int, prefixes: list[str]) -> list[TableMutant]:
    """All mutants in the order in which they are taken: one of each table, then another of each."""
    generator, columns = random.Random(seed), []
    for table, column in mutants().items():
        generator.shuffle(column)
        if table not in NOT_MUTATED:
            columns.append([m for m in column if not prefixes or m.name.startswith(tuple(prefixes))])
    return [m for m in chain.from_iterable(zip_longest(*columns)) if m]
