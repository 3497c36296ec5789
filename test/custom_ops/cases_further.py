"""Further forms of operators of one tensor or two: other sizes, no elements, other axes, and arguments at other values than by default."""

import torch
from cases import Case, W, X, clipped, grads, rand, rms
from cases_norm import add_layer_norm_backward, group_statistics, statistics
from cases_rotary import rotary, tables
from torch.nn import functional as F

EMPTY, ROW, WIDE = rand(0, 8), rand(1, 8), rand(2, 130, seed=2)  # no rows, one row, more numbers than a vector register has
VECTOR = rand(37)
AXIS = rand(3, 6, 5)


def halves(function, dim=-1):
    """Of the first half, times the second one."""
    return lambda x, *_, **__: (lambda a, b: function(a) * b)(*x.chunk(2, dim))


def fast(x):
    return x * torch.sigmoid(1.702 * x)


def tanh(x):
    return F.gelu(x, approximate="tanh")


def geglu(x, dim=-1, approximate=1, activate_left=False):
    a, b = x.chunk(2, dim) if activate_left else x.chunk(2, dim)[::-1]
    gelu = F.gelu(a, approximate="tanh" if approximate else "none")
    return gelu * b, gelu


def geglu_gradient(grad, x, gelu, dim=-1, approximate=1, activate_left=False):
    return grads(lambda t: geglu(t, dim, approximate, activate_left)[0], (x,), grad)


def unary(op, function, **more):
    """An activation, for shapes that are not those of its first case."""
    return [Case(op, (x,), function, label=label, **more)
            for label, x in (("empty", EMPTY), ("a vector", VECTOR), ("a number", rand(1)[0]), ("wide rows", WIDE * 5))]


def backward(op, function, result=False):
    """(gradient, input), or with the result behind."""
    return [Case(op, (rand(*x.shape, seed=5), x, *((function(x),) if result else ())), lambda g, x, *_: grads(function, (x,), g),
                 label=label)
            for label, x in (("empty", EMPTY), ("a vector", VECTOR), ("wide rows", WIDE * 5))]


ACTIVATION = [
    *unary("npu_fast_gelu", fast, grad=(0,)), *unary("fast_gelu", fast, grad=(0,)), *unary("npu_mish", F.mish, grad=(0,)),
    *unary("npu_silu", F.silu, grad=(0,)), *unary("npu_silu_", F.silu), *unary("npu_gelu", F.gelu, grad=(0,)),
    *backward("npu_fast_gelu_backward", fast), *backward("npu_gelu_backward", F.gelu), *backward("npu_mish_backward", F.mish),
    *backward("npu_silu_backward", F.silu, True),
    Case("npu_gelu", (X,), lambda x, approximate: F.gelu(x), {"approximate": "none"}, grad=(0,), label="erf"),
    Case("npu_gelu_backward", (X, X + 1), lambda g, x, approximate: grads(tanh, (x,), g), {"approximate": "tanh"}, label="tanh"),
    Case("npu_gelu_mul", (rand(2, 3, 10),), halves(F.gelu), label="three dimensions"),
    Case("npu_gelu_mul", (WIDE,), halves(tanh), {"approximate": "tanh"}, label="tanh"),
    Case("npu_gelu_mul", (EMPTY,), halves(F.gelu), label="empty"),
    Case("npu_geglu", (AXIS, 1, 0, True), geglu, grad=(0,), label="axis 1, erf, left"),
    Case("npu_geglu", (WIDE, -1, 1, True), geglu, grad=(0,), label="left"),
    Case("npu_geglu", (EMPTY,), geglu, label="empty"),
    Case("npu_geglu_grad", (rand(3, 3, 5), AXIS, geglu(AXIS, 1, 0, True)[1], 1, 0, True), geglu_gradient, label="axis 1, erf, left"),
    Case("npu_geglu_grad", (rand(2, 65), WIDE, geglu(WIDE)[1]), geglu_gradient, label="wide rows"),
    Case("npu_swiglu", (AXIS, 1), halves(F.silu, 1), grad=(0,), label="axis 1"),
    Case("npu_swiglu", (rand(4, 6, 2), 0), halves(F.silu, 0), grad=(0,), label="axis 0"),
    Case("npu_swiglu", (rand(2, 3, 2, 8), -2), halves(F.silu, -2), grad=(0,), label="last but one"),
    Case("npu_swiglu", (EMPTY,), halves(F.silu), label="empty"),
    Case("npu_swiglu", (WIDE * 9,), halves(F.silu), grad=(0,), label="wide rows"),
    Case("npu_swiglu_backward", (rand(3, 3, 5), AXIS, 1), lambda g, x, d: grads(halves(F.silu, d), (x,), g), label="axis 1"),
    Case("npu_swiglu_backward", (rand(2, 65), WIDE * 9), lambda g, x: grads(halves(F.silu), (x,), g), label="wide rows"),
    Case("npu_swiglu_backward", (rand(0, 4), EMPTY), lambda g, x: grads(halves(F.silu), (x,), g), label="empty"),
    Case("npu_clipped_swiglu", (AXIS * 9, ), lambda x, dim, interleaved: clipped(*x.chunk(2, 1)), {"dim": 1, "interleaved": False},
         label="axis 1"),
]


def offset_rms(x, w, eps=1e-6):
    return rms(x, 1 + w, eps)


def summed(a, b, w, eps=1e-6):
    return *rms(a + b, w, eps), a + b


def layer(a, b, w, c, eps=1e-5, sums=False):
    x = a + b
    mean, rstd = statistics(x, eps)
    return (F.layer_norm(x, x.shape[-1:], w, c, eps), mean, rstd, *((x,) if sums else ()))


def deep(x, g, b, w, alpha=0.3, eps=1e-6):
    y = alpha * x + g
    mean, rstd = statistics(y, eps)
    return mean, rstd, F.layer_norm(y, y.shape[-1:], w, b, eps)


def deep_gradient(dy, x, g, w, mean, rstd, alpha):
    return grads(lambda x, g, b, w: deep(x, g, b, w, alpha)[2], (x, g, torch.zeros_like(w), w), dy)


def of_deep(x, g, w, alpha):
    return rand(*x.shape, seed=9), x, g, w, *statistics(alpha * x + g, 1e-6), alpha


def swish(x, groups, w, b, eps=1e-5, scale=1.0):
    y = F.group_norm(x, groups, w, b, eps)
    return y * torch.sigmoid(scale * y)


def swish_gradient(dy, x, groups, w, b, mean, rstd, mask, scale):
    return grads(lambda x, w, b: swish(x, groups, w, b, 1e-5, scale), (x, w, b), dy)


def of_swish(x, groups, scale):
    return rand(*x.shape, seed=9), x, groups, rand(x.shape[1]), rand(x.shape[1], seed=1), *group_statistics(x, groups), [True] * 3, scale


def of_rms(x, w):
    return rand(*x.shape, seed=9), x, w, rms(x, w)[1]


V, V2 = rand(130), rand(130, seed=3)
NORM = [
    Case("npu_rms_norm", (WIDE, V, 1e-2), rms, grad=(0, 1), label="epsilon"),
    Case("npu_rms_norm", (EMPTY, W), rms, label="empty"),
    Case("npu_rms_norm", (rand(8), W), rms, grad=(0, 1), label="a vector"),
    Case("npu_rms_norm_backward", of_rms(WIDE, V), lambda dy, x, w, r: grads(lambda a, b: rms(a, b)[0], (x, w), dy), label="wide rows"),
    Case("npu_rms_norm_backward", of_rms(ROW, W), lambda dy, x, w, r: grads(lambda a, b: rms(a, b)[0], (x, w), dy), label="one row"),
    Case("npu_gemma_rms_norm", (WIDE, V, 1e-2), offset_rms, label="epsilon"),
    Case("npu_gemma_rms_norm", (ROW, W), offset_rms, label="one row"),
    Case("npu_gemma_rms_norm", (EMPTY, W), offset_rms, label="empty"),
    Case("npu_add_rms_norm", (WIDE, WIDE + 1, V, 1e-2), summed, label="epsilon"),
    Case("npu_add_rms_norm", (ROW, rand(1, 8, seed=4), W), summed, label="one row"),
    Case("npu_add_rms_norm", (EMPTY, EMPTY, W), summed, label="empty"),
    Case("npu_add_rms_norm", (rand(2, 3, 4, 8), rand(2, 3, 4, 8, seed=1), W), summed, label="four dimensions"),
    Case("npu_add_rms_norm_cast", (WIDE, WIDE + 1, V, 1e-2), lambda a, b, w, e: (rms(a + b, w, e)[0], *summed(a, b, w, e)),
         label="epsilon"),
    Case("npu_add_rms_norm_cast", (ROW, rand(1, 8, seed=4), W), lambda a, b, w: (rms(a + b, w)[0], *summed(a, b, w)), label="one row"),
    Case("npu_add_layer_norm", (WIDE, WIDE + 1, V, V2, 1e-2, True), layer, grad=(0, 2), label="epsilon"),
    Case("npu_add_layer_norm", (ROW, rand(1, 8, seed=4), W, W), layer, grad=(0, 2), label="sum not asked for"),
    Case("npu_add_layer_norm_backward", (rand(1, 8), ROW, ROW + 1, *statistics(2 * ROW + 1, 1e-5)[::-1], W, None),
         add_layer_norm_backward, label="one row"),
    Case("npu_layer_norm_eval", (X, [6, 8], rand(6, 8), rand(6, 8, seed=1)), F.layer_norm, grad=(0,), label="two dimensions"),
    Case("npu_layer_norm_eval", (WIDE, [130], None, None, 1e-2), F.layer_norm, grad=(0,), label="no weights"),
    Case("npu_group_norm_silu", (rand(2, 6, 3, 5), rand(6), rand(6, seed=1), 2, 1e-2),
         lambda x, w, b, g, e: (F.silu(F.group_norm(x, g, w, b, e)),), label="image"),
    Case("npu_group_norm_silu", (rand(2, 6, 5), None, None, 6), lambda x, w, b, g: (F.silu(F.group_norm(x, g)),), label="no weights"),
    Case("npu_group_norm_swish", (rand(2, 6, 3, 5), 2, rand(6), rand(6, seed=1)), swish, grad=(0, 2, 3), label="image"),
    Case("npu_group_norm_swish", (rand(2, 6, 5), 6, rand(6), rand(6, seed=1), 1e-2, -1.0), swish, grad=(0, 2, 3), label="a channel each"),
    Case("npu_group_norm_swish_grad", of_swish(rand(2, 6, 3, 5), 2, 1.0), swish_gradient, label="image"),
    Case("npu_group_norm_swish_grad", of_swish(rand(2, 6, 5), 6, -1.0), swish_gradient, label="a channel each"),
    Case("npu_deep_norm", (WIDE, WIDE + 1, V, V2, 0.7, 1e-2), deep, grad=(0, 1), through=2, label="epsilon"),
    Case("npu_deep_norm", (ROW, rand(1, 8, seed=4), W, W), deep, grad=(0, 1), through=2, label="one row"),
    Case("npu_deep_norm_backward", of_deep(WIDE, WIDE + 1, V, 0.7), deep_gradient, label="wide rows"),
    Case("npu_deep_norm_backward", of_deep(ROW, rand(1, 8, seed=4), W, 0.3), deep_gradient, label="one row"),
    *[Case("npu_layernorm_grad", (rand(*x.shape, seed=9), x, list(shape), *statistics(x, 1e-5), w, w), lambda g, x, s, m, r, w, b: grads(
        lambda a, c, d: F.layer_norm(a, s, c, d), (x, w, b), g), label=label)
      for label, x, shape, w in (("one row", ROW, (8,), W), ("wide rows", WIDE, (130,), V))],
]


def apart(x, c, s):
    return rotary(x, c, s, "interleave-half")


ROTARY = [
    Case("npu_interleave_rope", (rand(2, 3, 4, 64), *tables(2, 1, 4, 64)), apart, label="BNSD"),
    Case("npu_interleave_rope", (rand(2, 3, 1, 64), *tables(2, 1, 1, 64)), apart, label="one position"),
    Case("npu_interleave_rope", (rand(2, 1, 4, 64), *tables(2, 1, 4, 64)), apart, label="one head"),
]

CASES = [*ACTIVATION, *NORM, *ROTARY]
