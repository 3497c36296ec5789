"""Quantisation with options at other values than by default, and of other classes of shapes: one row, no rows, batches, many groups."""

import torch
from cases import rand
from cases_further_quant import bits_of, group_quant, norm_quant
from cases_mx import case, gate
from cases_quant import (
    I4A,
    I4B,
    IMAGE,
    PRODUCT,
    SCALE,
    SCALE8,
    B,
    W,
    X,
    asymmetric,
    by_group,
    dynamic,
    i4,
    i8,
    int4,
    matmul_dequant,
    nineteen_bits,
    packed,
    quant_matmul,
    rms,
    rounded,
    scattered,
    swiglu,
)
from cases_quant_fused import BY_CHANNEL, BY_TENSOR, add_norm, quantised
from torch.nn import functional as F

INT = torch.int32
I8A, I8B = i8(4, 6), i8(6, 5)
TEN = torch.tensor([0, 2, 2, 3, 7, 7, 8, 9, 9, 10], dtype=INT)  # ends of ten groups, some of them empty
SMOOTH = rand(8).abs() + 1


def both(y):
    return rounded(dynamic(y)[0]), dynamic(y)[1]


def token(x, smooth_scales=None, group_index=None, dst_type=torch.int8, quant_mode="pertoken", dst_type_max=0.0):
    x = x if smooth_scales is None else x * smooth_scales if group_index is None else by_group(x, smooth_scales,
        tuple(group_index.tolist()))
    y, scale = (x / (s := x.abs().amax() / 127), s.view(1)) if quant_mode == "pertensor" else dynamic(x,
        7 if dst_type != torch.int8 else 127)
    return (int4(y) if dst_type == torch.quint4x2 else rounded(y)), scale


def skewed(x, smooth_scales=None, group_index=None, dst_type=torch.int8, quant_mode="pertoken", dst_type_max=0.0):
    x = x if smooth_scales is None else x * smooth_scales
    y, scale, offset = asymmetric(x)
    return rounded(y), scale, offset


DYNAMIC = [
    case("npu_dynamic_quant", (X,), token, "three dimensions", smooth_scales=SMOOTH),
    case("npu_dynamic_quant", (X,), token, "tensor, smooth", smooth_scales=SMOOTH, quant_mode="pertensor"),
    case("npu_dynamic_quant", (rand(10, 8),), token, "ten groups", smooth_scales=rand(10, 8).abs() + 1, group_index=TEN),
    case("npu_dynamic_quant_asymmetric", (X,), skewed, "three dimensions", smooth_scales=SMOOTH),
    case("npu_dynamic_quant_asymmetric", (rand(1, 40) + 3,), skewed, "one row of one sign"),
    case("npu_group_quant", (rand(10, 8) * 20, rand(10, 8), TEN), group_quant, "ten groups", offset=torch.tensor([-7.0])),
    case("npu_group_quant", (rand(1, 5) * 20, rand(2, 5), torch.tensor([0, 1])), group_quant, "one row", dst_dtype=torch.int8),
    *[case("npu_anti_quant", (x, s), lambda x, s, offset=None, dst_dtype=torch.float16, src_dtype=None: (
        (x + (0 if offset is None else offset)) * s).to(dst_dtype), label, **options)
      for label, x, s, options in (("three dimensions", i8(2, 3, 4), rand(4), {"offset": rand(4, seed=2), "src_dtype": torch.int8}),
                                   ("one number for all", i8(3, 7), torch.tensor([-0.25]), {"dst_dtype": torch.bfloat16}),
                                   ("no rows", i8(3, 4)[:0], rand(4), {"offset": rand(4, seed=2)}))],
    case("npu_trans_quant_param", (rand(16).abs(), torch.tensor([-200.0])), lambda s, o: bits_of(s) | (o.long() & 511) << 37,
         "one offset for all"),
    case("npu_trans_quant_param", (rand(1, 16).abs(),), bits_of, "two dimensions"),
    case("npu_dequant_bias", (PRODUCT.int(), SCALE / 100, rand(4), rand(5)), lambda x, s, a, b: (x * s * a[:, None] + b).half(),
         "scales of rows, floating"),
    case("npu_dequant_bias", (PRODUCT.int()[:0], SCALE / 100, rand(0), None), lambda x, s, a, b: torch.zeros(0, 5).half(), "no rows"),
    *[case("npu_gelu_quant", (x,), lambda x, input_scale=None, approximate="none", quant_mode="dynamic", input_offset=None, dst_type=None,
           round_mode="rint": (lambda y: both(y) if quant_mode == "dynamic" else rounded(y + (0 if input_offset is None
               else input_offset)))(
               F.gelu(x, approximate=approximate) * (1 if input_scale is None else input_scale)), label, **options)
      for label, x, options in (("tanh", X / 9 - 2.3, {"approximate": "tanh", "dst_type": torch.int8, "quant_mode": "static",
                                                       "input_scale": torch.tensor([2500.0])}),
                                ("one scale", X, {"input_scale": torch.tensor([30.0]), "quant_mode": "static"}),
                                ("one scale and offset", rand(1, 8), {"input_scale": torch.tensor([30.0]), "quant_mode": "static",
                                                                      "input_offset": torch.tensor([-4.0])}))],
]


def gated(x, smooth_scales=None, offsets=None, group_index=None, activate_left=False, quant_mode=0, group_list_type=0, dst_type=None):
    ends = None if group_index is None else (group_index.cumsum(0) if group_list_type else group_index).tolist()
    y = swiglu(x, activate_left)
    y = y if smooth_scales is None else y * smooth_scales if ends is None else by_group(y, smooth_scales, tuple(ends))
    if quant_mode:
        return rounded(dynamic(y)[0]), 1 / dynamic(y)[1]
    return rounded(y + (0 if offsets is None else offsets))


ROWS32 = (rand(4, 12) * 100).round().int()


def dequantised(x, weight_scale=None, activation_scale=None, bias=None, quant_scale=None, quant_offset=None, group_index=None,
                activate_left=False, quant_mode=0, dst_type=None, activate_dim=None, round_mode=None, swiglu_mode=0, **unit):
    """`unit`: clamp_limit, glu_alpha and glu_bias, which the plain unit does without."""
    x = x if bias is None else x + bias
    x = x.float() if weight_scale is None else x.float() * weight_scale
    x = x if activation_scale is None else x * activation_scale[:, None]
    y = gate(x, -1, activate_left, swiglu_mode, *(unit[name] for name in ("clamp_limit", "glu_alpha", "glu_bias") if name in unit))
    y = y if quant_scale is None else y * quant_scale
    return both(y) if quant_mode else rounded(y + (0 if quant_offset is None else quant_offset))


GATED = [
    case("npu_swiglu_quant", (rand(4, 12),), gated, "dynamic without scales", quant_mode=1, dst_type=torch.int8),
    case("npu_swiglu_quant", (rand(4, 12),), gated, "one scale for each column", smooth_scales=rand(1, 6) * 30, offsets=rand(1, 6, seed=2)),
    case("npu_swiglu_quant", (rand(10, 12),), gated, "ten counted groups", smooth_scales=rand(10, 6) * 30, group_list_type=1,
         group_index=TEN.diff(prepend=torch.tensor([0], dtype=INT)), activate_left=True),
    case("npu_dequant_swiglu_quant", (rand(4, 12),), dequantised, "floating", quant_mode=1, dst_type=torch.int8, activate_dim=-1),
    case("npu_dequant_swiglu_quant", (ROWS32,), dequantised, "left, without rows' scales", weight_scale=rand(12).abs() / 50,
         quant_scale=rand(6) * 9, activate_left=True, round_mode=0),
    case("npu_dequant_swiglu_quant", (ROWS32[:1],), dequantised, "one row, dynamic with bias", weight_scale=rand(12).abs() / 50,
         activation_scale=rand(1).abs(), bias=torch.arange(12, dtype=INT), quant_scale=rand(1, 6).abs() + 1, quant_mode=1),
    *[case("npu_dequant_swiglu_quant", (ROWS32,), dequantised, f"unit {mode}", weight_scale=rand(12).abs() / 5, quant_mode=1,
           activation_scale=rand(len(ROWS32)).abs() + 1, quant_scale=rand(6).abs() + 1, activate_left=left, swiglu_mode=mode,
           clamp_limit=2.0, glu_alpha=0.5, glu_bias=-1.)
      for mode, left in ((0, True), (1, False), (2, True))],
    case("npu_dequant_swiglu_quant", (rand(4, 12) * 9,), dequantised, "unit of its defaults", quant_mode=1, swiglu_mode=1),
    case("npu_dequant_swiglu_quant", (ROWS32,), dequantised, "static, right half first", weight_scale=rand(12).abs() / 50,
         quant_scale=rand(6) * 9, swiglu_mode=2),
]


def add_quant(a, b, w, s, z, beta=None, s2=None, z2=None, axis=-1, epsilon=1e-6, div_mode=True, dst_type=None):
    y = rms(a + b, w, 0 if beta is None else beta, epsilon)
    two = [rounded((y / s if div_mode else y * s) + (0 if z is None else z)) if s is not None else torch.zeros_like(a, dtype=torch.int8)
           for s, z in ((s, z), (s2, z2))]
    return *two, a + b


def of_norm(x, w, s, offset=None, beta=None, epsilon=1e-6, div_mode=True, dst_dtype=torch.int8):
    y = rms(x, w, 0 if beta is None else beta, epsilon)
    y = (y / s if div_mode else y * s) + (0 if offset is None else offset)
    return int4(y) if dst_dtype == torch.quint4x2 else rounded(y), torch.empty(0)


TALL, DEEP, ROW = rand(70, 8), rand(2, 1, 3, 8), rand(1, 8)
NORM = [
    case("npu_add_rms_norm_quant", (TALL, TALL + 1, W, SMOOTH / 30, torch.arange(8.0)), add_quant, "many rows", div_mode=True, epsilon=0.5,
         dst_type=torch.int8),
    case("npu_add_rms_norm_quant", (DEEP, DEEP, W, SMOOTH * 30, torch.arange(8.0), B), add_quant, "four dimensions", div_mode=False),
    *[case("npu_add_rms_norm_dynamic_quant", (a, b, W), lambda a, b, w, beta=None, epsilon=1e-6, smooth_scale1=None, y_dtype=None,
           output_mask=None: (lambda y: rounded(dynamic(y)[0]))(rms(a + b, w, 0 if beta is None else beta, epsilon) * (
               1 if smooth_scale1 is None else smooth_scale1)), label, **options)
      for label, a, b, options in (("no scales", TALL, TALL + 1, {"beta": B}),
                                   ("four dimensions", DEEP, DEEP, {"smooth_scale1": SMOOTH, "beta": B, "epsilon": 2.0}))],
    *[case("npu_rms_norm_quant", (x, W, B, torch.tensor([0.05]), torch.tensor([2], dtype=torch.int8), *more), lambda x, w, b, s, o, e=1e-6:
           rounded(rms(x, w, b, e) / s + o), label) for label, x, more in (("epsilon", TALL, (1e-2,)), ("four dimensions", DEEP, ()))],
    case("npu_rms_norm_quant", (rand(3, 1, 8), W, B, torch.tensor([0.5]), torch.tensor([-100], dtype=torch.int8)), norm_quant, "far off"),
    case("npu_rms_norm_quant_v2", (TALL, W, torch.tensor([0.05])), of_norm, "offset", offset=torch.tensor([3], dtype=torch.int8), beta=B),
    case("npu_rms_norm_quant_v2", (TALL, W, torch.tensor([0.4])), of_norm, "int4", dst_dtype=torch.quint4x2, epsilon=1e-2),
    case("npu_rms_norm_quant_v2", (DEEP, W, torch.tensor([20.0])), of_norm, "four dimensions", div_mode=False, dst_dtype=torch.int8),
    *[case("npu_add_rms_norm_v2", (a, b, w, *e), lambda *a: add_norm(*a)[0], label)
      for label, a, b, w, e in (("many rows", TALL, TALL + 1, W, (1e-3,)), ("four dimensions", DEEP, DEEP, W, ()),
                                ("a wide row", rand(1, 200), rand(1, 200, seed=2), rand(200), ()))],
    *[case("npu_add_rms_norm_v2_functional", (a, b, w, *e), add_norm, label)
      for label, a, b, w, e in (("many rows", TALL, TALL + 1, W, (1e-3,)), ("four dimensions", DEEP, DEEP, W, ()))],
    *[case(f"npu_quant_scatter{end}", (cache, torch.tensor(places, dtype=INT), updates, torch.tensor([0.1, 0.2, 0.3, 0.4]), None, -2, -1,
                                       "update", torch.int8, "rint"), lambda c, p, u, s, z, *_: scattered(c, p, u, s, z), label)
      for end in ("", "_") for label, cache, places, updates in (("one sequence", i8(1, 2, 9, 4), [3], rand(1, 2, 4, 4) * 9),
                                                                 ("four sequences", i8(4, 1, 5, 4), [0, 4, 2, 1], rand(4, 1, 1, 4) * 90))],
    *[case(f"npu_quant_scatter{end}", (i8(2, 3, 4, 6), torch.tensor([1, 3], dtype=INT), rand(2, 3, 4, 2) * 9, torch.tensor([0.1, 0.2]),
                                       torch.tensor([3.0, -4.0]), -1, -1), lambda c, p, u, s, z, *_: scattered(
                                           c.transpose(2, 3), p, (u / s + z).transpose(2, 3), torch.ones(1)).transpose(2, 3), "last axis")
      for end in ("", "_")],
    *[case(BY_CHANNEL, (x, rand(n).abs() + 0.1, torch.arange(n) - 2.0, axis, kind),
           lambda x, s, z, axis, d, result: quantised(x, s, z, axis, d), label, result=torch.zeros(x.shape, dtype=store))
      for label, x, n, axis, kind, store in (("one channel", rand(4, 1), 1, 1, torch.qint8, torch.int8),
                                             ("int32", rand(5, 3), 3, 1, torch.qint32, INT),
                                             ("middle", rand(2, 3, 4), 3, 1, torch.qint8, torch.int8))],
    *[case(BY_TENSOR, (x, torch.tensor([0.02]), torch.tensor([zero]), kind), lambda x, s, z, d, result: quantised(x, s, z, 0, d), label,
           result=torch.zeros(x.shape, dtype=store))
      for label, x, zero, kind, store in (("beyond the ends", rand(3, 4) * 9, -5.0, torch.qint8, torch.int8),
                                          ("four dimensions", rand(2, 1, 3, 2), 100.0, torch.quint8, torch.uint8))],
]


def convolved(x, w, s, stride=1, pads=0, dilation=1, groups=1, offset_x=0, round_mode="rint", output_dtype=None, bias=None):
    y = F.conv2d(x.float(), w.float(), None, stride, pads, dilation, groups) + (0 if bias is None else bias[:, None, None])
    return (y * s[:, None, None]).half()


def four_bits(x, w, s, o=None, qs=None, qo=None, b=None, group=0, *_, whole=I4B):
    k = len(whole)
    wide = [None if t is None else t.repeat_interleave(group, 0)[:k] if group else t for t in (s, o)]
    y = x @ ((whole + (0 if o is None else wide[1])) * wide[0]) + (0 if b is None else b)
    return y if qs is None else rounded(y * nineteen_bits(qs) + (0 if qo is None else qo.round()))


def dequant(x, w, s, bias=None, x_scale=None, smooth_scale=None, quant_mode="pertoken"):
    return matmul_dequant(x, w, s, x_scale, smooth_scale)


FEW, EIGHT = torch.tensor([0.001, 0.002]), i8(2, 4, 6, 5)
PRODUCTS = [
    case("npu_quant_conv2d", (i8(2, 4, 6, 5), i8(2, 2, 3, 2), FEW, [2, 1], [1, 0], [1, 2], 2), convolved, "groups",
         output_dtype=torch.float16, bias=torch.tensor([100, -200], dtype=INT)),
    case("npu_quant_conv2d", (IMAGE, i8(2, 2, 1, 1), FEW), convolved, "one by one", output_dtype=torch.float16),
    case("npu_quant_conv2d", (EIGHT, i8(2, 4, 6, 5), FEW, 1, [2, 1]), convolved, "as large as the image", output_dtype=torch.float16),
    case("npu_quant_matmul_dequant", (rand(70, 6), i8(5, 6), SCALE), dequant, "many rows", smooth_scale=rand(6)),
    case("npu_quant_matmul_dequant", (rand(4, 6), i8(5, 6), SCALE), dequant, "a scale for each row", x_scale=rand(4, 1).abs() / 50 + 0.01),
    case("npu_quant_matmul_dequant", (rand(4, 6), i8(1, 6), SCALE[:1]), dequant, "one column", quant_mode="pertensor",
         x_scale=torch.tensor([0.03])),
    *[case("npu_quant_matmul_reduce_sum", (i8(n, m, k), i8(n, k, 5)), lambda a, b, x1_scale, x2_scale: (
        (a.long() @ b.long()).float() * x1_scale[..., None] * x2_scale.float()).sum(0).bfloat16(), label, x1_scale=rand(n, m),
        x2_scale=SCALE) for label, n, m, k in (("one row", 3, 1, 6), ("one number in a row", 2, 4, 1), ("many rows", 2, 70, 8))],
    case("npu_weight_quant_batchmatmul", (rand(1, 16), packed(I4B), rand(4, 8), None, None, None, rand(8), 4), four_bits, "one row, int4"),
    case("npu_weight_quant_batchmatmul", (rand(4, 6), I8B.t().contiguous().t(), SCALE[None], rand(1, 5), None, None, rand(5)),
         lambda *a: four_bits(*a, whole=I8B), "transposed"),
    *[case("npu_convert_weight_to_int4pack", (numbers,), packed, label)
      for label, numbers in (("one row", i4(1, 8)), ("wide rows", i4(3, 64)), ("ends", torch.tensor([[-8, 7] * 4] * 2, dtype=INT)))],
    case("npu_quant_matmul", (i8(0, 6), I8B, SCALE), quant_matmul, "no rows", output_dtype=torch.float16, pertoken_scale=rand(0)),
    case("npu_quant_matmul", (I8A, I8B.t().contiguous().t(), SCALE), quant_matmul, "transposed", output_dtype=torch.bfloat16,
         pertoken_scale=rand(4)),
    case("npu_quant_matmul", (packed(I4A), packed(I4B), SCALE8), lambda a, b, s, output_dtype: (
        (I4A.long() @ I4B.long()) * nineteen_bits(s)).half(), "int4 without rows' scales", output_dtype=torch.float16),
]
CASES = [*DYNAMIC, *GATED, *NORM, *PRODUCTS]
# Why the official client cannot be asked, or does not agree.
NOT_OFFICIAL = {
    "npu_swiglu_quant-ten counted groups": "it needs offsets of the scales' shape",
    "npu_weight_quant_batchmatmul-one row, int4": "groups of 4; it takes multiples of 32",
    **{str(case): "it takes weights in the format FRACTAL_NZ only" for case in CASES if case.op == "npu_quant_matmul_reduce_sum"},
}
