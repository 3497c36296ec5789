"""Generates softnpu's C entry points: two functions for every operator that has a line in softnpu/kernels/tables/*.yaml.

A kernel table maps an operator to a C++ statement over the argument names of abi/aclnn.yaml:

    includes: [ATen/CPUFunctions.h]      # headers the statements need
    workspace: true                      # operators of this file ask for scratch memory (default false)
    trial: false                         # do not try them, see Note [Trial run] in trial.h (default true)
    wide: [aclnnCdist]                   # float16 and bfloat16 in float32, see Note [Wide kernels] in wide.h
    formatted:                           # arguments that may be in private formats, see Note [Private formats] in format.h
      aclnnMatmulWeightNz: [mat2]
    require:                             # checked in phase one, see require.h; for what the kernel does not check
      aclnnSwiGlu: that(self.dim() > 0, "self has no dimensions")
    bounds:                              # checked when the task runs, see bounds.h; the numbers in index tensors
      softnpuLuSolve: within(pivots, "pivots", 1, lu.size(-2))
    kernels:
      aclnnAdd: at::cpu::add_out(out, self, other, alpha)
    collectives:                         # before or behind the kernel, see engine/collective.h
      aclnnMatmulAllReduceV2: all_reduce(hcom, out)
    max_workspace: [aclnnFusedInferAttentionScoreV3]  # asked for the most memory that shapes like these may take, too
    before:                              # a statement before such a collective, where the kernel comes behind it
      aclnnMoeDistributeDispatch: send_tokens(call, x, expert_ids)
    operators:                           # signatures of operators of the interface before aclnn, see legacy.py; they have kernels and
      Mul: (Tensor x1, Tensor x2, Tensor! y)  # checks as the others have, and register themselves instead of having C functions
    refused:                             # operators that exist on CANN alone: phase one answers "not supported" and why
      aclnnMatmulCompressDequant: the layout of compressed weights is not published

An elementwise operator may name the ATen loop behind it as well, with its operands, then `;` and further arguments; it
runs on an iterator that cached calls keep (Note [Prepared iterators] in call.h):

      aclnnAdd: [at::cpu::add_out(out, self, other, alpha), "add_stub(out, self, other; alpha)"]

So may a reduction, which names what it reduces behind its operands:

      aclnnAmax: [at::cpu::amax_out(out, self, dim, keepdim), "max_values_stub(out, self | dim, keepdim, out.scalar_type())"]
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path

from . import aclnn, legacy, tables
from .tables import Row

SECTIONS = {"includes", "workspace", "trial", "wide", "require", "bounds", "kernels", "collectives", "before", "formatted", "max_workspace", "refused",
            "operators"}
LOOP = re.compile(r"(\w+)\(([^;]*)(?:; (.*))?\)")


@dataclass
class Check:
    """A row of `require` or `bounds`."""

    code: str
    file: Path
    line: int

    @classmethod
    def of(cls, table: Row, section: str, name: str) -> Check | None:
        rows = table.get(section, {})
        return cls(rows[name], rows.file, rows.lines[name]) if name in rows else None

    def statement(self, namespace: str) -> str:
        return f"  using namespace {namespace};\n" + tables.attributed(f"  {self.code};", self.file, self.line)


@dataclass
class Kernel:
    signature: aclnn.Signature
    statement: str
    loop: str
    require: Check | None
    bounds: Check | None
    collective: Check | None
    before: Check | None
    workspace: bool
    trial: bool
    wide: bool
    formatted: list[str]
    max_workspace: bool
    file: Path
    line: int

    def body(self) -> str:
        """The compiler's messages name the row, or the generated line if the row has several."""
        code = f"{emit_loop(self.loop)}  {self.statement};"
        return f"{code}\n" if "\n" in self.statement else tables.attributed(code, self.file, self.line)


@dataclass
class Refused:
    """An operator of CANN that softnpu has by name only."""

    signature: aclnn.Signature
    reason: str

    def emit(self) -> str:
        name, arguments = self.signature.name, self.signature.arguments
        parameters = ", ".join(f"{c} {a.name}" for c, a in zip(self.signature.c_types, arguments))
        names = ",".join(a.name for a in arguments)
        return f"""
static const Operator op_{name}{{"{name}", nullptr, nullptr, "{names}", Operator::Shape::free, ~0ull, 0, ~0ull, false, false, false}};
ENTRY int {name}GetWorkspaceSize({parameters}, uint64_t*, aclOpExecutor**) {{
  return refuse(op_{name}, {{{names.replace(",", ", ")}}}, "{self.reason}");
}}
ENTRY int {name}(void* workspace, uint64_t workspace_size, aclOpExecutor* executor, aclrtStream stream) {{
  return launch(op_{name}, workspace, workspace_size, executor, stream);
}}
"""


@dataclass
class Table:
    name: str
    includes: list[str]
    kernels: list[Kernel]
    refused: list[Refused]


def load_tables(folder: Path, signatures: dict[str, aclnn.Signature]) -> list[Table]:
    found: list[Table] = []
    seen: dict[str, str] = {}
    for file in sorted(folder.glob("*.yaml")):
        table = tables.read(file)
        if unknown := set(table) - SECTIONS:
            raise table.fail(f"unknown section {min(unknown)}", min(unknown))
        rows, wide, max_workspace = table.get("kernels", {}), table.get("wide", []), table.get("max_workspace", [])
        for section, names in (("wide", wide), ("max_workspace", max_workspace)):
            if missing := set(names) - set(rows):
                raise table.fail(f"{', '.join(sorted(missing))} has no kernel in this table", section)
        for section in ("require", "bounds", "collectives", "before", "formatted"):
            if missing := set(checks := table.get(section, {})) - set(rows):
                raise checks.fail(f"{min(missing)} has no kernel in this table", min(missing))
        known = signatures | (own := legacy_signatures(table))
        if missing := set(own) - set(rows):
            raise table["operators"].fail(f"{min(missing)} has no kernel in this table", min(missing))
        for named in filter(None, (rows, table.get("refused"))):
            for name in named:
                if name not in known:
                    raise named.fail(f"{name} has no signature in abi/", name)
                if name in seen:
                    raise named.fail(f"{name} has a kernel already, in {seen[name]}", name)
                seen[name] = f"{named.file}:{named.lines[name]}"
        kernels = []
        for name, code in rows.items():
            statement, loop = code if isinstance(code, list) else (code, "")
            if loop and not LOOP.fullmatch(loop):
                raise rows.fail(f"cannot read loop {loop!r}", name)
            if "|" in loop and name in wide:
                raise rows.fail(f"{name} is wide: its tensors are others in each run, but the iterator of a reduction keeps its own", name)
            kernels.append(Kernel(known[name], statement, loop, Check.of(table, "require", name), Check.of(table, "bounds", name),
                                  Check.of(table, "collectives", name), Check.of(table, "before", name), table.get("workspace", False),
                                  table.get("trial", True), name in wide, formatted_arguments(table, name, known[name]),
                                  name in max_workspace, rows.file,
                                  rows.lines[name]))
        refused = [Refused(signatures[name], reason) for name, reason in table.get("refused", {}).items()]
        found.append(Table(file.stem, table.get("includes", []), kernels, refused))
    return found


def legacy_signatures(table: Row) -> dict[str, aclnn.Signature]:
    rows = table.get("operators", {})
    found: dict[str, aclnn.Signature] = {}
    for name, text in rows.items():
        try:
            found[name] = legacy.parse(name, text)
        except ValueError as error:
            raise rows.fail(str(error), name) from None
    return found


def formatted_arguments(table: Row, name: str, signature: aclnn.Signature) -> list[str]:
    """Operators of the older interface take every argument in every format."""
    if isinstance(signature, legacy.Signature):
        return [a.name for a in signature.arguments if a.type in legacy.INPUTS]
    rows = table.get("formatted", {})
    names = rows.get(name, [])
    if unknown := set(names) - {a.name for a in signature.arguments}:
        raise rows.fail(f"{name} has no argument {min(unknown)}", name)
    return names


def dtype_mask(name: str) -> str:
    names = aclnn.DTYPE_SETS[name]
    return "~0ull" if names is None else " | ".join(f"1ull << int(at::ScalarType::{n})" for n in names)


def emit_loop(loop: str) -> str:
    if not loop:
        return ""
    match = LOOP.fullmatch(loop)
    assert match, loop
    rest = f", {match[3]}" if match[3] else ""
    kind = "reduction" if "|" in match[2] else "iterator"
    return f"  if (auto* loop = call.{kind}({match[2].replace(' |', ',')})) return at::native::{match[1]}(at::kCPU, *loop{rest});\n"


def bound(signature: aclnn.Signature, types: dict[str, tuple[str, str, str]]) -> str:
    """The arguments as variables of the kernel."""
    return "\n".join(f"  [[maybe_unused]] {types[a.type][2]} {a.name} = call.{types[a.type][1]}({i});" for i, a in enumerate(signature.arguments))


def definition(kernel: Kernel, variables: str) -> str:
    """What an operator has in either interface: its kernel, its checks, and the Operator that names them."""
    signature, name = kernel.signature, kernel.signature.name
    bits = {"written": 0, "optional": 0, "formatted": 0}
    for i, a in enumerate(signature.arguments):
        bits["written"] |= a.written << i
        bits["formatted"] |= (a.name in kernel.formatted) << i
        bits["optional"] |= (a.optional or a.type == "Tensor[]") << i
    arguments = ",".join(a.name for a in signature.arguments)
    require = f"\nstatic void require_{name}(Call& call) {{\n{variables}\n{kernel.require.statement('require')}}}" if kernel.require else ""
    bounds = f"  {{\n{kernel.bounds.statement('bounds')}  }}\n" if kernel.bounds else ""
    return f"""{require}
static void run_{name}(Call& call) {{
{variables}
{bounds}{kernel.body()}}}
static const Operator op_{name}{{"{name}", &run_{name}, {f"&require_{name}" if require else "nullptr"}, "{arguments}", Operator::Shape::{signature.shape},
    {dtype_mask(signature.dtypes)}, {bits["written"]}ull, {bits["optional"]}ull, {str(kernel.workspace).lower()}, {str(kernel.trial).lower()},
    {str(kernel.wide).lower()}, {bits["formatted"]}ull}};
"""


def emit(kernel: Kernel) -> str:
    signature, name = kernel.signature, kernel.signature.name
    if isinstance(signature, legacy.Signature):
        return definition(kernel, bound(signature, legacy.TYPES)) + legacy.registration(signature)
    variables = bound(signature, aclnn.TYPES)
    parameters = ", ".join(f"{c} {a.name}" for c, a in zip(signature.c_types, signature.arguments))
    names = ", ".join(a.name for a in signature.arguments)
    arguments = ",".join(a.name for a in signature.arguments)
    collective = f"static Collective collective_{name}(Call& call) {{\n{variables}\n  return {kernel.collective.code};\n}}\n" if kernel.collective else ""
    before = f"""static void before_{name}(Call& call) {{\n{variables}\n{tables.attributed(f"  {kernel.before.code};", kernel.before.file, kernel.before.line)}}}
static const Operator first_{name}{{"{name}", &before_{name}, nullptr, "{arguments}", Operator::Shape::free, ~0ull, 0, 0, true, false, false}};
""" if kernel.before else ""
    max_workspace = f"""ENTRY int {name}GetMaxWorkspaceSize({parameters}, uint64_t* workspace_size_, aclOpExecutor** executor_) {{
  return plan(op_{name}, {{{names}}}, workspace_size_, executor_);  // the client destroys the executor
}}
""" if kernel.max_workspace else ""
    return f"""{definition(kernel, variables)}ENTRY int {name}GetWorkspaceSize({parameters}, uint64_t* workspace_size_, aclOpExecutor** executor_) {{
  return plan(op_{name}, {{{names}}}, workspace_size_, executor_);
}}
{max_workspace}{collective}{before}ENTRY int {name}(void* workspace, uint64_t workspace_size, aclOpExecutor* executor, aclrtStream stream) {{
  return launch(op_{name}, {f"&collective_{name}, {f'&first_{name}' if before else 'nullptr'}, " if collective else ""}workspace, workspace_size, executor, stream);
}}
"""


HEADER = """// Generated by tools/codegen/entries.py from abi/aclnn.yaml and softnpu/kernels/tables/*.yaml. Do not edit.
#include "kernels/engine/bounds.h"
#include "kernels/engine/legacy.h"
#include "kernels/engine/plan.h"
#include "kernels/engine/require.h"
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
        includes = "\n".join(f'#include "kernels/{i}"' if i.startswith(("engine/", "families/")) else f"#include <{i}>" for i in table.includes)
        text = HEADER.format(includes=includes) + "".join(map(emit, table.kernels)) + "".join(row.emit() for row in table.refused)
        aclnn.write_if_changed(options.out / f"{table.name}_entries.cpp", text)


if __name__ == "__main__":
    main()
