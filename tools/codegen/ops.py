"""Generates the adapter's operator wrappers from csrc/ops/tables/*.yaml.

A table has up to four lists, and under `includes` the headers that its expressions need beside rules.h. Structured operators
take shapes, types and strides from upstream's meta functions, and one line stands for the functional, out= and in-place forms:

    structured:
      - {op: add.Tensor, acl: aclnnAdd, scalar: aclnnAdds, fast: same, inplace: aclnnInplaceAdd}
      - {op: mm, acl: aclnnMm, args: [self, mat2, out, cube_math_type()]}

Functions state their outputs with the rules of csrc/ops/rules.h; a line names the functional form, and out= and in-place
forms that exist upstream are made from it:

    functions:
      - {op: where.self, acl: aclnnSWhere, out: "elementwise(promote(self, other), condition, self, other)"}

Operators over lists of tensors are described in foreach.py, those of the namespace npu in custom.py:

    foreach:
      - {op: _foreach_add.List, acl: aclnnForeachAddListV2}

docs/tables.md explains the keys.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path

import torchgen
from torchgen.api import meta
from torchgen.api.types import DispatcherSignature
from torchgen.context import native_function_manager
from torchgen.gen import parse_native_yaml
from torchgen.model import BackendIndex, DispatchKey, NativeFunction, NativeFunctionsGroup, SchemaKind

from . import aclnn, custom, foreach, layouts, tables
from .tables import Row

KEYS = {"op", "acl", "args", "fast", "scalar", "scalar_args", "inplace", "inplace_args", "inplace_scalar", "inplace_before", "number_first", "out", "into", "before", "after", "cpu", "cpu_scalars", "meta", "exact", "distinct", "instead"}

KEYS_OF = {"structured": KEYS, "functions": KEYS, "foreach": foreach.KEYS, "custom": custom.KEYS, "refused": custom.REFUSED_KEYS}

# In-place operators that take an expanded tensor, as upstream's do.
TAKES_EXPANDED = {"_index_put_impl_", "fill_", "index_fill_", "masked_fill_", "zero_"}


@dataclass
class Wrapper:
    """One C++ function and its registration."""

    name: str
    overload: str
    symbol: str
    code: str
    acl: str
    headers: list[str] = field(default_factory=list)


def declaration(f: NativeFunction, name: str) -> str:
    with native_function_manager(f):
        return DispatcherSignature.from_schema(f.func, symint=False).decl(name=name)


@dataclass
class Generator:
    signatures: dict[str, aclnn.Signature]
    functions: dict[str, NativeFunction]
    groups: dict[str, NativeFunctionsGroup]
    composite: BackendIndex

    def call(self, entry: Row, acl: str, arguments: list[str]) -> str:
        if acl not in self.signatures:
            raise entry.fail(f"{acl} has no line in abi/")
        arguments = [str(a).lower() if isinstance(a, bool) else str(a) for a in arguments]
        want = self.signatures[acl].arguments
        if len(want) != len(arguments):
            raise entry.fail(f"{acl} takes {len(want)} arguments ({', '.join(a.name for a in want)}), got {arguments}")
        return f"NPU_EXEC({acl}, {', '.join(arguments)});"

    def launch(self, entry: Row, arguments: list[str]) -> str:
        """The call of `acl`, or what stands `instead` of it where its condition holds."""
        usual = self.call(entry, entry["acl"], arguments)
        other = entry.get("instead")
        if not other:
            return usual
        if set(other) not in ({"when", "acl", "args"}, {"when", "acl", "launch"}):
            raise entry.fail("instead needs when, acl and either args or launch", "instead")
        taken = f"{other['launch']};" if "launch" in other else self.call(entry, other["acl"], other["args"])
        return f"if ({other['when']}) {{ {taken} }} else {{ {usual} }}"

    @staticmethod
    def names_of(entry: Row, *keys: str) -> str:
        names = [entry[key] for key in keys if key in entry] + ([entry["instead"]["acl"]] if "instead" in entry else [])
        return " ".join(dict.fromkeys(" ".join(names).split()))

    @staticmethod
    def on_cpu(entry: Row, f: NativeFunction, symbol: str) -> list[str]:
        if "cpu" not in entry:
            return []
        with native_function_manager(f):
            names = [a.name for a in DispatcherSignature.from_schema(f.func, symint=False).arguments()]
        operator = f'"aten::{f.func.name.name}", "{f.func.name.overload_name}"'
        return [f"  if ({entry['cpu']}) return on_cpu(&{symbol}, {operator}, {', '.join(names)});"]

    # ---- structured ----

    def structured(self, entry: Row) -> list[Wrapper]:
        group = self.groups.get(entry["op"])
        if group is None:
            raise entry.fail("is not a structured operator; put it under functions:")
        outputs = len(group.functional.func.returns)
        base = group.functional.func.name
        ident = f"{base.name.base}_{base.overload_name}".strip("_")
        if base.name.dunder_method or base.name.inplace:
            raise entry.fail("name the functional form")
        inputs = list(group.functional.func.arguments.flat_all)
        names = [a.name for a in inputs]
        outs = ["out"] if outputs == 1 else [f"out{i}" for i in range(outputs)]
        arguments = entry.get("args") or names + outs
        iterator = group.out.structured_inherits is not None
        binary = [a.name for a in inputs if a.type.is_tensor_like() and not a.type.is_list_like() and not a.type.is_nullable()]
        op_class = f"Op<at::meta::structured_{meta.name(group)}, {outputs}>"
        header = f"ATen/ops/{group.root_name}_meta.h"
        acl = self.names_of(entry, "acl", "scalar", "inplace", "inplace_scalar", "number_first")

        # Launch on the outputs that the meta function asked for.
        with native_function_manager(group):
            signature = DispatcherSignature.from_schema(group.functional.func, symint=False)
            parameters = "".join(f", [[maybe_unused]] {a.decl()}" for a in signature.arguments())
        lines = [f"  const Tensor& {o} = op.output({i});" for i, o in enumerate(outs)]
        if iterator and outputs == 1:
            lines.append("  if (out.numel() == 0) return;")
        if entry.get("scalar"):
            second = binary[1]
            scalar = self.scalar_arguments(entry, second, names, outs)
            lines.append(f"  if (is_cpu_scalar({second}) && is_npu({binary[0]})) {{")
            if entry.get("inplace_scalar"):
                place = [a for a in scalar if a not in outs]
                lines.append(f"    if (op.is_inplace()) {{ {self.call(entry, entry['inplace_scalar'], place)} return; }}")
            lines.append(f"    {self.call(entry, entry['scalar'], scalar)}\n    return;\n  }}")
        if entry.get("number_first"):
            first = [f"read_cpu_scalar({n})" if n == binary[0] else n for n in names] + outs
            lines.append(f"  if (is_cpu_scalar({binary[0]}) && is_npu({binary[1]})) {{ {self.call(entry, entry['number_first'], first)} return; }}")
        if iterator and len(binary) > 1:
            placed = [f"on_device({a}, op.common_dtype())" if a in binary else a for a in arguments]
        else:
            placed = arguments
        if entry.get("inplace"):
            place = entry.get("inplace_args") or [a for a in arguments if a not in outs]
            if iterator and len(binary) > 1:
                place = [f"on_device({a}, op.common_dtype())" if a in binary[1:] else a for a in place]
            otherwise = f" && !({entry['instead']['when']})" if "instead" in entry else ""
            lines.append(f"  if (op.is_inplace(){otherwise}) {{ {self.call(entry, entry['inplace'], place)} return; }}")
        lines.append("  " + self.launch(entry, placed))
        if entry.get("after"):
            lines.append(f"  {entry['after']};")
        code = f"using {ident}_op = {op_class};\nstatic void {ident}_launch({ident}_op& op{parameters}) {{\n"
        code += "\n".join(lines) + "\n}\n"

        wrappers: list[Wrapper] = []
        for f in group.functions():
            kind = f.func.kind()
            if kind not in (SchemaKind.functional, SchemaKind.out, SchemaKind.inplace):
                continue
            symbol = f"{ident}_{kind.name}"
            body = "".join(line + "\n" for line in self.on_cpu(entry, f, symbol))
            body += self.structured_body(entry, group, f, kind, ident, binary, names, outs, arguments, iterator)
            wrappers.append(Wrapper(f"aten::{f.func.name.name}", f.func.name.overload_name, symbol,
                                    (code if not wrappers else "") + f"static {declaration(f, symbol)} {{\n{body}}}\n", acl, [header]))
        return wrappers

    def structured_body(self, entry, group, f, kind, ident, binary, names, outs, arguments, iterator) -> str:
        lines = []
        given = [a.name for a in f.func.arguments.out] if kind is SchemaKind.out else ["self"] if kind is SchemaKind.inplace else []
        lists = [a.name for a in group.functional.func.arguments.flat_all if a.type.is_tensor_like() and a.type.is_list_like()]
        guard = (f"is_npu({binary[0]}) ? {binary[0]} : {binary[1]}" if iterator and len(binary) > 1
                 else binary[0] if binary else f"{lists[0]}.front()")
        lines.append(f"  CardGuard guard({guard});")
        if entry.get("before"):
            lines.append(f"  {entry['before']};")
        if not iterator and len(binary) > 1:
            every = ", ".join(f"&{n}" for n in [*binary, *(g for g in given if g not in binary)])
            lines.append(f"  check_same_device(\"{f.func.name.name}\", {{{every}}});")
        lines += self.fast_path(entry, kind, binary, names, arguments)
        form = {SchemaKind.functional: "functional", SchemaKind.out: "out", SchemaKind.inplace: "inplace"}[kind]
        lines.append(f"  {ident}_op op(Form::{form}{''.join(', ' + g for g in given)});")
        shown = entry.get("meta", {})
        call = ", ".join(shown.get(a, a) for a in self.meta_arguments(group))
        lines.append(f"  op.meta({call});")
        lines.append(f"  {ident}_launch(op{''.join(', ' + n for n in names)});")
        if kind is SchemaKind.functional:
            taken = [f"op.take({i})" for i in range(len(outs))]
            lines.append(f"  return {taken[0]};" if len(outs) == 1 else f"  return std::make_tuple({', '.join(taken)});")
        else:
            lines.append("  op.finish();")
            if len(given) == 1:
                lines.append(f"  return {given[0]};")
            else:
                lines.append(f"  return std::forward_as_tuple({', '.join(given)});")
        return "\n".join(lines) + "\n"

    @staticmethod
    def meta_arguments(group: NativeFunctionsGroup) -> list[str]:
        """Meta functions take optional tensors and scalars by reference types; everything else converts by itself."""
        out = []
        for a in group.functional.func.arguments.flat_all:
            if str(a.type) == "Tensor?":
                out.append(f"({a.name}.has_value() && {a.name}->defined() ? at::OptionalTensorRef(*{a.name}) : at::OptionalTensorRef())")
            elif str(a.type) == "Scalar?":
                out.append(f"({a.name}.has_value() ? at::OptionalScalarRef(&*{a.name}) : at::OptionalScalarRef())")
            else:
                out.append(a.name)
        return out

    def fast_path(self, entry, kind, binary, names, arguments) -> list[str]:
        fast = entry.get("fast")
        if not fast or kind is SchemaKind.out:
            return []
        scalars = [a for a in ("alpha", "value") if a in names]
        real = f" && all_real({', '.join(scalars)})" if scalars else ""
        same = "fast_inplace" if kind is SchemaKind.inplace else "fast_same"
        test = f"fast_unary({binary[0]})" if fast == "unary" else f"{same}({binary[0]}, {binary[1]})"
        dtype = "at::kBool" if fast == "bool" else f"{binary[0]}.scalar_type()"
        lines = []

        def add(condition: str, acl: str, acl_args: list[str]) -> None:
            if kind is SchemaKind.inplace:
                if fast == "bool":
                    return
                target = [a if a != "out" else "self" for a in acl_args]
                lines.append(f"  if ({condition}{real}) {{ {self.call(entry, acl, target)} return self; }}")
            else:
                make = f"Tensor out = empty_same({binary[0]}, {dtype});"
                lines.append(f"  if ({condition}{real}) {{ {make} {self.call(entry, acl, acl_args)} return out; }}")

        if kind is SchemaKind.inplace and entry.get("inplace"):
            add(test, entry["inplace"], entry.get("inplace_args") or [a for a in arguments if a != "out"])
        else:
            add(test, entry["acl"], arguments)
        if entry.get("scalar"):
            second = binary[1]
            scalar = self.scalar_arguments(entry, second, names, ["out"])
            if kind is SchemaKind.inplace and entry.get("inplace_scalar"):
                add(f"fast_scalar({binary[0]}, {second})", entry["inplace_scalar"], [a for a in scalar if a != "out"])
            else:
                add(f"fast_scalar({binary[0]}, {second})", entry["scalar"], scalar)
        return lines

    @staticmethod
    def scalar_arguments(entry: Row, second: str, names: list[str], outs: list[str]) -> list[str]:
        return entry.get("scalar_args") or [f"read_cpu_scalar({second})" if n == second else n for n in names] + outs

    # ---- functions ----

    def function(self, entry: Row) -> list[Wrapper]:
        f = self.functions.get(entry["op"])
        if f is None:
            raise entry.fail("is not in native_functions.yaml")
        if entry["op"] in self.groups:
            raise entry.fail("is structured; put it under structured:")
        if f.has_composite_implicit_autograd_kernel:
            raise entry.fail("is CompositeImplicitAutograd: registering it would lose its autograd formula")
        variants = self.variants(f) if f.func.kind() is SchemaKind.functional else []
        return [self.function_wrapper(entry, f), *(self.variant(entry, f, v) for v in variants)]

    def variants(self, f: NativeFunction) -> list[NativeFunction]:
        """Hand-registered out= and in-place forms of `f` that upstream does not compose."""
        want = f.func.signature()
        found = []
        for g in self.functions.values():
            if g is f or g.func.kind() not in (SchemaKind.out, SchemaKind.inplace) or g.func.name.name.base != f.func.name.name.base:
                continue
            if g.func.signature() == want and not g.has_composite_kernel:
                found.append(g)
        return found

    def output_names(self, f: NativeFunction) -> list[str]:
        n = len(f.func.returns)
        return ["out"] if n == 1 else [f"out{i}" for i in range(n)]

    def guard(self, entry: Row, f: NativeFunction) -> list[str]:
        tensors = [a for a in f.func.arguments.flat_all if a.type.is_tensor_like()]
        plain = [a.name for a in tensors if not a.type.is_list_like() and not a.type.is_nullable()]
        lists = [a.name for a in tensors if a.type.is_list_like() and not a.type.is_nullable()]
        lines = [f"  CardGuard guard({(plain or lists)[0]});"] if plain or lists else []
        if entry.get("cpu_scalars"):
            first = lists[0] if lists else f"first_npu({{{', '.join('&' + p for p in plain)}}})"
            lines = [f"  CardGuard guard({first});"]
        elif len(plain) > 1:
            lines.append(f"  check_same_device(\"{f.func.name.name}\", {{{', '.join('&' + p for p in plain)}}});")
        if entry.get("before"):
            lines.append(f"  {entry['before']};")
        return lines

    def rules(self, entry: Row, outs: list[str], key: str = "out") -> list[str]:
        rules: list = entry[key] if isinstance(entry.get(key), list) else [entry.get(key)]
        if None in rules or len(rules) != len(outs):
            raise entry.fail(f"has {len(outs)} outputs, rules given: {entry.get('out')}", "out")
        return rules

    def into(self, entry: Row, f: NativeFunction, given: list[str], outs: list[str]) -> list[str]:
        """Launch into out= tensors: directly when they fit, else through a stand-in that is copied back."""
        names = [a.name for a in f.func.arguments.flat_non_out]
        inputs = [a.name for a in f.func.arguments.flat_non_out if a.type.is_tensor_like() and not a.type.is_list_like() and not a.type.is_nullable()]
        more = f", {{{', '.join('&' + n for n in inputs)}}}" + (", Target::Type::exact" if entry.get("exact") else "")
        lines = [f"  at::assert_no_overlap({g}, {n});" for g in given for n in inputs] if entry.get("distinct") else []
        lines += [f"  Target target{i}({g}, {rule}{more});" for i, (g, rule) in enumerate(zip(given, self.rules(entry, outs, "into" if "into" in entry else "out")))]
        bind = " ".join(f"const Tensor& {o} = target{i}.tensor();" for i, o in enumerate(outs))
        lines.append(f"  {{ {bind} {self.launch(entry, entry.get('args') or names + outs)} }}")
        lines += [f"  target{i}.finish();" for i in range(len(given))]
        lines.append(f"  return {given[0]};" if len(given) == 1 else f"  return std::forward_as_tuple({', '.join(given)});")
        return lines

    @staticmethod
    def no_overlap(f: NativeFunction) -> list[str]:
        self_argument = f.func.arguments.self_arg.argument if f.func.arguments.self_arg else None
        if self_argument is None or self_argument.type.is_list_like() or str(f.func.name.name) in TAKES_EXPANDED:
            return []
        return ["  at::assert_no_internal_overlap(self);"]

    def wrapper(self, entry: Row, f: NativeFunction, lines: list[str]) -> Wrapper:
        name, kind = f.func.name, f.func.kind()
        symbol = f"{name.name.base}_{name.overload_name}".strip("_") + f"_{kind.name}"
        body = "\n".join(self.on_cpu(entry, f, symbol) + self.guard(entry, f) + lines)
        acl = self.names_of(entry, "acl", "inplace")
        return Wrapper(f"aten::{name.name}", name.overload_name, symbol, f"static {declaration(f, symbol)} {{\n{body}\n}}\n", acl)

    def function_wrapper(self, entry: Row, f: NativeFunction) -> Wrapper:
        names = [a.name for a in f.func.arguments.flat_all]
        kind = f.func.kind()
        if kind is SchemaKind.functional:
            outs = self.output_names(f)
            lines = [f"  Tensor {o} = make({rule});" for o, rule in zip(outs, self.rules(entry, outs))]
            lines.append("  " + self.launch(entry, entry.get("args") or names + outs))
            lines.append(f"  return {outs[0]};" if len(outs) == 1 else f"  return std::make_tuple({', '.join(outs)});")
        elif kind is SchemaKind.inplace:
            lines = self.no_overlap(f) + ["  " + self.launch(entry, entry.get("args") or names)]
            lines += ["  return self;"] if f.func.returns else []
        elif kind is SchemaKind.out:
            given = [a.name for a in f.func.arguments.out]
            lines = self.into(entry, f, given, given if len(given) > 1 else ["out"])
        else:
            lines = ["  " + self.call(entry, entry["acl"], entry.get("args") or names)]
        return self.wrapper(entry, f, lines)

    def variant(self, entry: Row, f: NativeFunction, v: NativeFunction) -> Wrapper:
        """The out= or in-place form of a functional entry."""
        names = [a.name for a in f.func.arguments.flat_all]
        outs = self.output_names(f)
        if v.func.kind() is SchemaKind.out:
            return self.wrapper(entry, v, self.into(entry, v, [a.name for a in v.func.arguments.out], outs))
        if entry.get("inplace"):
            arguments = entry.get("inplace_args") or [a for a in (entry.get("args") or names + outs) if a not in outs]
            checks = [f"  {entry['inplace_before']};"] if entry.get("inplace_before") else []
            return self.wrapper(entry, v, [*checks, *self.no_overlap(v), f"  {self.call(entry, entry['inplace'], arguments)}", "  return self;"])
        base = f"{f.func.name.name.base}_{f.func.name.overload_name}".strip("_") + "_functional"
        return self.wrapper(entry, v, [f"  return store(self, {base}({', '.join(names)}));"])


    # ---- lists ----

    def foreach(self, entry: Row) -> list[Wrapper]:
        wrappers = []
        for f in foreach.forms(entry, self.functions):
            name = f.func.name
            symbol = f"{name.name}_{name.overload_name}".strip("_") + f"_{f.func.kind().name}"
            code = f"static {declaration(f, symbol)} {{\n{foreach.body(entry, f, self.call, self.composite)}}}\n"
            wrappers.append(Wrapper(f"aten::{name.name}", name.overload_name, symbol, code, entry["acl"],
                                    [f"ATen/ops/{f.root_name}_native.h"]))
        return wrappers


HEADER = """// Generated by tools/codegen/ops.py from csrc/ops/tables/*.yaml. Do not edit.
#include "ops/register.h"
#include "ops/rules.h"
#include "ops/structured.h"
{includes}

namespace npu::ops {{
namespace {{

"""


def emit(table: str, headers: list[str], wrappers: list[Wrapper], customs: list[custom.Operator],
         refused: list[Row], every: dict[str, custom.Operator], call) -> str:
    includes = [f'#include "ops/{h}"' for h in headers] + [f"#include <{h}>" for h in sorted({h for w in wrappers for h in w.headers})]
    text = HEADER.format(includes="\n".join(includes) + ("\n" + custom.INCLUDES if customs or refused else ""))
    text += "\n".join(w.code for w in wrappers)
    text += "\n}  // namespace\n\n"
    text += custom.emit(customs, every, call, tables.attributed) if customs else ""
    text += custom.emit_refused(refused) if refused else ""
    text += f"\nNPU_REGISTER({table}) {{\n"
    text += "".join(f'  reg("{w.name}", "{w.overload}", &{w.symbol}, "{w.acl}");\n' for w in wrappers)
    text += "".join(op.registration() for op in customs)
    return text + "}\n\n}  // namespace npu::ops\n"


def emit_types(signatures: dict[str, aclnn.Signature]) -> str:
    text = "// Generated by tools/codegen/ops.py from abi/aclnn.yaml: the C argument types of every operator. Do not edit.\n"
    text += "#pragma once\n\n#include \"aclnn.h\"\n\nnamespace npu::ops::abi {\n\ntemplate <class... C>\nstruct Abi {};\n\n"
    text += "".join(f"using {name} = Abi<{', '.join(s.c_types)}>;\n" for name, s in signatures.items())
    return text + "\n}  // namespace npu::ops::abi\n"


def emit_outputs(signatures: dict[str, aclnn.Signature]) -> str:
    """Which of its tensor arguments an operator writes: a bit for each, a list being one."""
    lines = []
    for name, signature in signatures.items():
        tensors = [a for a in signature.arguments if a.type.startswith("Tensor")]
        lines.append(f'{{"{name}", {sum(a.written << i for i, a in enumerate(tensors))}ull}},\n')
    return "".join(lines)


@dataclass
class Table:
    includes: list[str] = field(default_factory=list)
    entries: list[tuple[str, Row]] = field(default_factory=list)  # (section, row)


def load_tables(folder: Path) -> dict[str, Table]:
    found: dict[str, Table] = {}
    for file in sorted(folder.glob("*.yaml")):
        table = tables.read(file)
        found[file.stem] = Table(table.pop("includes", []))
        for section in table:
            if section not in KEYS_OF:
                raise table.fail(f"unknown section {section}", section)
            for entry in table[section] or []:
                if unknown := set(entry) - KEYS_OF[section]:
                    raise entry.fail(f"unknown keys {', '.join(sorted(unknown))}", min(unknown))
                found[file.stem].entries.append((section, entry))
    return found


def load_upstream() -> tuple[dict[str, NativeFunction], dict[str, NativeFunctionsGroup], BackendIndex]:
    from torchgen.gen import get_grouped_native_functions

    native = Path(torchgen.__file__).parent / "packaged/ATen/native"
    parsed = parse_native_yaml(str(native / "native_functions.yaml"), str(native / "tags.yaml"))
    functions = {str(f.func.name): f for f in parsed.native_functions}
    groups = {str(g.functional.func.name): g for g in get_grouped_native_functions(parsed.native_functions)
              if isinstance(g, NativeFunctionsGroup) and g.structured}
    return functions, groups, parsed.backend_indices[DispatchKey.CompositeExplicitAutograd]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--abi", type=Path, required=True)
    parser.add_argument("--tables", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()

    generator = Generator(aclnn.load(options.abi), *load_upstream())
    found = load_tables(options.tables)
    customs = {name: [custom.Operator.read(row) for section, row in table.entries if section == "custom"] for name, table in found.items()}
    every = {op.symbol: op for operators in customs.values() for op in operators}
    seen: dict[str, str] = {}  # registration -> where
    for name, table in found.items():
        wrappers = []
        for section, entry in table.entries:
            make = {"structured": generator.structured, "functions": generator.function, "foreach": generator.foreach}.get(section)
            unit = make(entry) if make else []
            for key in [f"{w.name}.{w.overload}" for w in unit] or [f"npu::{entry['op'].partition('(')[0]}"]:
                if key in seen:
                    raise entry.fail(f"{key} is registered by {seen[key]} as well")
                seen[key] = f"{entry.file}:{entry.line}"
            for w in unit:
                w.code = tables.attributed(w.code, entry.file, entry.line)
            wrappers += unit
        refused = [row for section, row in table.entries if section == "refused"]
        text = emit(name, table.includes, wrappers, customs[name], refused, every, generator.call)
        aclnn.write_if_changed(options.out / f"{name}_ops.cpp", text)
    parsed = layouts.load()
    for layout in layouts.LAYOUTS:
        aclnn.write_if_changed(options.out / f"{layout.lower()}_layout.cpp", layouts.emit(layout, parsed))
    aclnn.write_if_changed(options.out / "aclnn_types.h", emit_types(generator.signatures))
    aclnn.write_if_changed(options.out / "aclnn_outputs.inc", emit_outputs(generator.signatures))


if __name__ == "__main__":
    main()
