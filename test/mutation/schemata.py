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
    mutants, tables = dict(enumerate(candidates, 1)), sorted(file.stem for file in KERNELS.glob("*.yaml"))
    while True:
        write_tables(BUILD / "tables", mutants)
        subprocess.run([sys.executable, "-m", "codegen.entries", "--abi", str(ROOT / "abi"), "--kernels", str(BUILD / "tables"),
                        "--out", str(BUILD / "generated")], cwd=ROOT / "tools", check=True)
        with ThreadPoolExecutor(jobs) as pool:
            output = "\n".join(pool.map(compiled_table, tables)).strip()
        if not output:
            break
        wrong = refused(output) & mutants.keys()
        if not wrong:
            raise RuntimeError(f"libopapi.so with mutants cannot be built:\n{output[-3000:]}")
        mutants = {number: mutant for number, mutant in mutants.items() if number not in wrong}
    library = BUILD / "lib/libopapi.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    command = subprocess.run(["ninja", "-C", str(PACKAGES), "-t", "commands", LIBRARY], check=True, capture_output=True, text=True).stdout
    subprocess.run(linked(command.splitlines()[-1], library, [str(object_of(table)) for table in tables]), shell=True, cwd=PACKAGES,
                   check=True)
    return library, mutants


def linked(command: str, library: Path, objects: list[str]) -> str:
    """The command that links libopapi.so, for another one with other objects of the tables. The build has one of each, or of several."""
    of_tables = re.compile(r"opapi\.dir/(generated/\w+_entries\.cpp|Unity/unity_entries_\d+_cxx\.cxx)\.o$")
    words = [word for word in command.split() if not of_tables.search(word)]
    target = words.index(LIBRARY)
    return " ".join([*words[:target], str(library), *objects, *words[target + 1:]])


def object_of(table: str) -> Path:
    return BUILD / f"generated/{table}.o"


def compiled_table(table: str) -> str:
    """Compiles a table as the package's build compiles its library, if it has changed. Returns the compiler's complaints."""
    source, target = BUILD / f"generated/{table}_entries.cpp", object_of(table)
    if target.exists() and target.stat().st_mtime > source.stat().st_mtime:
        return ""
    command = compiler()
    command[command.index("-o") + 1], command[command.index("-c") + 1] = str(target), str(source)
    ccache = shutil.which("ccache")
    environment = {**os.environ, "CCACHE_SLOPPINESS": "pch_defines,time_macros"}
    result = subprocess.run([*([ccache] if ccache else []), *command], cwd=PACKAGES, env=environment, capture_output=True, text=True)
    return result.stderr if result.returncode else ""


def compiler() -> list[str]:
    """The command for a source of libopapi.so in the package's build; it is the same for all but for their names."""
    rows = json.loads((PACKAGES / "compile_commands.json").read_text())
    return shlex.split(next(row["command"] for row in rows if row["file"].endswith("softnpu/kernels/engine/plan.cpp")))
