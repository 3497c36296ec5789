"""Wrappers of operators over lists of tensors (`foreach:` in csrc/ops/tables/*.yaml): one launch for a list, or a long part of it.

A line names the functional or in-place form, and stands for both where both exist. Lists that a single launch cannot
take (mixed types, shapes or cards, integers) go to upstream's loop over the elements. Key `out`: the rule for one
element `each`, if results are not like the first list.

A launch takes 48 tensors: the official client was seen to send no more, counting the lists that an operator reads and
writes, in-place ones once, and lists of numbers as lists for some operators. Here they count, unless a line says
`numbers: free`.
"""

from __future__ import annotations

from torchgen.model import BackendIndex, NativeFunction, SchemaKind

from .tables import Row

MOST = 48
KEYS = {"op", "acl", "args", "out", "numbers"}


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
    each = [a.name for a in f.func.arguments.flat_all if str(a.type) == "Scalar[]"]
    if each:  # a number for each tensor; else upstream's words
        condition = f"({condition}{''.join(f' && {n}.size() == {operands[0]}.size()' for n in each)})"
    lines = [f"  if (!{condition}) return at::native::{kernel.kernel}({', '.join(names)});", f"  CardGuard guard({operands[0]});"]
    arguments = [str(a) for a in entry.get("args") or [*names, "out"]]
    inplace = f.func.kind() is SchemaKind.inplace
    sliced = [a.name for a in f.func.arguments.flat_all if str(a.type) in ("Tensor[]", "Scalar[]")] + ["out"]
    parts = [a if a not in sliced else "part(self)" if inplace and a == "out" else "part(at::TensorList(out))" if a == "out" else f"part({a})"
             for a in arguments]
    free = {f"part({n})" for n in numbers} if entry.get("numbers") == "free" else set()
    count = len({a for a in parts if a.startswith("part(")} - free)
    loop = [f"  constexpr size_t most = {MOST // count};", f"  for (size_t at = 0; at < {operands[0]}.size(); at += most) {{",
            "    const auto part = [&](auto list) { return list.slice(at, std::min(most, list.size() - at)); };",
            "    " + call(entry, entry["acl"], parts), "  }"]
    if inplace:
        lines += loop
    else:
        rule = entry.get("out", "each")
        lines += ["  std::vector<Tensor> out;", f"  out.reserve({operands[0]}.size());"]
        lines.append(f"  for (const auto& each : {operands[0]}) out.push_back({'empty_as(each)' if rule == 'each' else f'make({rule})'});")
        lines += [*loop, "  return out;"]
    return "\n".join(lines) + "\n"


def forms(entry: Row, functions: dict[str, NativeFunction]) -> list[NativeFunction]:
    """The function that the line names and its in-place form."""
    f = functions.get(entry["op"])
    if f is None:
        raise entry.fail("is not in native_functions.yaml")
    base, _, overload = entry["op"].partition(".")
    other = functions.get(f"{base}_.{overload}".rstrip("."))
    return [f] if other is None or f.func.kind() is SchemaKind.inplace else [f, other]
