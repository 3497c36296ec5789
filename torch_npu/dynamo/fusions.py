"""Fusion passes: chains of torch's functions in Dynamo's graph that are one npu operator.

A graph is first brought to one spelling (`_normalise`): x.pow(2), torch.pow(x, 2) and x.square() are the same node, and casts to the type
that a tensor has already, or dropout that is off, are none. Then patterns of upstream's matcher find the chains. A fused operator takes
the place of a chain only if, with fake tensors, it gives the type and the sizes that the chain gives; chains that the program
interrupts, by changing a tensor in place or switching gradients or autocast, are left alone.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._inductor.pattern_matcher import (
    CallFunction,
    CallMethod,
    KeywordArg,
    Match,
    PatternMatcherPass,
    register_graph_pattern,
)
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves

from torch_npu.dynamo.capture import count

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def apply(model: torch.fx.GraphModule) -> None:
    """Changes the graph of `model`."""
    graph = model.graph
    if not any(_is_npu(_value(node)) for node in graph.nodes):
        return
    _normalise(graph)
    for stage in _stages():
        _mark_regions(graph)
        stage.apply(model)
    graph.lint()
    model.recompile()


def _value(node: Any) -> Any:
    return node.meta.get("example_value") if isinstance(node, torch.fx.Node) else node


def _is_npu(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "npu"


# ---- One spelling ----


def _normalise(graph: torch.fx.Graph) -> None:
    for node in list(graph.nodes):
        rule = _SPELLINGS.get(node.target) if node.op in ("call_function", "call_method") else None
        if rule is None or not any(map(_is_npu, tree_leaves(_value(node)))):
            continue
        try:
            name, arguments = rule(*node.args, **node.kwargs)
        except TypeError:  # another overload
            continue
        if name == "same":
            node.replace_all_uses_with(arguments)
            graph.erase_node(node)
            continue
        with graph.inserting_before(node):
            new = graph.call_method("to", arguments) if name == "to" else graph.call_function(name, arguments)
        new.meta.update(node.meta)
        node.replace_all_uses_with(new)
        graph.erase_node(node)


def _pair(function: Callable) -> Callable:
    return lambda input, other: (function, (input, other))


def _single(function: Callable) -> Callable:
    return lambda input: (function, (input,))


def _mean(input, dim, keepdim=False):
    dims = dim if isinstance(dim, (tuple, list)) else (dim,)
    if len(dims) != 1:
        raise TypeError
    return torch.mean, (input, _from_the_end(input, dims[0]), keepdim)


def _from_the_end(input, dim):
    return dim - _value(input).dim() if dim >= 0 else dim


def _to(input, dtype):
    if not isinstance(dtype, torch.dtype):
        raise TypeError
    return ("same", input) if _value(input).dtype == dtype else ("to", (input, dtype))


def _transpose(input, dim0, dim1):
    return torch.transpose, (input, *sorted((_from_the_end(input, dim0), _from_the_end(input, dim1))))


def _softmax(input, dim=None, _stacklevel=3, dtype=None):
    if dim is None:
        raise TypeError
    widening = (dtype,) if dtype not in (None, _value(input).dtype) else ()
    return torch.softmax, (input, _from_the_end(input, dim), *widening)


def _dropout(input, p=0.5, training=True, inplace=False):
    if inplace or (training and p > 0):
        raise TypeError
    return "same", input


def _silu(input, inplace=False):
    if inplace:
        raise TypeError
    return F.silu, (input,)


def _gelu(input, *, approximate="none"):
    if approximate != "none":
        raise TypeError
    return F.gelu, (input,)


def _cross_entropy_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
                        label_smoothing=0.0):
    if size_average is not None or reduce is not None:
        raise TypeError
    return F.cross_entropy, (input, target, weight, None, ignore_index, None, reduction, label_smoothing)


def _chunk(input, chunks, dim=0):
    return torch.chunk, (input, chunks, _from_the_end(input, dim))


def _split(input, split_size_or_sections, dim=0):
    size, dim = split_size_or_sections, _from_the_end(input, dim)
    half = _value(input).shape[dim] / 2
    if size not in (half, [half, half], (half, half)):
        raise TypeError
    return torch.chunk, (input, 2, dim)


def _cat(tensors, dim=0):
    return torch.cat, (tensors, _from_the_end(tensors[0], dim))


# function or method -> function of its arguments that gives (function, arguments), ("to", arguments) or ("same", argument)
_SPELLINGS: dict[Any, Callable] = {
    **dict.fromkeys((operator.mul, torch.mul, torch.multiply, "mul", "multiply"), _pair(torch.mul)),
    **dict.fromkeys((operator.add, torch.add, "add"), _pair(torch.add)),
    **dict.fromkeys((operator.truediv, torch.div, torch.true_divide, "div", "true_divide"), _pair(torch.div)),
    **dict.fromkeys((operator.matmul, torch.matmul, torch.bmm, "matmul", "bmm"), _pair(torch.matmul)),
    **dict.fromkeys((operator.pow, torch.pow, "pow"), lambda input, exponent: (torch.pow, (input, exponent))),
    **dict.fromkeys((torch.square, "square"), lambda input: (torch.pow, (input, 2))),
    **dict.fromkeys((operator.neg, torch.neg, torch.negative, "neg", "negative"), _single(torch.neg)),
    **dict.fromkeys((torch.rsqrt, "rsqrt"), _single(torch.rsqrt)),
    **dict.fromkeys((torch.mean, "mean"), _mean),
    **dict.fromkeys(("to", "type"), _to),
    "float": lambda input: _to(input, torch.float32),
    "half": lambda input: _to(input, torch.float16),
    "bfloat16": lambda input: _to(input, torch.bfloat16),
    "type_as": lambda input, other: _to(input, _value(other).dtype),
    **dict.fromkeys((torch.transpose, torch.swapaxes, "transpose", "swapaxes"), _transpose),
    **dict.fromkeys((F.softmax, torch.softmax, "softmax"), _softmax),
    F.dropout: _dropout,
    torch.dropout: lambda input, p, train: _dropout(input, p, train),
    F.silu: _silu,
    F.gelu: _gelu,
    F.cross_entropy: _cross_entropy_loss,
    **dict.fromkeys((torch.chunk, "chunk"), _chunk),
    **dict.fromkeys((torch.split, "split"), _split),
    **dict.fromkeys((torch.cat, torch.concat), _cat),
    **dict.fromkeys((torch.masked_fill, "masked_fill"), lambda input, mask, value: (torch.masked_fill, (input, mask, value))),
}


# ---- Where chains may not cross ----

_IN_PLACE = {operator.setitem, operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ipow}
_MODES = {torch._C._set_grad_enabled, torch.amp.autocast_mode._enter_autocast, torch.amp.autocast_mode._exit_autocast}


def _mark_regions(graph: torch.fx.Graph) -> None:
    region = 0
    for node in graph.nodes:
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        changes = name.endswith("_") and not name.endswith("__")
        if node.op in ("call_function", "call_method") and (changes or node.target in _IN_PLACE | _MODES or node.kwargs.get("inplace")):
            region += 1
        node.meta["npu_region"] = region


# ---- The patterns ----


def _stages() -> list[PatternMatcherPass]:
    return [_first_stage(), _second_stage()]


@functools.cache
def _first_stage() -> PatternMatcherPass:
    stage = PatternMatcherPass("npu fusions")
    for patterns, fuse in ((_rms_norms, _rms_norm), (_rotations, _rotate), (_swiglus, _swiglu), (_geglus, _geglu),
                           (_attentions, _attention), (_masked_softmaxes, _masked_softmax), (_group_norms, _group_norm_silu),
                           (_losses, _cross_entropy)):
        _register(stage, patterns(), fuse)
    return stage


@functools.cache
def _second_stage() -> PatternMatcherPass:
    stage = PatternMatcherPass("npu fusions of fused operators")
    _register(stage, _sums_before_norms(), _add_rms_norm)
    return stage


def _register(stage: PatternMatcherPass, patterns: Iterator, fuse: Callable) -> None:
    """`fuse` is given the node at the end of the chain and what the pattern named, and returns (operator, arguments, which of its
    results replaces the node or None for its only one), or None if it does not fit."""
    for pattern in patterns:
        register_graph_pattern(pattern, pass_dict=stage)(functools.partial(_replace, fuse))  # type: ignore[arg-type]


def _replace(fuse: Callable, match: Match, **named) -> None:
    last, graph = match.nodes[-1], match.graph
    if len({node.meta.get("npu_region") for node in match.nodes}) > 1:
        return
    if any(torch._C._functorch.is_functorch_wrapped_tensor(leaf) for node in match.nodes for leaf in tree_leaves(_value(node))
           if isinstance(leaf, torch.Tensor)):  # torch.func transforms the chain, and has rules for torch's operators alone
        return
    if any(node.kwargs for node in match.nodes):  # the one spelling has none: it is another overload, and the matcher does not look
        return
    fused = fuse(last, **named)
    if fused is None:
        return
    target, arguments, which = fused[:3]
    values = _evaluate(target, arguments)
    results = {last: which, **(fused[3] if len(fused) > 3 else {})}
    for node, number in results.items():
        if not _is_like(values if number is None else values[number] if values is not None else None, _value(node)):
            return
    first = min(results, key=lambda node: node)
    with graph.inserting_before(first):
        new = graph.call_function(target, arguments)
        new.meta.update(last.meta, example_value=values, npu_region=last.meta["npu_region"])
        for node, number in results.items():
            result = new
            if number is not None:
                result = graph.call_function(operator.getitem, (new, number))
                result.meta.update(node.meta, example_value=values[number])
            node.replace_all_uses_with(result)
    match.erase_nodes()
    count(f"fused {fuse.__name__.strip('_')}")


def _evaluate(target: Callable, arguments: tuple) -> Any:
    """The results for fake tensors, or None if the operator refuses the arguments."""
    values = torch.fx.map_arg(arguments, _value)
    try:
        with next(value.fake_mode for value in tree_leaves(values) if isinstance(value, FakeTensor)):  # Dynamo's own, not the next stage's
            return target(*values)
    except (RuntimeError, ValueError, TypeError):
        return None


def _is_like(one: Any, other: Any) -> bool:
    return (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and one.dtype == other.dtype and one.shape == other.shape
            and one.device == other.device)


def _both(function: Callable, a: Any, b: Any, **users) -> list:
    """A commutative call, in either order."""
    return [CallFunction(function, a, b, **users), CallFunction(function, b, a, **users)]


def _halves(x: Any) -> tuple:
    """The two halves of the last dimension."""
    halves = CallFunction(torch.chunk, x, 2, -1, _users=2)
    return CallFunction(operator.getitem, halves, 0), CallFunction(operator.getitem, halves, 1)


def _rms_norms() -> Iterator:
    """weight * (x * rsqrt(mean(x ** 2) + eps)), computed in float32 or as x is."""
    x, weight, eps = KeywordArg("x"), KeywordArg("weight"), KeywordArg("eps")
    for widened, back in itertools.product(("", "once", "for the square", "twice"), (False, True)):
        wide: Any = CallMethod("to", x, torch.float32, _users=2 if widened == "once" else 1) if widened else x
        square = CallFunction(torch.pow, wide, 2)
        root = CallFunction(torch.rsqrt, CallFunction(torch.add, CallFunction(torch.mean, square, -1, True), eps))
        given = {"once": wide, "twice": CallMethod("to", x, torch.float32)}.get(widened, x)
        for normed in _both(torch.mul, given, root):
            yield from _both(torch.mul, weight, CallMethod("to", normed, KeywordArg("dtype")) if back else normed)


def _rms_norm(last, x, weight, eps, dtype=None):
    given, gamma = _value(x), _value(weight)
    if not isinstance(eps, float) or not isinstance(gamma, torch.Tensor) or gamma.dim() != 1 or given.dtype not in _FLOATS:
        return None
    if gamma.dtype != given.dtype or gamma.shape[0] != given.shape[-1]:
        return None
    return torch.ops.npu.npu_rms_norm.default, (x, weight, eps), 0


def _sums_before_norms() -> Iterator:
    norm = CallFunction(torch.ops.npu.npu_rms_norm.default, CallFunction(torch.add, KeywordArg("a"), KeywordArg("b"), _users=2),
                        KeywordArg("gamma"), KeywordArg("eps"))
    yield CallFunction(operator.getitem, norm, 0)


def _add_rms_norm(last, a, b, gamma, eps):
    if _value(last).requires_grad or not _is_like(_value(a), _value(b)):  # it has no gradient
        return None
    total = last.args[0].args[0]
    if isinstance(gamma, torch.fx.Node) and not gamma < total:
        return None
    return torch.ops.npu.npu_add_rms_norm.default, (a, b, gamma, eps), 0, {total: 2}


def _rotations() -> Iterator:
    """x * cos + rotate_half(x) * sin."""
    x, cos, sin = KeywordArg("x"), KeywordArg("cos"), KeywordArg("sin")
    slices = (CallFunction(operator.getitem, x, KeywordArg("first")), CallFunction(operator.getitem, x, KeywordArg("second")))
    for first, second in (slices, _halves(x)):
        turned = CallFunction(torch.cat, [CallFunction(torch.neg, second), first], -1)
        for one, two in itertools.product(_both(torch.mul, x, cos), _both(torch.mul, turned, sin)):
            yield from _both(torch.add, one, two)


def _rotate(last, x, cos, sin, first=None, second=None):
    given = _value(x)
    if given.dim() != 4 or given.dtype not in _FLOATS or any(getattr(_value(t), "dtype", None) != given.dtype for t in (cos, sin)):
        return None
    if first is not None:
        half = given.shape[-1] // 2
        if first != (..., slice(None, half)) or second != (..., slice(half, None)):
            return None
    if _value(cos).shape != _value(sin).shape or _value(cos).dim() != 4:
        return None
    return torch.ops.npu.npu_rotary_mul.default, (x, cos, sin), None


def _swiglus() -> Iterator:
    left, right = _halves(KeywordArg("x"))
    yield from _both(torch.mul, CallFunction(F.silu, left), right)


def _swiglu(last, x):
    return (torch.ops.npu.npu_swiglu.default, (x, -1), None) if _value(x).dtype in _FLOATS else None


def _geglus() -> Iterator:
    left, right = _halves(KeywordArg("x"))
    yield from _both(torch.mul, CallFunction(F.gelu, right), left)


def _geglu(last, x):
    return (torch.ops.npu.npu_geglu.default, (x, -1, 0), 0) if _value(x).dtype in _FLOATS else None


def _attentions() -> Iterator:
    """softmax(q @ k' * scale + mask) @ v."""
    scores = CallFunction(torch.matmul, KeywordArg("q"), CallFunction(torch.transpose, KeywordArg("k"), -2, -1))
    scaled = [scores, *_both(torch.mul, scores, KeywordArg("scale")), CallFunction(torch.div, scores, KeywordArg("divisor"))]
    for each in scaled:
        for masked in (each, *_both(torch.add, each, KeywordArg("mask"))):
            yield CallFunction(torch.matmul, CallFunction(torch.softmax, masked, -1), KeywordArg("v"))
            wide = CallFunction(torch.softmax, masked, -1, torch.float32)
            yield CallFunction(torch.matmul, CallMethod("to", wide, KeywordArg("dtype")), KeywordArg("v"))


def _attention(last, q, k, v, scale=1.0, divisor=None, mask=None, dtype=None):
    query, key, value, bias = map(_value, (q, k, v, mask))
    if divisor is not None:
        scale = 1 / divisor if isinstance(divisor, (int, float)) and divisor else None
    if not isinstance(scale, (int, float)) or not math.isfinite(scale) or query.dim() != 4 or query.dtype not in _FLOATS:
        return None
    if query.shape[:-2] != key.shape[:-2] or key.shape[:-1] != value.shape[:-1] or key.shape[-1] != query.shape[-1]:
        return None
    if not query.dtype == key.dtype == value.dtype:
        return None
    if bias is not None and (not isinstance(bias, torch.Tensor) or bias.dtype != query.dtype or bias.requires_grad):
        return None
    return scaled_dot_product_attention, (q, k, v, mask, float(scale)), None


def scaled_dot_product_attention(query, key, value, mask, scale):
    return F.scaled_dot_product_attention(query, key, value, mask, scale=scale)


def _masked_softmaxes() -> Iterator:
    """softmax((x * scale).masked_fill(mask, -10000))."""
    x, scale = KeywordArg("x"), KeywordArg("scale")
    for scaled in (*_both(torch.mul, x, scale), x):
        yield CallFunction(torch.softmax, CallFunction(torch.masked_fill, scaled, KeywordArg("mask"), -10000.0), -1)


def _masked_softmax(last, x, mask, scale=1.0):
    if not isinstance(scale, (int, float)) or _value(x).dim() != 4 or _value(x).dtype not in _FLOATS:
        return None
    return torch.ops.npu.npu_scaled_masked_softmax.default, (x, mask, float(scale), False), None


def _group_norms() -> Iterator:
    yield CallFunction(F.silu, CallFunction(F.group_norm, KeywordArg("x"), KeywordArg("groups"), KeywordArg("weight"), KeywordArg("bias"),
                                            KeywordArg("eps")))


def _group_norm_silu(last, x, groups, weight, bias, eps):
    if _value(last).requires_grad or _value(x).dtype not in _FLOATS:  # it has no gradient
        return None
    return torch.ops.npu.npu_group_norm_silu.default, (x, weight, bias, groups, eps), 0


def _losses() -> Iterator:
    yield CallFunction(F.cross_entropy, KeywordArg("logits"), KeywordArg("target"), None, None, KeywordArg("ignore_index"), None,
                       KeywordArg("reduction"), KeywordArg("label_smoothing"))


def _cross_entropy(last, logits, target, ignore_index, reduction, label_smoothing):
    given = _value(target)
    if _value(logits).dim() != 2 or _value(logits).dtype not in _FLOATS or given.dim() != 1:
        return None
    return cross_entropy, (logits, target, reduction, ignore_index, label_smoothing), None


def cross_entropy(logits, target, reduction, ignore_index, label_smoothing):
    loss = torch.ops.npu.npu_cross_entropy_loss(logits, target, None, reduction, ignore_index, label_smoothing)[0]
    return loss if reduction == "none" else loss.reshape(())
