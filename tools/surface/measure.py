"""How much of the official plugin's public surface is here: python tools/surface/measure.py [--check | --list STATE | --demand]

Every name of official.txt (extract.py makes it) is looked up in this package and gets one of four states:

    same      there, and callable with the same parameters: names, order, kinds and defaults (annotations are not compared)
    differs   there, with other parameters; docs/api/surface.md shows them
    refused   using it raises one sentence with the reason
    absent    not there

Without options the figures are printed and docs/api/surface.md is written; --check writes nothing and ends with code 1 if the page is
stale, --list prints the names of a state, --demand the names of demand.txt that do not resolve (code 1 if there are any).
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import fnmatch
import importlib
import inspect
import io
import re
import sys
import types
import warnings
from pathlib import Path
from typing import NamedTuple

import torch
import yaml

import torch_npu  # noqa: F401

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs/api/surface.md"
STATES = ("same", "differs", "refused", "absent")


class Entry(NamedTuple):
    name: str
    kind: str
    flags: str
    signature: str


class Finding(NamedTuple):
    state: str
    detail: str = ""


class Refused(Exception):
    """What a name says instead of being there."""


def entries() -> list[Entry]:
    return [Entry(*line.split("\t")) for line in (HERE / "official.txt").read_text().splitlines()]


def demanded() -> list[str]:
    return [line.partition("\t")[0] for line in (HERE / "demand.txt").read_text().splitlines()]


def resolve(name: str):
    """The value of a dotted name. LookupError if it is not there, Refused if it says why."""
    parts = name.split(".")
    try:
        value = importlib.import_module(parts[0])
    except ModuleNotFoundError as missing:
        raise LookupError(str(missing)) from None
    for place, part in enumerate(parts[1:], start=2):
        try:
            value = getattr(value, part)
        except (AttributeError, RuntimeError) as error:
            if "is not supported" in str(error):
                raise Refused(str(error)) from None
            path = ".".join(parts[:place])
            try:
                value = importlib.import_module(path)
            except ModuleNotFoundError as missing:
                raise LookupError(f"{path}: {missing}") from None
        # A module whose package has a class or function of its name: torch_npu.npu.mstx.mstx is of the module.
        if not isinstance(value, types.ModuleType) and place < len(parts) and not hasattr(value, parts[place]):
            value = sys.modules.get(".".join(parts[:place]), value)
    return value


def parameters(signature: str) -> list[tuple[str, str, str]] | None:
    """(name, kind, default) of each parameter of an inspect.Signature's text; None if it is not one."""
    text = re.sub(r" at 0x[0-9a-f]+", "", signature).rpartition("->")[0].strip() if "->" in signature else signature
    for _ in range(3):  # reprs within reprs
        text = re.sub(r"<[^<>]*>", "OBJECT", text)
    try:
        arguments = ast.parse(f"def f{text}: pass").body[0].args  # type: ignore[attr-defined]
    except SyntaxError:
        return None
    positional = arguments.posonlyargs + arguments.args
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
    found = [(a.arg, "positional", _default(d)) for a, d in zip(positional, defaults, strict=True)]
    found += [(arguments.vararg.arg, "*", "")] if arguments.vararg else []
    found += [(a.arg, "keyword", _default(d)) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    found += [(arguments.kwarg.arg, "**", "")] if arguments.kwarg else []
    return found


def _default(node: ast.expr | None) -> str:
    return "" if node is None else ast.unparse(node)


def schemas(value) -> list[str]:
    """Of an operator, without its namespace."""
    packet = getattr(value, "packet", value)
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return []
    return [re.sub(r"^\w+::", "", str(getattr(packet, name)._schema)) for name in packet.overloads()]


def schema_arguments(schema: str) -> str:
    """The argument list, with numbers as one parser writes them."""
    inner = schema.partition("(")[2].rpartition(" -> ")[0].rstrip(")")
    return re.sub(r"\d+\.\d*(e-?\d+)?|\d+e-?\d+", lambda number: repr(float(number.group())), inner)


ANYTHING = [("args", "*", ""), ("kwargs", "**", "")]


def judge(entry: Entry) -> Finding:
    try:
        value = resolve(entry.name)
    except Refused as refusal:
        return Finding("refused", str(refusal))
    except LookupError as error:
        return Finding("absent", str(error))
    if reason := getattr(value, "__refusal__", ""):
        return Finding("refused", reason)
    if entry.kind == "module":
        return Finding("same") if isinstance(value, types.ModuleType) else Finding("differs", f"a {type(value).__name__}")
    if not entry.signature:
        return Finding("same")
    ours = schemas(value)
    if ours and entry.signature.startswith(entry.name.rpartition(".")[2] + "("):
        if any(schema_arguments(schema) == schema_arguments(entry.signature) for schema in ours):
            return Finding("same")
        return Finding("differs", ours[0])
    wanted = parameters(entry.signature)
    if wanted is None or wanted == ANYTHING:  # no list to compare: a callable is what there has to be
        return Finding("same") if callable(value) else Finding("differs", f"a {type(value).__name__}")
    if ours:
        names = [name for name, *_ in wanted]
        same = any([a.name for a in schema] == names for schema in (s.arguments for s in _parsed(value)))
        return Finding("same") if same else Finding("differs", f"an operator: {ours[0]}")
    try:
        # A module as a default would show where Python is installed; the official list has its name.
        text = re.sub(r"<module '([\w.]+)' from '[^']*'>", r"\1", str(inspect.signature(value)))
    except (TypeError, ValueError):
        text = _of_docstring(value)
    given = parameters(text) if text else None
    if given is None:
        return Finding("differs", "a native function without a signature")
    if entry.kind == "method":  # of a static method there is no self either way
        wanted, given = ([p for p in listed if p[0] not in ("self", "cls")] for listed in (wanted, given))
    return Finding("same") if given == wanted else Finding("differs", text)


def _parsed(value):
    packet = getattr(value, "packet", value)
    return [getattr(packet, name)._schema for name in packet.overloads()]


def _of_docstring(value) -> str:
    """pybind11 and our own native classes write the signature into the first line of the docstring."""
    first = (getattr(value, "__doc__", "") or "").strip().splitlines()[:1]
    match = re.match(r"^\w+(\(.*\))", first[0]) if first else None
    return re.sub(r": \w+(?=[,)=])", "", match.group(1)) if match else ""


def measure() -> dict[Entry, Finding]:
    import torch_npu.contrib.transfer_to_npu as transfer  # looked up like any module, but it acts when it is imported

    transfer.undo()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {entry: judge(entry) for entry in entries()}


def reasons() -> list[tuple[str, str]]:
    """Patterns of names and why they differ, are refused or are not there; the first that fits counts."""
    rows = yaml.safe_load((HERE / "reasons.yaml").read_text())
    return [(pattern, row["reason"]) for row in rows for pattern in row["names"]]


def explain(entry: Entry, finding: Finding, known: list[tuple[str, str]]) -> str:
    """One sentence, or nothing if nobody has written one."""
    if finding.state == "refused":
        return finding.detail
    if finding.state == "differs" and finding.detail.startswith("an operator: "):
        return "an operator, whose arguments have the names of the official schema"
    return next((reason for pattern, reason in known if fnmatch.fnmatchcase(entry.name, pattern)), "")


def figures(found: dict[Entry, Finding]) -> str:
    lines = []
    known = reasons()
    for flag, title in (("s", "public names"), ("c", "frozen names, with what is inside classes")):
        mine = {entry: finding for entry, finding in found.items() if flag in entry.flags}
        count = {state: sum(finding.state == state for finding in mine.values()) for state in STATES}
        silent = sum(finding.state in ("differs", "absent") and not explain(entry, finding, known) for entry, finding in mine.items())
        share = 100 * (len(mine) - silent) / len(mine)
        lines.append(f"{len(mine)} {title}: " + ", ".join(f"{number} {state}" for state, number in count.items())
                     + f"; {share:.1f} % same or documented")
    return "\n".join(lines)


def page(found: dict[Entry, Finding]) -> str:
    known = reasons()
    head = ["# Every public name of the official plugin", "", "<!-- written by tools/surface/measure.py -->",
            "What this package does for each public name of the official 2.13.0 plugin. *same*: callable with the same parameters.",
            "*differs*: there, with other parameters. *refused*: using it raises the sentence that stands here. *absent*: not there.",
            "The frozen names are those that the official plugin's own test keeps; its rule, applied to the wheel, gives more of them",
            "than the 799 that are published.", "",
            *(f"- {line}" for line in figures(found).splitlines()), "", "## What is not the same", "",
            "| name | state | why |", "| --- | --- | --- |"]
    rows = []
    for entry, finding in found.items():
        if finding.state != "same":
            why = explain(entry, finding, known)
            shown = f"`{finding.detail}` " if finding.state == "differs" and finding.detail else ""
            rows.append(f"| `{entry.name}` | {finding.state} | {(shown + why).replace('|', chr(92) + '|').strip()} |")
    same: dict[str, list[str]] = {}
    for entry, finding in found.items():
        if finding.state == "same" and entry.kind != "method":
            module, _, name = entry.name.rpartition(".")
            same.setdefault(module, []).append(f"`{name}`")
    tail = ["", "## What is the same", "", "Methods of these classes are not repeated.", "", "| module | names |", "| --- | --- |"]
    return "\n".join(head + rows + tail + [f"| {module} | {', '.join(names)} |" for module, names in same.items()]) + "\n"


def unresolved() -> list[str]:
    """Names of demand.txt that are neither there nor refused with a reason."""
    missing = []
    for name in demanded():
        try:
            resolve(name)
        except Refused:
            continue
        except LookupError:
            missing.append(name)
    return missing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--list", choices=STATES)
    parser.add_argument("--demand", action="store_true")
    options = parser.parse_args()
    if options.demand:
        missing = unresolved()
        print(f"{len(demanded()) - len(missing)} of {len(demanded())} names that packages use resolve")
        print(*missing, sep="\n")
        return bool(missing)
    with contextlib.redirect_stderr(io.StringIO()):
        found = measure()
    if options.list:
        for entry, finding in found.items():
            if finding.state == options.list:
                print(entry.name, entry.flags, entry.signature, "->", finding.detail)
        return 0
    print(figures(found))
    text = page(found)
    if options.check:
        if not PAGE.exists() or PAGE.read_text() != text:
            print(f"{PAGE.name} is out of date: run python tools/surface/measure.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
