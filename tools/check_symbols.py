#!/usr/bin/env python3
"""Checks the built softnpu libraries against abi/. `check_symbols.py BUILD` compares, `--update` rewrites the states.

Two rules: an exported name that looks like CANN's (acl..., Hccl..., rt...) must be declared or listed in abi/, so that
no CANN name is made up; and abi/symbols.txt, the list of what CANN's known client asks for, must say what the libraries
have. A line there is `symbol | library | linked, looked up or both | implemented, stub or absent`; an operator has one
line for its two functions.
"""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ABI = ROOT / "abi"
SYMBOLS = ABI / "symbols.txt"
CANN_NAME = re.compile(r"acl|Hccl|Hcom|Lccl|rt[A-Z]|Msprof|ge[A-Z]")


def declared():
    """Names of functions in the headers, and both functions of every operator in the tables."""
    names = set()
    for header in ("acl.h", "aclnn.h", "hccl.h"):
        names |= set(re.findall(r"\b(\w+)\(", (ABI / header).read_text()))
    for operator in operators():
        names |= {operator, operator + "GetWorkspaceSize"}
    return names


@cache
def operators():
    text = (ABI / "aclnn.yaml").read_text() + (ABI / "extension.yaml").read_text()
    return frozenset(re.findall(r"^(\w+):", text, re.MULTILINE))


@cache
def exported(library):
    output = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return frozenset(line.split()[-1] for line in output.splitlines() if line)


@cache
def reachable(library):
    """What dlsym finds through a handle of `library`: its own names and those of the softnpu libraries it needs."""
    if not library.exists():
        return frozenset()
    dynamic = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    needed = re.findall(r"NEEDED.*\[(\S+)\]", dynamic)
    return exported(library).union(*(reachable(library.parent / name) for name in needed))


def is_there(folder, symbol, library):
    names = reachable(folder / library)
    return symbol in names and (symbol not in operators() or symbol + "GetWorkspaceSize" in names)


def read_table():
    lines = [line for line in SYMBOLS.read_text().splitlines() if line and not line.startswith("#")]
    return [[field.strip() for field in line.split("|")] for line in lines]


def update(folder):
    """Sets every state from the libraries; what is there and was called a stub stays a stub."""
    lines = []
    for line in SYMBOLS.read_text().splitlines():
        if line and not line.startswith("#"):
            symbol, library, how, state = (field.strip() for field in line.split("|"))
            there = is_there(folder, symbol, library)
            state = ("stub" if state == "stub" else "implemented") if there else "absent"
            line = f"{symbol} | {library} | {how} | {state}"
        lines.append(line)
    SYMBOLS.write_text("\n".join(lines) + "\n")


def problems(folder):
    table = read_table()
    known = declared() | {row[0] for row in table}
    for library in sorted(folder.glob("*.so")):
        for name in sorted(exported(library)):
            if CANN_NAME.match(name) and name not in known:
                yield f"{library.name} exports {name}, which abi/ does not know"
    for symbol, library, _, state in table:
        there = is_there(folder, symbol, library)
        if there != (state in ("implemented", "stub")):
            yield f"abi/symbols.txt calls {symbol} {state}, {library} {'has' if there else 'lacks'} it"
    for operator in sorted(operators() - {row[0] for row in table} - set(extension_names())):
        yield f"abi/aclnn.yaml has {operator}, abi/symbols.txt does not"


def extension_names():
    return re.findall(r"^(\w+):", (ABI / "extension.yaml").read_text(), re.MULTILINE)


def main():
    folder = Path(sys.argv[1]) / "torch_npu/softnpu/lib64"
    if not (folder / "libsoftnpu.so").exists():
        sys.exit(f"{folder} holds no libsoftnpu.so; build first")
    if not SYMBOLS.exists():
        sys.exit("abi/symbols.txt is missing")
    if "--update" in sys.argv:
        update(folder)
    found = list(problems(folder))
    counts = {state: sum(row[3] == state for row in read_table()) for state in ("implemented", "stub", "absent")}
    print("\n".join(found) or "symbols: " + ", ".join(f"{count} {state}" for state, count in counts.items()))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
