"""One libopapi.so with many mutants of the kernel tables, each of which runs where SOFTNPU_MUTANT is its number.

    build(candidates) -> (the library, the mutants that could be compiled by number)
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml
from tables import KERNELS, ROOT, TableMutant

sys.path.insert(0, str(ROOT / "tools"))
from codegen.aclnn import write_if_changed  # noqa: E402
from codegen.entries import emit_loop  # noqa: E402

BUILD = ROOT / "build-mutants"
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
    """Compiles as often as it takes: mutants that the compiler refuses are left out."""
    mutants = dict(enumerate(candidates, 1))
    write_tables(BUILD / "tables", mutants)
    ccache = shutil.which("ccache")
    launcher = [f"-DCMAKE_CXX_COMPILER_LAUNCHER=env;CCACHE_SLOPPINESS=pch_defines,time_macros;{ccache}"] if ccache else []
    subprocess.run(["cmake", "-S", str(ROOT), "-B", str(BUILD), "-G", "Ninja", "-DNPU_TESTS=OFF", f"-DPython_EXECUTABLE={sys.executable}",
                    f"-DNPU_KERNEL_TABLES={BUILD / 'tables'}", *launcher], check=True, stdout=subprocess.DEVNULL)
    while True:
        make = subprocess.run(["cmake", "--build", str(BUILD), "--parallel", str(jobs), "--target", "opapi", "--", "-k", "0"],
                              capture_output=True, text=True)
        if make.returncode == 0:
            return BUILD / "torch_npu/softnpu/lib64/libopapi.so", mutants
        wrong = refused(make.stdout) & mutants.keys()
        if not wrong:
            raise RuntimeError(f"libopapi.so with mutants cannot be built:\n{make.stdout[-3000:]}{make.stderr[-1000:]}")
        mutants = {number: mutant for number, mutant in mutants.items() if number not in wrong}
        write_tables(BUILD / "tables", mutants)
