"""Wrappers of operators over lists of tensors (`foreach:` in csrc/ops/tables/*.yaml): one launch for a whole list.

A line names the functional or in-place form, and stands for both where both exist. Lists that a single launch cannot
take (mixed types, shapes or cards, integers) go to upstream's loop over the elements. Key `out`: the rule for one
element `each`, if results are not like the first list.
"""

from __future__ import annotations

from torchgen.model import BackendIndex, NativeFunction, SchemaKind

from .tables import Row

KEYS = {"op", "acl", "args", "out"}


def lists(f: NativeFunction) -> list[str]:
    return [a.name for a in f.func.arguments.flat_all if str(a.type) == "Tensor[]"]


def body(entry: Row, f: NativeFunction, call, slow: BackendIndex) -> str:
    names = [a.name for a in f.func.arguments.flat_all]
    kernel = slow.get_kernel(f)
    if kernel is None:
        raise entry.fail("upstream has no loop over the elements")
    numbers = [a.name for a in f.func.arguments.flat_all if str(a.type) in ("Scalar", "Scalar[]")]
    operands = lists(f)
    condition = f"fast_lists({{{', '.join(operands)}}}{''.join(', ' + n for n in numbers)})"
    lines = [f"  if (!{condition}) return at::native::{kernel.kernel}({', '.join(names)});", f"  CardGuard guard({operands[0]});"]
    arguments = entry.get("args") or [*names, "out"]
    if f.func.kind() is SchemaKind.inplace:
        lines.append("  " + call(entry, entry["acl"], ["self" if a == "out" else a for a in arguments]))
    else:
        rule = entry.get("out", "each")
        lines += ["  std::vector<Tensor> out;", f"  out.reserve({operands[0]}.size());"]
        lines.append(f"  for (const auto& each : {operands[0]}) out.push_back({'empty_as(each)' if rule == 'each' else f'make({rule})'});")
        lines += ["  " + call(entry, entry["acl"], arguments), "  return out;"]
    return "\n".join(lines) + "\n"


def forms(entry: Row, functions: dict[str, NativeFunction]) -> list[NativeFunction]:
    """The function that the line names and its in-place form."""
    f = functions.get(entry["op"])
    if f is None:
        raise entry.fail("is not in native_functions.yaml")
    base, _, overload = entry["op"].partition(".")
    other = functions.get(f"{base}_.{overload}".rstrip("."))
    return [f] if other is None or f.func.kind() is SchemaKind.inplace else [f, other]
