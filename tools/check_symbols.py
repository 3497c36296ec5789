#!/usr/bin/env python3
"""Checks the built softnpu libraries against abi/. `check_symbols.py BUILD` compares, `--update` rewrites the states.

Three rules: an exported name that looks like CANN's (acl..., Hccl..., rt...) must be declared or listed in abi/, so that
no CANN name is made up; abi/symbols.txt, the list of what CANN's known client asks for, must say what the libraries
have; and every operator that is implemented has a checked result: through an operator of the adapter, or by its name in
test/softnpu/kernels/names.py. A line of symbols.txt is `symbol | library | linked, looked up or both | implemented, stub or
absent`; an operator has one line for its two functions. A stub is what softnpu's sources refuse or ignore.
"""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ABI = ROOT / "abi"
SYMBOLS = ABI / "symbols.txt"
CANN_NAME = re.compile(r"acl|Hccl|Hcom|Lccl|rt[A-Z]|Msprof|mspti|hal[A-Z]|ge[A-Z]")


def declared():
    """Names of functions in the headers, and both functions of every operator in the tables."""
    names = set()
    for header in ("acl.h", "aclnn.h", "hccl.h", "mspti.h"):
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


@cache
def stubs():
    """Functions that softnpu refuses (NPU_REFUSE and its kin), and reports of which it takes no notice."""
    entries = ROOT / "softnpu/entry"
    refused = "".join(file.read_text() for file in sorted(entries.glob("*refused.cpp")))
    names = re.findall(r"^NPU_REFUSE_AS\((?:[^,]+, ){3}(\w+)", refused, re.MULTILINE)
    names += re.findall(r"^NPU_(?!REFUSE_AS)\w+\((\w+)", refused, re.MULTILINE)
    names += re.findall(r"^int (\w+)\(\) \{ return 0; \}", (entries / "profiling.cpp").read_text(), re.MULTILINE)
    tables = "".join(file.read_text() for file in sorted((ROOT / "softnpu/kernels/tables").glob("*.yaml")))
    for section in re.findall(r"^refused:\n((?: .*\n)+)", tables, re.MULTILINE):
        names += re.findall(r"^  (\w+):", section, re.MULTILINE)
    return frozenset(names)


def state_of(folder, symbol, library):
    return "absent" if not is_there(folder, symbol, library) else "stub" if symbol in stubs() else "implemented"


def called():
    """Operators that the adapter calls: named in a row or in a kernel."""
    files = [file for file in (ROOT / "csrc").rglob("*") if file.suffix in (".yaml", ".cpp", ".h")]
    text = "\n".join(re.sub(r"(//|#).*", "", file.read_text()) for file in files)
    return operators() & set(re.findall(r"\bacl\w+", text))


def cases():
    """Operators that have a test of their own, by name."""
    text = (ROOT / "test/softnpu/kernels/names.py").read_text()
    cases = re.findall(r"^@case\((.*?)\)\n", text, re.MULTILINE | re.DOTALL)
    attention = (ROOT / "test/custom_ops/test_attention_abi.py").read_text()
    return set(re.findall(r'"(acl\w+)"', " ".join(cases) + attention))


def read_table():
    lines = [line for line in SYMBOLS.read_text().splitlines() if line and not line.startswith("#")]
    return [[field.strip() for field in line.split("|")] for line in lines]


def update(folder):
    """Sets every state from the libraries and the sources."""
    lines = []
    for line in SYMBOLS.read_text().splitlines():
        if line and not line.startswith("#"):
            symbol, library, how, _ = (field.strip() for field in line.split("|"))
            line = f"{symbol} | {library} | {how} | {state_of(folder, symbol, library)}"
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
        if state != (found := state_of(folder, symbol, library)):
            yield f"abi/symbols.txt calls {symbol} {state}, in {library} it is {found}"
    for operator in sorted(operators() - {row[0] for row in table} - set(extension_names())):
        yield f"abi/aclnn.yaml has {operator}, abi/symbols.txt does not"
    for operator in sorted(implemented() - called() - cases()):
        yield f"{operator} has no checked result: the adapter does not call it, test/softnpu/kernels/names.py has no case"


def implemented():
    return {row[0] for row in read_table() if row[0] in operators() and row[3] == "implemented"}


def aclnn_counts():
    """How many operators there are, by what becomes of them."""
    checked = implemented() & (called() | cases())
    return (f"{len(operators() - set(extension_names()))} known, {len(checked)} implemented with a checked result, "
            f"{len(implemented() & called())} called by the adapter")


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
    print("aclnn names: " + aclnn_counts())
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
