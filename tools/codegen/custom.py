"""Operators of the namespace npu (`custom:` in csrc/ops/tables/*.yaml): schema, meta function, device kernel and autograd from one row.

    custom:
      - op: npu_rms_norm(Tensor input, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor)
        acl: aclnnRmsNorm
        out: [like(input), "reduced(input, gamma.dim(), at::kFloat)"]
        grad: {"input, gamma": "npu_rms_norm_backward(grad, input, gamma, out1)"}

The page docs/tables.md explains the keys. One C++ function serves the card and meta tensors: it checks, makes the outputs by the rules
of csrc/ops/results.h, which know symbolic sizes, and launches if there is a card. Every operator that a row defines can be called
from C++ as npu::ops::call::NAME.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from torchgen.api.types import DispatcherSignature
from torchgen.model import Argument, FunctionSchema

from .tables import Row

KEYS = {"op", "acl", "args", "out", "check", "grad", "returns", "on", "older"}
OLDER_KEYS = {"acl", "args", "when"}

# C++ type of an argument -> type of the member of a node that keeps it for the backward pass.
KEPT = {
    "at::IntArrayRef": "std::vector<int64_t>", "c10::SymIntArrayRef": "std::vector<c10::SymInt>", "at::OptionalIntArrayRef": "std::optional<std::vector<int64_t>>",
    "at::OptionalSymIntArrayRef": "std::optional<std::vector<c10::SymInt>>", "c10::string_view": "std::string",
    "std::optional<c10::string_view>": "std::optional<std::string>", "const at::Scalar &": "at::Scalar", "::std::optional<at::IntArrayRef>": "std::optional<std::vector<int64_t>>",
}  # fmt: skip


@dataclass
class Operator:
    """A row and what follows from its schema."""

    row: Row
    schema: FunctionSchema
    arguments: list[Argument] = field(default_factory=list)

    @classmethod
    def read(cls, row: Row) -> Operator:
        try:
            schema = FunctionSchema.parse(row["op"])
        except (AssertionError, RuntimeError, ValueError) as error:
            raise row.fail(f"torchgen cannot read the schema: {error}", "op") from None
        row["op"] = str(schema.name)
        return cls(row, schema, list(schema.arguments.flat_all))

    @property
    def symbol(self) -> str:
        return str(self.schema.name).replace(".", "_")

    @property
    def signature(self) -> DispatcherSignature:
        return DispatcherSignature.from_schema(self.schema, symint=True)

    @property
    def names(self) -> list[str]:
        return [a.name for a in self.arguments]

    @property
    def returned(self) -> list[str]:
        """C++ type of each result."""
        return [str(r.type) for r in self.schema.returns]

    @property
    def mutated(self) -> list[str]:
        return [a.name for a in self.arguments if a.annotation is not None and a.annotation.is_write]

    @property
    def outs(self) -> list[str]:
        """Names of the tensors that the operator makes."""
        if self.mutated and not self.row.get("out"):
            return []
        made = [t for t in self.returned if t == "Tensor"]
        return ["out"] if len(made) == 1 else [f"out{i}" for i in range(len(made))]

    def is_required(self, argument: Argument) -> bool:
        return str(argument.type) == "Tensor"

    @property
    def device(self) -> str:
        """The tensor whose card the operator runs on."""
        if "on" in self.row:
            return self.row["on"]
        plain = [a.name for a in self.arguments if self.is_required(a)]
        lists = [a.name for a in self.arguments if str(a.type) == "Tensor[]"]
        if not plain and not lists:
            raise self.row.fail("no argument says which card it runs on: name one under `on`")
        return plain[0] if plain else f"first({lists[0]})"

    # ---- device and meta ----

    def kernel(self, call) -> str:
        row, outs = self.row, self.outs
        rules = row.get("out", []) if isinstance(row.get("out", []), list) else [row["out"]]
        if len(rules) != len(outs):
            raise row.fail(f"makes {len(outs)} tensors, rules given: {rules}", "out")
        lines = [f"  {row['check']};"] if row.get("check") else []
        lines += [f"  const Tensor& on = {self.device};"]
        lines += [f"  Tensor {o} = make(on, {rule});" for o, rule in zip(outs, rules)]
        tensors = ", ".join(f"&{a.name}" for a in self.arguments if self.is_required(a))
        device = ["    CardGuard guard(on);"]
        if tensors.count("&") > 1:
            device.append(f'    check_same_device("{self.schema.name}", {{{tensors}}});')
        device += [f"    {line}" for line in self.launches(call)]
        lines += ["  if (is_npu(on)) {", *device, "  }", f"  return {self.result()};" if self.returned else "  return;"]
        return f"static {self.signature.decl(name=self.symbol)} {{\n" + "\n".join(lines) + "\n}\n"

    def launches(self, call) -> list[str]:
        default = [*self.names, *self.outs]
        older = self.row.get("older")
        newest = call(self.row, self.row["acl"], self.row.get("args") or default)
        if not older:
            return [newest]
        if unknown := set(older) - OLDER_KEYS:
            raise older.fail(f"unknown keys {', '.join(sorted(unknown))}")
        chosen = f"({older['when']}) || !newest" if "when" in older else "!newest"
        return [f"static const bool newest = has_op(\"{self.row['acl']}\");",
                f"if ({chosen}) {{ {call(self.row, older['acl'], older.get('args') or default)} }} else {{ {newest} }}"]

    def result(self) -> str:
        if "returns" in self.row:
            return self.row["returns"]
        if any(t != "Tensor" for t in self.returned):
            raise self.row.fail(f"returns {', '.join(self.returned)}: say under `returns` what")
        values = self.outs or self.mutated[: len(self.returned)]
        if len(values) != len(self.returned):
            raise self.row.fail(f"returns {len(self.returned)} tensors, has {len(values)}: say under `returns` which")
        if len(values) == 1:
            return values[0]
        return f"std::make_tuple({', '.join(values)})" if self.outs else f"{{{', '.join(values)}}}"

    # ---- autograd ----

    def gradients(self) -> list[tuple[list[str], str]]:
        """Inputs, and the expression that gives their gradients."""
        found = [([name.strip() for name in names.split(",")], str(code)) for names, code in (self.row.get("grad") or {}).items()]
        for names, code in found:
            if unknown := [n for n in names if n not in self.names]:
                raise self.row.fail(f"has no argument {unknown[0]} to differentiate", "grad")
            if not re.search(r"\bgrad\d?\b", code):
                raise self.row.fail(f"the gradient {code} does not depend on grad", "grad")
        return found

    def autograd(self) -> str:
        """A node as upstream's generator makes them, and the kernel that records it."""
        gradients = self.gradients()
        if not gradients:
            return ""
        code = " ".join(text for _, text in gradients)
        used = set(re.findall(r"[A-Za-z_]\w*", code))
        inputs = [n for names, _ in gradients for n in names]
        outs = self.outs
        made = {o: ("out" if o == "out" else o) for o in outs}
        differentiable = [o for i, o in enumerate(outs) if (f"grad{i}" in used) or (i == 0 and "grad" in used)]
        saved_outs = [o for o in outs if o in used]
        by_name = {a.name: a for a in self.signature.arguments()}
        kept = [a for a in self.arguments if a.name in used]
        name = "".join(part.capitalize() for part in self.symbol.strip("_").split("_")) + "Backward"
        members, release, unpack, save = [], [], [], []
        for a in kept:
            kind = str(a.type)
            if kind in ("Tensor", "Tensor?"):
                members.append(f"  torch::autograd::SavedVariable {a.name}_;")
                release.append(f"    {a.name}_.reset_data();")
                unpack.append(f"  const auto {a.name} = {'maybe(' if kind.endswith('?') else ''}{a.name}_.unpack(){')' if kind.endswith('?') else ''};")
                value = f"{a.name}.value_or(Tensor())" if kind.endswith("?") else a.name
                save.append(f"    node->{a.name}_ = torch::autograd::SavedVariable({value}, false);")
            elif kind == "Tensor[]":
                members.append(f"  std::vector<torch::autograd::SavedVariable> {a.name}_;")
                release.append(f"    {a.name}_.clear();")
                unpack.append(f"  const auto {a.name} = unpack_all({a.name}_);")
                save.append(f"    node->{a.name}_ = save_all({a.name});")
            else:
                cpp = by_name[a.name].type
                stored = KEPT.get(cpp, cpp)
                members.append(f"  {stored} {a.name};")
                save.append(f"    node->{a.name} = kept<{stored}>({a.name});")
        for o in saved_outs:
            members.append(f"  torch::autograd::SavedVariable {o}_;")
            release.append(f"    {o}_.reset_data();")
            unpack.append(f"  const auto {made[o]} = {o}_.unpack(shared_from_this());")
        grads = []
        for position, o in enumerate(differentiable):
            index = outs.index(o)
            names = [f"grad{index}"] + (["grad"] if index == 0 and "grad" in used else [])
            grads.append(f"  [[maybe_unused]] const Tensor {names[-1]} = grads[{position}].defined() ? grads[{position}] : input_metadata({position}).zeros_like();")
        body = ["  if (std::none_of(grads.begin(), grads.end(), [](const Tensor& g) { return g.defined(); }))",
                f"    return torch::autograd::variable_list({len(inputs)});", *unpack, *grads, f"  torch::autograd::variable_list result({len(inputs)});"]
        at = 0
        for names, expression in gradients:
            wanted = " || ".join(f"task_should_compute_output({at + i})" for i in range(len(names)))
            body.append(f"  if ({wanted}) store<{len(names)}>(result, {at}, {expression});")
            at += len(names)
        body.append("  return result;")
        node = f"struct {name} : torch::autograd::Node {{\n" + "\n".join(members) + f"""
  std::string name() const override {{ return "{name}0"; }}
  void release_variables() override {{
{chr(10).join(release)}
  }}
  torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {{
    std::lock_guard<std::mutex> lock(mutex_);
    return gradients(std::move(grads));
  }}
  torch::autograd::variable_list gradients(torch::autograd::variable_list&& grads);
}};
torch::autograd::variable_list {name}::gradients(torch::autograd::variable_list&& grads) {{
{chr(10).join(body)}
}}
"""
        parameters = ", ".join(["c10::DispatchKeySet keys", *(a.decl() for a in self.signature.arguments())])
        forwarded = ", ".join(["keys & c10::after_autograd_keyset", *self.names])
        edges = ", ".join(inputs)
        returns = self.signature.returns_type().cpp_type()
        tensors = [i for i, t in enumerate(self.returned) if t == "Tensor"]
        def place(o: str) -> str:
            return "result" if len(self.returned) == 1 else f"std::get<{tensors[outs.index(o)]}>(result)"
        after = [f"    torch::autograd::set_history({place(o)}, node);" for o in differentiable]
        after += [f"    node->{o}_ = torch::autograd::SavedVariable({place(o)}, true);" for o in saved_outs]
        return node + f"""static {returns} {self.symbol}_autograd({parameters}) {{
  std::shared_ptr<{name}> node;
  if (torch::autograd::compute_requires_grad({edges})) {{
    node = std::shared_ptr<{name}>(new {name}(), torch::autograd::deleteNode);
    node->set_next_edges(torch::autograd::collect_next_edges({edges}));
{chr(10).join(save)}
  }}
  check_no_tangent("{self.schema.name}", {edges});
  auto result = [&] {{
    at::AutoDispatchBelowADInplaceOrView below;
    return {self.handle()}.redispatch({forwarded});
  }}();
  if (node) {{
{chr(10).join(after)}
  }}
  return result;
}}
"""

    # ---- calls ----

    def type_(self) -> str:
        return self.signature.type()

    def handle(self) -> str:
        return f"{self.symbol}_handle()"

    def handle_function(self) -> str:
        overload = self.schema.name.overload_name
        return (f"static const auto& {self.handle()} {{\n  static const auto op = c10::Dispatcher::singleton()"
                f".findSchemaOrThrow(\"npu::{self.schema.name.name}\", \"{overload}\").typed<{self.type_()}>();\n  return op;\n}}\n")

    def declaration(self) -> str:
        return f"{self.signature.decl(name=self.symbol)};"

    def definition(self) -> str:
        return f"{self.signature.defn(name=f'call::{self.symbol}')} {{ return {self.handle()}.call({', '.join(self.names)}); }}\n"

    # ---- registration ----

    def registration(self) -> str:
        names = [self.row["acl"], *([self.row["older"]["acl"]] if self.row.get("older") else [])]
        name, overload = f"npu::{self.schema.name.name}", self.schema.name.overload_name
        return f'  custom("{name}", "{overload}", &{self.symbol}, "{names[0]}");\n'

    def meta_registration(self) -> str:
        return f'  m.impl("{self.schema.name}", TORCH_FN({self.symbol}));\n'

    def autograd_registration(self) -> str:
        kernel = f"TORCH_FN({self.symbol}_autograd)" if self.row.get("grad") else "torch::autograd::autogradNotImplementedFallback()"
        return f'  m.impl("{self.schema.name}", {kernel});\n'


INCLUDES = """#include "npu_ops.h"
#include "ops/custom.h"
#include "ops/results.h"
"""


def emit(operators: list[Operator], call, attributed) -> str:
    """Everything of a table's custom operators, for its generated file."""
    text = "".join(op.handle_function() for op in operators)
    text += "\nnamespace {\nusing namespace call;  // in gradients\nusing namespace results;\n\n"
    text += "\n".join(attributed(op.kernel(call) + op.autograd(), op.row.file, op.row.line) for op in operators)
    text += "\n}  // namespace\n\n" + "".join(op.definition() for op in operators)
    text += "\nTORCH_LIBRARY_FRAGMENT(npu, m) {\n"
    text += "".join(f'  m.def(R"({op.schema})", {{at::Tag::pt2_compliant_tag}});\n' for op in operators) + "}\n"
    for key, line in (("Meta", Operator.meta_registration), ("Autograd", Operator.autograd_registration)):
        text += f"TORCH_LIBRARY_IMPL(npu, {key}, m) {{\n" + "".join(line(op) for op in operators) + "}\n"
    mutating = [op for op in operators if op.mutated]
    if mutating:
        text += "TORCH_LIBRARY_IMPL(npu, ADInplaceOrView, m) {\n"
        text += "".join(f'  m.impl("{op.schema.name}", torch::autograd::autogradNotImplementedInplaceOrViewFallback());\n' for op in mutating) + "}\n"
    return text


def emit_header(operators: list[Operator]) -> str:
    text = "// Generated by tools/codegen/custom.py: the operators npu::*, called through the dispatcher. Do not edit.\n#pragma once\n\n"
    text += "#include <ATen/core/Tensor.h>\n\n#include <optional>\n#include <tuple>\n\nnamespace npu::ops::call {\n\n"
    return text + "\n".join(op.declaration() for op in operators) + "\n\n}  // namespace npu::ops::call\n"
