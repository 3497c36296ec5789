"""Generates softnpu's C entry points: two functions for every operator that has a line in softnpu/kernels/*.yaml.

A kernel table maps an operator to a C++ statement over the argument names of abi/aclnn.yaml:

    includes: [ATen/CPUFunctions.h]      # headers the statements need
    workspace: true                      # operators of this file ask for scratch memory (default false)
    trial: false                         # do not try them, see Note [Trial run] in trial.h (default true)
    wide: [aclnnCdist]                   # float16 and bfloat16 in float32, see Note [Wide kernels] in wide.h
    require:                             # checked in phase one, see require.h; for what the kernel does not check
      aclnnSwiGlu: that(self.dim() > 0, "self has no dimensions")
    bounds:                              # checked when the task runs, see bounds.h; the numbers in index tensors
      softnpuLuSolve: within(pivots, "pivots", 1, lu.size(-2))
    kernels:
      aclnnAdd: at::cpu::add_out(out, self, other, alpha)

An elementwise operator may name the ATen loop behind it as well, with its operands, then `;` and further arguments; it
runs on an iterator that cached calls keep (Note [Prepared iterators] in call.h):

      aclnnAdd: [at::cpu::add_out(out, self, other, alpha), "add_stub(out, self, other; alpha)"]
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from . import aclnn


@dataclass
class Kernel:
    signature: aclnn.Signature
    statement: str
    loop: str
    require: str
    bounds: str
    workspace: bool
    trial: bool
    wide: bool


@dataclass
class Table:
    name: str
    includes: list[str]
    kernels: list[Kernel]


def load_tables(folder: Path, signatures: dict[str, aclnn.Signature]) -> list[Table]:
    tables, seen = [], set()
    for file in sorted(folder.glob("*.yaml")):
        table = yaml.load(file.read_text(), yaml.CSafeLoader)
        kernels, wide = [], table.get("wide", [])
        if missing := set(wide) - set(table["kernels"]):
            raise SystemExit(f"{file.name}: wide names {', '.join(sorted(missing))}, which has no kernel in this table")
        for name, statement in table["kernels"].items():
            if name not in signatures:
                raise SystemExit(f"{file.name}: {name} has no signature in abi/")
            if name in seen:
                raise SystemExit(f"{file.name}: {name} has a kernel already")
            statement, loop = statement if isinstance(statement, list) else (statement, "")
            seen.add(name)
            workspace, trial = table.get("workspace", False), table.get("trial", True)
            require, bounds = (table.get(key, {}).pop(name, "") for key in ("require", "bounds"))
            kernels.append(Kernel(signatures[name], statement, loop, require, bounds, workspace, trial, name in wide))
        for name in {**table.get("require", {}), **table.get("bounds", {})}:
            raise SystemExit(f"{file.name}: {name} has requirements but no kernel")
        tables.append(Table(file.stem, table.get("includes", []), kernels))
    return tables


def dtype_mask(name: str) -> str:
    names = aclnn.DTYPE_SETS[name]
    return "~0ull" if names is None else " | ".join(f"1ull << int(at::ScalarType::{n})" for n in names)


def emit_loop(loop: str) -> str:
    if not loop:
        return ""
    match = re.fullmatch(r"(\w+)\(([^;]*)(?:; (.*))?\)", loop)
    if not match:
        raise SystemExit(f"cannot read loop {loop!r}")
    rest = f", {match[3]}" if match[3] else ""
    return f"  if (auto* loop = call.iterator({match[2]})) return at::native::{match[1]}(at::kCPU, *loop{rest});\n"


def emit(kernel: Kernel) -> str:
    signature, name = kernel.signature, kernel.signature.name
    bind, bits = [], {"written": 0, "optional": 0}
    for i, a in enumerate(signature.arguments):
        _, accessor, cpp = aclnn.TYPES[a.type]
        bind.append(f"  [[maybe_unused]] {cpp} {a.name} = call.{accessor}({i});")
        bits["written"] |= a.written << i
        bits["optional"] |= (a.optional or a.type == "Tensor[]") << i
    parameters = ", ".join(f"{c} {a.name}" for c, a in zip(signature.c_types, signature.arguments))
    names = ", ".join(a.name for a in signature.arguments)
    arguments = ",".join(a.name for a in signature.arguments)
    newline = "\n"
    bound = newline.join(bind)
    require = ""
    if kernel.require:
        require = f"\nstatic void require_{name}(Call& call) {{\n  using namespace require;\n{bound}\n  {kernel.require};\n}}"
    bounds = f"  {{\n    using namespace bounds;\n    {kernel.bounds};\n  }}\n" if kernel.bounds else ""
    return f"""{require}
static void run_{name}(Call& call) {{
{bound}
{bounds}{emit_loop(kernel.loop)}  {kernel.statement};
}}
static const Operator op_{name}{{"{name}", &run_{name}, {f"&require_{name}" if require else "nullptr"}, "{arguments}", Operator::Shape::{signature.shape},
    {dtype_mask(signature.dtypes)}, {bits["written"]}ull, {bits["optional"]}ull, {str(kernel.workspace).lower()}, {str(kernel.trial).lower()},
    {str(kernel.wide).lower()}}};
ENTRY int {name}GetWorkspaceSize({parameters}, uint64_t* workspace_size_, aclOpExecutor** executor_) {{
  return plan(op_{name}, {{{names}}}, workspace_size_, executor_);
}}
ENTRY int {name}(void* workspace, uint64_t workspace_size, aclOpExecutor* executor, aclrtStream stream) {{
  return launch(op_{name}, workspace, workspace_size, executor, stream);
}}
"""


HEADER = """// Generated by tools/codegen/entries.py from abi/aclnn.yaml and softnpu/kernels/*.yaml. Do not edit.
#include "bounds.h"
#include "plan.h"
#include "require.h"
{includes}

#define ENTRY extern "C" __attribute__((visibility("default")))

using namespace softnpu::kernels;
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--abi", type=Path, required=True)
    parser.add_argument("--kernels", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    for table in load_tables(options.kernels, aclnn.load(options.abi)):
        includes = "\n".join(f'#include "{i}"' if i.endswith(".h") and "/" not in i else f"#include <{i}>" for i in table.includes)
        text = HEADER.format(includes=includes) + "".join(map(emit, table.kernels))
        aclnn.write_if_changed(options.out / f"{table.name}_entries.cpp", text)


if __name__ == "__main__":
    main()
