"""Operators of the namespace npu (`custom:` in csrc/ops/tables/*.yaml): schema, meta function, device kernel and autograd from one row.

    custom:
      - op: npu_rms_norm(Tensor input, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor)
        acl: aclnnRmsNorm
        out: [like(input), "reduced(input, gamma.dim(), at::kFloat)"]
        grad: {"input, gamma": "npu_rms_norm_backward(grad, input, gamma, out1)"}

The page docs/tables.md explains the keys. One C++ function serves the card and meta tensors: it checks, makes the outputs by the rules
of csrc/ops/results.h, which know symbolic sizes, and launches if there is a card. An operator that some row's gradient calls, or that says `cpp`, has a
C++ function npu::ops::call::NAME; the others have none, because torch's templates for a typed call are most of what a row costs to compile.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from torchgen import local
from torchgen.api.types import DispatcherSignature
from torchgen.model import Argument, FunctionSchema

from .tables import Row

KEYS = {"op", "acl", "args", "launch", "out", "check", "grad", "returns", "device", "older", "unused", "cpp"}
OLDER_KEYS = {"acl", "args", "when"}
REFUSED_KEYS = {"op", "reason"}
MADE = ("Tensor", "Tensor[]")  # types of results that rules make

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
    text: str  # the schema as it is registered
    first: str  # what torchgen calls self
    arguments: list[Argument] = field(default_factory=list)

    @classmethod
    def read(cls, row: Row) -> Operator:
        text = row["op"]
        row["op"] = text.partition("(")[0]
        # torchgen wants the argument of an in-place form to be called self.
        inplace = re.match(r"\w+_(?:\.\w+)?\(Tensor\(a!\)(?:\[\])? (\w+)", text)
        first = inplace[1] if inplace else "self"
        try:
            schema = FunctionSchema.parse(re.sub(rf"\b{first}\b", "self", text))
        except (AssertionError, RuntimeError, ValueError) as error:
            raise row.fail(f"torchgen cannot read the schema: {error}", "op") from None
        return cls(row, schema, text, first, list(schema.arguments.flat_all))

    def named(self, code: str) -> str:
        """C++ of torchgen, with the row's name of the first argument."""
        return re.sub(r"\bself\b", self.first, code)

    @property
    def symbol(self) -> str:
        return str(self.schema.name).replace(".", "_")

    @property
    def signature(self) -> DispatcherSignature:
        return DispatcherSignature.from_schema(self.schema, symint=True)

    @property
    def parameters(self) -> list[str]:
        return [self.named(a.decl()) for a in self.signature.arguments()]

    @property
    def names(self) -> list[str]:
        return [self.named(a.name) for a in self.arguments]

    @property
    def returned(self) -> list[str]:
        """C++ type of each result."""
        return [str(r.type) for r in self.schema.returns]

    @property
    def mutated(self) -> list[str]:
        return [self.named(a.name) for a in self.arguments if a.annotation is not None and a.annotation.is_write]

    @property
    def outs(self) -> list[str]:
        """Names of the tensors that the operator makes."""
        if isinstance(self.row.get("out"), dict):
            return list(self.row["out"])
        if self.mutated and not self.row.get("out"):
            return []
        made = [t for t in self.returned if t in MADE]
        return ["out"] if len(made) == 1 else [f"out{i}" for i in range(len(made))]

    def is_required(self, argument: Argument) -> bool:
        return str(argument.type) == "Tensor"

    @property
    def device(self) -> str:
        """The tensor whose card the operator runs on."""
        if "device" in self.row:
            return self.row["device"]
        plain = [self.named(a.name) for a in self.arguments if self.is_required(a)]
        lists = [self.named(a.name) for a in self.arguments if str(a.type) == "Tensor[]"]
        if not plain and not lists:
            raise self.row.fail("no argument says which card it runs on: name one under `device`")
        return plain[0] if plain else f"first({lists[0]})"

    # ---- device and meta ----

    def check_read(self) -> None:
        """An argument that nothing looks at is a mistake, unless `unused` says why it is none."""
        row, unused = self.row, self.row.get("unused") or {}
        parts = [row.get(key, "") for key in ("check", "out", "returns", "device", "older", "launch")]
        arguments = row.get("args") or (" ".join(self.names) if "acl" in row and "launch" not in row else "")
        read = set(re.findall(r"[A-Za-z_]\w*", f"{parts} {arguments}"))
        for name in self.names:
            if (name in read) == (name in unused):
                raise row.fail(f"{name} is read, and listed under `unused`" if name in unused else f"{name} is not read; say under `unused` why")

    def kernel(self, call) -> str:
        self.check_read()
        row, outs = self.row, self.outs
        rules = row.get("out", [])
        rules = list(rules.values()) if isinstance(rules, dict) else rules if isinstance(rules, list) else [rules]
        if len(rules) != len(outs):
            raise row.fail(f"makes {len(outs)} tensors, rules given: {rules}", "out")
        lines = [f"  static_cast<void>({name});" for name in row.get("unused") or {}]
        lines += [f"  {row['check']};"] if row.get("check") else []
        lines += [f"  const Tensor& on = {self.device};", "  CardGuard guard(on);"]
        lines += [f"  auto {o} = make(on, {rule});" for o, rule in zip(outs, rules)]
        tensors = ", ".join(f"&{self.named(a.name)}" for a in self.arguments if self.is_required(a))
        device = [f'    check_same_device("{self.schema.name}", {{{tensors}}});'] if tensors.count("&") > 1 else []
        if "acl" in row or "launch" in row:
            lines += ["  if (on_card(on)) {", *device, *(f"    {line}" for line in self.launches(call)), "  }"]
        lines.append(f"  return {self.result()};" if self.returned else "  return;")
        return f"{self.named(self.signature.decl(name=self.symbol + '_kernel'))} {{\n" + "\n".join(lines) + "\n}\n"

    def launches(self, call) -> list[str]:
        if "launch" in self.row:
            return [f"{self.row['launch']};"]
        default = [*self.names, *self.outs]
        older = self.row.get("older")
        newest = call(self.row, self.row["acl"], self.row.get("args") or default)
        if not older:
            return [newest]
        chain = ""
        several = older if isinstance(older, list) else [older]
        for each in several:
            if unknown := set(each) - OLDER_KEYS:
                raise each.fail(f"unknown keys {', '.join(sorted(unknown))}")
            if each is not several[-1] and "when" not in each:
                raise each.fail("only the last of several older operators may lack `when`")
            chosen = [f"({each['when']})"] if "when" in each else []
            chosen += ["!newest"] if each is several[-1] else []
            chain += f"if ({' || '.join(chosen)}) {{ {call(self.row, each['acl'], each.get('args') or default)} }} else "
        return [f"static const bool newest = has_op(\"{self.row['acl']}\");", f"{chain}{{ {newest} }}"]

    def result(self) -> str:
        if "returns" in self.row:
            return self.row["returns"]
        if any(t not in MADE for t in self.returned):
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
            if not re.search(r"\b(given_)?grad\d?\b", code):
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
        differentiable = [o for i, o in enumerate(outs) if {f"grad{i}", f"given_grad{i}", *(["grad"] if i == 0 else [])} & used]
        saved_outs = [o for o in outs if o in used]
        numbers = [i for i, t in enumerate(self.returned) if t != "Tensor" and f"result{i}" in used]
        by_name = {a.name: a for a in self.signature.arguments()}
        kept = [a for a in self.arguments if a.name in used]
        name = "".join(part.capitalize() or "Inner" for part in self.symbol.rstrip("_").split("_")) + "Backward"  # _x beside x: InnerX
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
                save.append(f"    node->{a.name} = owned<{stored}>({a.name});")
        members += [f"  int64_t result{i};" for i in numbers]
        for o in saved_outs:
            members.append(f"  torch::autograd::SavedVariable {o}_;")
            release.append(f"    {o}_.reset_data();")
            unpack.append(f"  const auto {made[o]} = {o}_.unpack(c10::intrusive_ptr<Node>::reclaim_copy(this));")
        grads = []
        for position, o in enumerate(differentiable):
            index = outs.index(o)
            if f"given_grad{index}" in used:
                grads.append(f"  const auto given_grad{index} = maybe({position} < grads.size() ? grads[{position}] : Tensor());")
                continue
            names = [f"grad{index}"] + (["grad"] if index == 0 and "grad" in used else [])
            grads.append(f"  [[maybe_unused]] const Tensor {names[-1]} = gradient(*this, grads, {position});")
        lists = [a.name for a in self.arguments if a.name in inputs and str(a.type) == "Tensor[]"]
        if lists and len(gradients) > 1:
            raise self.row.fail(f"{lists[0]} has many gradients: one expression must give those of all inputs", "grad")
        count = "next_edges().size()" if lists else len(inputs)
        body = ["  if (std::none_of(grads.begin(), grads.end(), [](const Tensor& g) { return g.defined(); }))",
                f"    return torch::autograd::variable_list({count});", *unpack, *grads, f"  torch::autograd::variable_list result({count});"]
        at = 0
        for names, expression in gradients:
            wanted = " || ".join(f"task_should_compute_output({at + i})" for i in range(len(names)))
            body.append(f"  store_all(result, {expression});" if lists else f"  if ({wanted}) store<{len(names)}>(result, {at}, {expression});")
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
        parameters = ", ".join(["c10::DispatchKeySet keys", *self.parameters])
        forwarded = ", ".join(["keys & c10::after_autograd_keyset", *self.names])
        edges = ", ".join(inputs)
        returns = self.signature.returns_type().cpp_type()
        tensors = [i for i, t in enumerate(self.returned) if t == "Tensor"]
        def place(o: str) -> str:
            return "result" if len(self.returned) == 1 else f"std::get<{tensors[outs.index(o)]}>(result)"
        after = [f"    record({place(o)}, node);" for o in differentiable]
        after += [f"    node->{o}_ = torch::autograd::SavedVariable({place(o)}, true);" for o in saved_outs]
        after += [f"    node->result{i} = std::get<{i}>(result);" for i in numbers]
        return node + f"""{returns} {self.symbol}_autograd({parameters}) {{
  c10::intrusive_ptr<{name}> node;
  if (torch::autograd::compute_requires_grad({edges})) {{
    node = c10::make_intrusive<{name}>();
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
        return f"{self.named(self.signature.decl(name=self.symbol))};"

    def definition(self) -> str:
        return f"{self.named(self.signature.defn(name=f'call::{self.symbol}'))} {{ return {self.handle()}.call({', '.join(self.names)}); }}\n"

    # ---- registration ----

    def registration(self) -> str:
        name, overload, acl = f"npu::{self.schema.name.name}", self.schema.name.overload_name, self.row.get("acl", "")
        return f'  custom("{name}", "{overload}", &results::{self.symbol}_kernel, "{acl}");\n'

    def meta_registration(self) -> str:
        # A pointer, not TORCH_FN: the card's kernel has the same type, so they share the dispatcher's templates.
        return f'  m.impl("{self.schema.name}", &results::{self.symbol}_kernel);\n'

    def autograd_registration(self) -> str:
        kernel = f"&results::{self.symbol}_autograd" if self.row.get("grad") else "torch::autograd::autogradNotImplementedFallback()"
        return f'  m.impl("{self.schema.name}", {kernel});\n'


INCLUDES = """#include "ops/custom.h"
#include "ops/results.h"
"""


def called(operators: Iterable[Operator]) -> set[str]:
    """Functions in their gradients."""
    return {word for op in operators for _, code in op.gradients() for word in re.findall(r"\b(\w+)\(", code)}


@local.parametrize(use_const_ref_for_mutable_tensors=False, use_ilistref_for_tensor_lists=False)
def emit(operators: list[Operator], every: dict[str, Operator], call, attributed) -> str:
    """Everything of a table's custom operators, for its generated file. `every` has those of all tables, which gradients may call."""
    everywhere = called(every.values()) | {op.symbol for op in every.values() if op.row.get("cpp")}
    own = [op for op in operators if op.symbol in everywhere]
    named = {op.symbol: op for op in [*own, *(every[name] for name in sorted(called(operators)) if name in every)]}
    text = "namespace call {\n" + "\n".join(op.declaration() for op in named.values()) + "\n}  // namespace call\n\n"
    text += "".join(op.handle_function() for op in operators if op in own or op.row.get("grad"))
    text += "\nnamespace results {\nnamespace {\nusing namespace call;  // in gradients\n\n"
    text += "\n".join(attributed(op.kernel(call) + op.autograd(), op.row.file, op.row.line) for op in operators)
    text += "\n}  // namespace\n}  // namespace results\n\n" + "".join(op.definition() for op in own)
    text += "\nTORCH_LIBRARY_FRAGMENT(npu, m) {\n"
    text += "".join(f'  m.def(R"({op.text})", {{at::Tag::pt2_compliant_tag}});\n' for op in operators) + "}\n"
    for key, line in (("Meta", Operator.meta_registration), ("Autograd", Operator.autograd_registration)):
        text += f"TORCH_LIBRARY_IMPL(npu, {key}, m) {{\n" + "".join(line(op) for op in operators) + "}\n"
    mutating = [op for op in operators if op.mutated]
    if mutating:
        text += "TORCH_LIBRARY_IMPL(npu, ADInplaceOrView, m) {\n"
        text += "".join(f'  m.impl("{op.schema.name}", torch::autograd::autogradNotImplementedInplaceOrViewFallback());\n' for op in mutating) + "}\n"
    return text


def emit_refused(rows: list[Row]) -> str:
    """Operators of the official plugin that are registered only to say why they cannot be called."""
    for row in rows:
        if not re.fullmatch(r"[^\n\"]+[^\n\".]", row.get("reason", "")):
            raise row.fail("needs a sentence without its full stop", "reason")
    text = "\nTORCH_LIBRARY_FRAGMENT(npu, m) {\n" + "".join(f'  m.def(R"({row["op"]})");\n' for row in rows) + "}\n"
    text += "TORCH_LIBRARY_IMPL(npu, CompositeImplicitAutograd, m) {\n"
    for row in rows:
        name = row["op"].partition("(")[0]
        text += f'  m.impl("{name}", refused("{name}", "{row["reason"]}"));\n'
    return text + "}\n"
