"""One libopapi.so with many mutants of the kernel tables, each of which runs where SOFTNPU_MUTANT is its number.

    build(candidates) -> (the library, the mutants that could be compiled by number)
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml
from tables import KERNELS, ROOT, TableMutant

sys.path.insert(0, str(ROOT / "tools"))
from codegen.aclnn import write_if_changed  # noqa: E402
from codegen.entries import emit_loop  # noqa: E402

BUILD = ROOT / "build-mutants"
PACKAGES = (ROOT / "torch_npu/softnpu").resolve().parents[1]  # the build that the package in the checkout is linked to
LIBRARY = "torch_npu/softnpu/lib64/libopapi.so"
VARIABLE = "SOFTNPU_MUTANT"


def body(code: list[str]) -> str:
    """What runs for a row: the loop of an elementwise operator if the call has one, else the statement."""
    return f"{emit_loop(code[1]).strip() if len(code) > 1 else ''} {code[0]};".lstrip()


def rows(code: list[str], chosen: dict[int, TableMutant]) -> str:
    """The code of a row and its mutants, each of which the compiler's messages name as a file of its own."""
    lines = []
    for number, mutant in chosen.items():
        changed = [mutant.after if part == mutant.part else text for part, text in enumerate(code)]
        condition = f'if (const char* mutant = std::getenv("{VARIABLE}"); mutant && std::string_view(mutant) == "{number}")'
        lines.append(f'#line 1 "mutant {number}"\n  {condition} {{ {body(changed)} return; }}')
    return "\n  ".join([*lines, f'#line 1 "row"\n  {body(code).removesuffix(";")}'])


def write_tables(folder: Path, mutants: dict[int, TableMutant]) -> None:
    for file in KERNELS.glob("*.yaml"):
        table = yaml.safe_load(file.read_text())
        chosen: dict[str, dict[int, TableMutant]] = {}
        for number, mutant in mutants.items():
            if mutant.table == file.stem:
                chosen.setdefault(mutant.row, {})[number] = mutant
        for row, numbered in chosen.items():
            code = table["kernels"][row]
            table["kernels"][row] = rows(code if isinstance(code, list) else [code], numbered)
        if chosen:
            table["includes"] = [*table.get("includes", []), "cstdlib", "string_view"]
        write_if_changed(folder / file.name, yaml.safe_dump(table, sort_keys=False, width=10**6))


def refused(output: str) -> set[int]:
    """The mutants in which the compiler found an error."""
    return {int(number) for number in re.findall(r"^mutant (\d+):\d+", output, re.MULTILINE)}


def build(candidates: list[TableMutant], jobs: int) -> tuple[Path, dict[int, TableMutant]]:
    """Compiles the changed tables as often as it takes, without the mutants that the compiler refuses, and links them with all else
    that the package's own build has made."""
    mutants = dict(enumerate(candidates, 1))
    while True:
        write_tables(BUILD / "tables", mutants)
        subprocess.run([sys.executable, "-m", "codegen.entries", "--abi", str(ROOT / "abi"), "--kernels", str(BUILD / "tables"),
                        "--out", str(BUILD / "generated")], cwd=ROOT / "tools", check=True)
        with ThreadPoolExecutor(jobs) as pool:
            compiled = dict(zip(tables := sorted({m.table for m in mutants.values()}), pool.map(compiled_table, tables), strict=True))
        if not any(compiled.values()):
            break
        output = "\n".join(compiled.values())
        wrong = refused(output) & mutants.keys()
        if not wrong:
            raise RuntimeError(f"libopapi.so with mutants cannot be built:\n{output[-3000:]}")
        mutants = {number: mutant for number, mutant in mutants.items() if number not in wrong}
    objects = {object_of(table): BUILD / f"generated/{table}.o" for table in compiled}
    library = BUILD / "lib/libopapi.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    command = subprocess.run(["ninja", "-C", str(PACKAGES), "-t", "commands", LIBRARY], check=True, capture_output=True, text=True).stdout
    link = [str(objects.get(word, word)) for word in command.splitlines()[-1].split()]
    link[link.index(LIBRARY)] = str(library)
    subprocess.run(" ".join(link), shell=True, cwd=PACKAGES, check=True)
    return library, mutants


def object_of(table: str) -> str:
    """As the package's build names it."""
    return f"softnpu/kernels/CMakeFiles/opapi.dir/generated/{table}_entries.cpp.o"


def compiled_table(table: str) -> str:
    """Compiles a table with mutants as the package's build compiles the table, if it has changed. Returns the compiler's complaints."""
    source, target = BUILD / f"generated/{table}_entries.cpp", BUILD / f"generated/{table}.o"
    if target.exists() and target.stat().st_mtime > source.stat().st_mtime:
        return ""
    command = commands()[object_of(table)]
    command[command.index("-o") + 1], command[command.index("-c") + 1] = str(target), str(source)
    ccache = shutil.which("ccache")
    environment = {**os.environ, "CCACHE_SLOPPINESS": "pch_defines,time_macros"}
    result = subprocess.run([*([ccache] if ccache else []), *command], cwd=PACKAGES, env=environment, capture_output=True, text=True)
    return result.stderr if result.returncode else ""


def commands() -> dict[str, list[str]]:
    """The compiler's command for each object of the package's build."""
    rows = json.loads((PACKAGES / "compile_commands.json").read_text())
    return {os.path.relpath(row["output"], PACKAGES): shlex.split(row["command"]) for row in rows if "output" in row}
