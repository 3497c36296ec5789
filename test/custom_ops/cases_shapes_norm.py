"""Activations, norms and rotary embedding over shapes of other classes (several dimensions, one number, no rows, one column, many rows),
with the options that their first cases leave at their defaults."""

import torch
from cases import TURNS, Case, Leading, grads, rand, rms, turned
from cases_further import (
    add_layer_norm_backward,
    apart,
    deep,
    deep_gradient,
    fast,
    geglu,
    geglu_gradient,
    halves,
    layer,
    of_deep,
    of_rms,
    of_swish,
    offset_rms,
    statistics,
    summed,
    swish,
    swish_gradient,
    tanh,
)
from cases_rotary import rotary, tables
from torch.nn import functional as F

DEEP, TALL = rand(2, 1, 3, 2, 8), rand(70, 6)  # five dimensions; more rows than a block has
LARGE = rand(3, 5) * 30  # where a sigmoid is flat
W, NARROW = rand(8, seed=1), rand(9, 2)


def unary(op, function, **more):
    return [Case(op, (x,), function, label=label, **more) for label, x in (("five dimensions", DEEP), ("flat ends", LARGE))]


def of_unary(op, function, result=False):
    return [Case(op, (rand(*x.shape, seed=5), x, *((function(x),) if result else ())), lambda g, x, *_: grads(function, (x,), g),
                 label=label) for label, x in (("five dimensions", DEEP), ("flat ends", LARGE), ("one number", rand(1)))]


def clipped(x, dim=-1, alpha=1.702, limit=7.0, bias=1.0, interleaved=True):
    gate, linear = (x.unflatten(dim, (-1, 2)).unbind(dim) if interleaved and dim == -1 else x.chunk(2, dim))
    gate, linear = gate.clamp(max=limit), linear.clamp(-limit, limit)
    return gate * torch.sigmoid(alpha * gate) * (linear + bias)


WIDE = rand(5, 24, seed=2) * 9
ACTIVATION = [
    *unary("npu_fast_gelu", fast, grad=(0,)), *unary("fast_gelu", fast, grad=(0,)), *unary("npu_mish", F.mish, grad=(0,)),
    *unary("npu_silu", F.silu, grad=(0,)), *unary("npu_silu_", F.silu),
    *of_unary("npu_fast_gelu_backward", fast), *of_unary("npu_gelu_backward", F.gelu), *of_unary("npu_mish_backward", F.mish),
    *of_unary("npu_silu_backward", F.silu, True),
    Case("npu_gelu_backward", (rand(3, 5), LARGE), lambda g, x, approximate: grads(tanh, (x,), g), {"approximate": "tanh"},
         label="tanh of flat ends"),
    Case("npu_gelu_mul", (DEEP,), halves(tanh), {"approximate": "tanh"}, label="tanh of five dimensions"),
    Case("npu_gelu_mul", (NARROW,), halves(F.gelu), label="one column"),
    Case("npu_geglu", (DEEP, 3, 1, True), geglu, grad=(0,), label="axis 3, left"),
    Case("npu_geglu", (rand(4, 6), 0, 0, False), geglu, grad=(0,), label="axis 0, erf"),
    *[Case("npu_geglu_grad", (rand(*geglu(x, *how)[0].shape, seed=5), x, geglu(x, *how)[1], *how), geglu_gradient, label=label)
      for label, x, how in (("axis 0, tanh, left", rand(4, 6), (0, 1, True)), ("erf", NARROW, (-1, 0, False)),
                            ("axis 3 of five", DEEP, (3, 1, False)))],
    *[Case("npu_swiglu_backward", (rand(*halves(F.silu, d)(x).shape, seed=5), x, d), lambda g, x, d: grads(halves(F.silu, d), (x,), g),
           label=label) for label, x, d in (("axis 0", rand(4, 6, 2), 0), ("last but one", DEEP, -2))],
    *[Case("npu_clipped_swiglu", (WIDE,), clipped, options, label=label)
      for label, options in (("limit", {"limit": 2.5}), ("alpha and bias", {"alpha": 0.5, "bias": -2.0}),
                             ("halves, everything else", {"alpha": 3.0, "bias": 0.25, "limit": 4.0, "interleaved": False}))],
    Case("npu_clipped_swiglu", (WIDE,), lambda x, group_index: Leading(clipped(x)[:4]), {"group_index": torch.tensor([1, 3])},
        label="groups"),
]


def rms_gradient(dy, x, w, r):
    return grads(lambda a, b: rms(a, b)[0], (x, w), dy)


def rms_of_two(x, w, eps=1e-6):
    rstd = (x.square().mean((-2, -1), keepdim=True) + eps).rsqrt()
    return x * rstd * w, rstd


def cast_too(a, b, w, eps=1e-6):
    return rms(a + b, w, eps)[0], *summed(a, b, w, eps)


def group_silu(x, w, b, groups, eps=1e-5):
    parts = x.reshape(x.shape[0], groups, -1)
    rstd = (parts.var(-1, correction=0) + eps).rsqrt()
    return F.silu(F.group_norm(x, groups, w, b, eps)), parts.mean(-1), rstd


def pair(*shape):
    return rand(*shape), rand(*shape, seed=4)


def of_sum(x1, x2, dsum=None):
    w = rand(x1.shape[-1], seed=1)
    return rand(*x1.shape, seed=9), x1, x2, *statistics(x1 + x2, 1e-5)[::-1], w, dsum


def many(op, reference, arguments, grad=()):
    return [Case(op, args, reference, grad=grad, label=label) for label, args in arguments.items()]


def layer_gradient(g, x, s, m, r, w, b):
    return grads(lambda a, c, d: F.layer_norm(a, s, c, d), (x, w, b), g)


IMAGE, SIX, SIX2 = rand(3, 6, 2, 4), rand(6), rand(6, seed=1)
NORM = [
    *many("npu_rms_norm", rms, {"five dimensions": (DEEP, W), "many rows": (TALL, SIX, 1e-3)}, (0, 1)),
    Case("npu_rms_norm_backward", (rand(3, 4, 5, seed=9), rand(3, 4, 5), rand(4, 5), rms_of_two(rand(3, 4, 5), rand(4, 5))[1]),
         lambda dy, x, w, r: grads(lambda a, b: rms_of_two(a, b)[0], (x, w), dy), label="two dimensions"),
    *many("npu_rms_norm_backward", rms_gradient, {"many rows": of_rms(TALL, SIX), "five dimensions": of_rms(DEEP, W)}),
    *many("npu_gemma_rms_norm", offset_rms, {"many rows": (TALL, SIX, 1e-3), "five dimensions": (DEEP, W)}),
    *many("npu_add_rms_norm", summed, {"many rows": (*pair(70, 6), SIX, 1e-3)}),
    *many("npu_add_rms_norm_cast", cast_too, {"many rows": (*pair(70, 6), SIX, 1e-3), "five dimensions": (DEEP, DEEP + 1, W),
                                              "no rows": (*pair(0, 8), W)}),
    *many("npu_add_layer_norm", layer, {"many rows": (*pair(70, 6), SIX, SIX2, 1e-3), "five dimensions": (DEEP, DEEP + 1, W, W, 1e-5, True),
                                        "one column": (*pair(4, 1), rand(1), rand(1))}, (0, 2)),
    *many("npu_add_layer_norm_backward", add_layer_norm_backward,
          {"five dimensions": of_sum(DEEP, DEEP + 1), "five dimensions, sum": of_sum(DEEP, DEEP + 1, DEEP), "a vector": of_sum(*pair(8))}),
    *many("npu_layer_norm_eval", F.layer_norm, {"weight alone": (TALL, [6], SIX, None, 1e-3), "three of five": (DEEP, [3, 2, 8]),
                                                "one column": (rand(4, 1), [1], rand(1), rand(1, seed=1))}, (0,)),
    *many("npu_group_norm_silu", group_silu, {"statistics": (IMAGE, SIX, SIX2, 3, 1e-3), "one group": (IMAGE, SIX, SIX2, 1),
                                              "one pixel": (rand(3, 6), None, None, 2)}),
    *many("npu_group_norm_swish", swish, {"one group": (IMAGE, 1, SIX, SIX2, 1e-3, 0.5), "one image": (IMAGE[:1], 2, SIX, SIX2),
                                          "volume": (rand(2, 6, 2, 1, 3), 3, SIX, SIX2, 1e-5, 3.0)}, (0, 2, 3)),
    *many("npu_group_norm_swish_grad", swish_gradient, {"one group": of_swish(IMAGE, 1, 0.5), "one image": of_swish(IMAGE[:1], 2, 1.0),
                                                        "volume": of_swish(rand(2, 6, 2, 1, 3), 3, 3.0)}),
    *(Case("npu_deep_norm", (*pair(*shape), rand(shape[-1]), rand(shape[-1], seed=1), *how), deep, grad=(0, 1), through=2, label=label)
      for label, shape, how in (("many rows", (70, 6), (1.0,)), ("four dimensions", (2, 1, 3, 8), (0.0, 1e-3)),
                                ("a vector", (8,), (2.0, 1e-5)))),
    *many("npu_deep_norm_backward", deep_gradient, {"many rows": of_deep(*pair(70, 6), SIX, 1.0),
                                                    "four dimensions": of_deep(*pair(2, 1, 3, 8), W, 0.0),
                                                    "three rows": of_deep(*pair(3, 8), W, 2.0)}),
    *many("npu_layernorm_grad", layer_gradient,
          {label: (rand(*x.shape, seed=9), x, [x.shape[-1]], *statistics(x, 1e-5), w, w)
           for label, x, w in (("many rows", TALL, SIX), ("five dimensions", DEEP, W), ("a vector", rand(8), W))}),
]


def with_key(q, k, c, s, layout="BSND", mode="half"):
    return rotary(q, c, s, mode), rotary(k, c, s, mode)


def rotary_gradient(g, x, c, s, mode):
    return grads(lambda a, b, d: rotary(a, b, d, mode), (x, c, s), g)


ROTARY = [
    *many("npu_interleave_rope", apart, {"many heads": (rand(1, 9, 2, 64), *tables(1, 1, 2, 64)),
                                         "one table": (rand(3, 2, 4, 64), *tables(1, 1, 4, 64))}),
    *many("npu_apply_rotary_pos_emb", with_key, {"one token": (rand(2, 1, 4, 8), rand(2, 1, 1, 8), *tables(2, 1, 1, 8)),
                                                 "TND, interleave": (rand(6, 4, 8), rand(6, 1, 8), *tables(6, 1, 8), "TND", "interleave")}),
    *many("npu_rotary_mul_backward", rotary_gradient,
          {f"{mode}, {shape}": (rand(*shape), rand(*shape, seed=4), *tables(*table), mode)
           for mode, shape, table in (("half", (6, 3, 8), (6, 1, 8)), ("interleave", (2, 3, 6, 8), (2, 1, 6, 8)),
                                      ("half", (2, 6, 3, 8), (2, 6, 3, 8)))}),
    Case("npu_mrope", (torch.tensor([5]), rand(1, 24), rand(1, 8), TURNS, 8), lambda p, q, k, c, h: (turned(q, p), turned(k, p)),
         label="one token"),
    Case("npu_mrope", (torch.tensor([1, 1, 4, 0]), rand(4, 8), rand(4, 8, seed=1), TURNS, 8),
         lambda p, q, k, c, h, rotary_mode: (turned(q, p, pairs=True), turned(k, p, pairs=True)), {"rotary_mode": "interleave"},
         label="interleave"),
]
CASES = [*ACTIVATION, *NORM, *ROTARY]
# Why the official client cannot be asked, or does not agree.
NOT_OFFICIAL = {str(case): "without autograd it asks for one gradient, and returns two tensors that nobody wrote"
                for case in CASES if case.op == "npu_rotary_mul_backward"}
