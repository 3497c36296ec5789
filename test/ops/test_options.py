"""The calls of options.txt, with options at other values than by default: on npu as on the CPU, with gradients where there are any.

OpInfo's first and last samples, which CI takes, leave most options as they are. A number here is neither 0 nor 1, the two tensors of a call
are never the same, and sizes differ from each other, so that an argument which is not read, or is taken for another one, shows.
"""

import ast
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: F401 - the calls use it
from against_cpu import compare
from torch.utils._pytree import tree_leaves


def rand(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


INPUTS = {
    "x": rand(4, 5), "y": rand(4, 5) * 0.7 + 0.1, "z": rand(4, 5).flip(0), "row": rand(5), "column": rand(4),
    "positive": rand(4, 5).abs() + 0.5, "square": rand(3, 3) + 3 * torch.eye(3), "matrix": rand(3, 4),
    "batch": rand(2, 3, 4), "others": rand(2, 4, 5), "plain": rand(2, 3, 5),
    "image": rand(2, 3, 6, 7), "volume": rand(1, 2, 4, 5, 6), "i": torch.tensor([[3, -2, 7], [6, 5, 12]]),
    "j": torch.tensor([[2, 3, 5], [4, 1, 3]]), "where": torch.tensor([2, 0, 2]), "classes": torch.tensor([2, 0, 4, 3]),
    "twice": torch.tensor([3.0, 1.0, 3.0, 2.0, 2.0, 3.0]), "steps": torch.tensor([1.0, 2.0, 4.0, 8.0]),
}
CALLS = (Path(__file__).parent / "options.txt").read_text().splitlines()


def parameters(call: str) -> list[str]:
    return [name for name in INPUTS if re.search(rf"(?<![\w.']){name}\b(?![=\w'])", call)]


def with_gradients(function, count):
    """Results, and the gradients of the first so many floating arguments through all of them."""
    def call(*tensors):
        floating = [i for i, t in enumerate(tensors) if t.is_floating_point()][:count]
        leaves = [t.detach().requires_grad_(i in floating) for i, t in enumerate(tensors)]
        results = [t for t in tree_leaves(function(*(t.clone() for t in leaves))) if isinstance(t, torch.Tensor)]
        through, inputs = [t for t in results if t.requires_grad], [t for t in leaves if t.requires_grad]
        weights = [torch.linspace(0.3, 2.5, t.numel(), device=t.device).view(t.shape).to(t.dtype) for t in through]
        gradients = torch.autograd.grad(through, inputs, weights, allow_unused=True) if through else ()
        return (*(t.detach() for t in results), *gradients)

    return call


def differentiable(function, tensors) -> int:
    """How many of the arguments: all, the first, or none, where the CPU has no gradient."""
    for count in (len(tensors), 1):
        try:
            with_gradients(function, count)(*tensors)
            return count
        except RuntimeError:
            pass
    return 0


def prepared(call: str):
    names = parameters(call)
    return eval(f"lambda {', '.join(names)}: {call}", globals()), [INPUTS[name] for name in names]


@pytest.mark.parametrize("call", CALLS)
def test_equals_the_cpu(call):
    function, tensors = prepared(call)
    refused = compare(with_gradients(function, differentiable(function, tensors)), *tensors, rtol=1e-4, atol=1e-5, equal_nan=True)
    assert refused is None, refused


@pytest.mark.parametrize("call", CALLS)
def test_any_strides(call):
    """Every tensor is a view with gaps between its elements, whose dimensions lie in memory the other way round."""
    function, tensors = prepared(call)

    def with_gaps(t):
        reverse = list(reversed(range(t.dim())))
        memory = t.permute(reverse).contiguous()
        return torch.stack([memory, memory], -1)[..., 0].permute(reverse)

    def on_views(*tensors):
        views = [with_gaps(t) for t in tensors] if tensors and tensors[0].is_npu else tensors
        return tuple(t for t in tree_leaves(function(*views)) if isinstance(t, torch.Tensor))

    compare(lambda *given: tuple(t.clone() for t in on_views(*(t.clone() for t in given))), *tensors, rtol=1e-4, atol=1e-5, equal_nan=True)


def split(call: str) -> tuple[str, str, list[str]] | None:
    """(name of the operator, the tensor, other arguments) of a call on a tensor or in torch."""
    node = ast.parse(call, mode="eval").body
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    others = [ast.unparse(part) for part in (*node.args, *node.keywords)]
    name, base = node.func.attr, ast.unparse(node.func.value)
    return (name, others[0], others[1:]) if base == "torch" and others else (name, f"({base})", others)


def variants(make) -> list[str]:
    """Other forms of the calls, as far as the CPU takes them."""
    def works(call: str) -> bool:
        try:
            function, tensors = prepared(call)
            function(*(t.clone() for t in tensors))
        except Exception:
            return False
        return True

    made = (make(*parts) for call in CALLS if (parts := split(call)))
    return [call for call in dict.fromkeys(made) if call and call not in CALLS and works(call)]


def in_place(name, tensor, others):
    return f"{tensor}.clone().{name}_({', '.join(others)})" if hasattr(torch.Tensor, f"{name}_") else None


def with_output(name, tensor, others):
    return f"written(torch.{name}, {', '.join([tensor, *others])})" if hasattr(torch, name) else None


def written(function, *args, **kwargs):
    """What is in an output with gaps between its elements after the call."""
    plain = function(*args, **kwargs)
    room = torch.full((*plain.shape, 2), 9, device=plain.device, dtype=torch.float32).to(plain.dtype)
    function(*args, **kwargs, out=room[..., 0])
    return room


@pytest.mark.parametrize("call", variants(in_place) + variants(with_output))
def test_other_forms_equal_the_cpu(call):
    """In place, and into an output with gaps."""
    function, tensors = prepared(call)
    refused = compare(function, *tensors, rtol=1e-4, atol=1e-5, equal_nan=True)
    assert refused is None, refused
