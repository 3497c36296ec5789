"""Quantisation, and products of quantised matrices: the formulas of the operators' documentation in plain torch."""

import torch
from cases import Case, rand
from torch.nn import functional as F

GROUPS = torch.tensor([1, 1, 4])
X, W, B = rand(4, 6, 8), rand(8, seed=1), rand(8, seed=4)


def i8(*shape, seed=0):
    return (rand(*shape, seed=seed) * 40).round().clamp(-127, 127).to(torch.int8)


def i4(*shape, seed=0):
    return (rand(*shape, seed=seed) * 4).round().clamp(-8, 7).to(torch.int32)


def packed(numbers):
    """Eight int4 numbers of a row in an int32, the first in the lowest bits."""
    words = [sum((int(n) & 15) << (4 * i) for i, n in enumerate(part)) for part in numbers.reshape(-1, 8).tolist()]
    return torch.tensor([w - (1 << 32) if w >> 31 else w for w in words], dtype=torch.int32).reshape(*numbers.shape[:-1], -1)


def rounded(x, least=-128, most=127, dtype=torch.int8):
    return x.round().clamp(least, most).to(dtype)


def int4(x):
    return packed(rounded(x, -8, 7, torch.int32))


def dynamic(x, most=127, dim=-1):
    scale = x.abs().amax(dim, keepdim=True) / most
    return x / scale, scale.squeeze(dim)


def asymmetric(x, least=-128, most=127):
    scale = (x.amax(-1, keepdim=True) - x.amin(-1, keepdim=True)) / (most - least)
    offset = most - x.amax(-1, keepdim=True) / scale
    return x / scale + offset, scale.squeeze(-1), offset.squeeze(-1)


def by_group(x, factors, ends=(1, 1, 4)):
    return torch.cat([x[begin:end] * f for f, begin, end in zip(factors, [0, *ends], ends)])


def rms(x, w, b=0.0, eps=1e-6):
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * w + b


def swiglu(x, left=False):
    a, b = x.chunk(2, -1)
    return F.silu(a) * b if left else F.silu(b) * a


def nineteen_bits(scale):
    """What the hardware keeps of a scale."""
    return (scale.float().view(torch.int32) & -0x2000).view(torch.float32)


I8A, I8B, SCALE = i8(4, 6), i8(6, 5), rand(5).abs() / 100
PRODUCT = I8A.long() @ I8B.long()
I4A, I4B, SCALE8 = i4(4, 16), i4(16, 8), rand(8).abs() / 10
ROWS32 = (rand(4, 12) * 100).round().int()
IMAGE, KERNEL = i8(1, 2, 5, 5), i8(3, 2, 3, 3)
DEQUANT = torch.tensor([0.001, 0.002, 0.003])


def quant_matmul(a, b, s, bias=None, offset=None, pertoken_scale=None, output_dtype=None):
    sums = a.long() @ b.long() + (0 if bias is None or bias.is_floating_point() else bias)
    if output_dtype == torch.int32:
        return sums.int()
    if pertoken_scale is None and s.dtype == torch.float32 and output_dtype != torch.bfloat16:
        s = nineteen_bits(s)
    result = sums.float() * s.float() * (1 if pertoken_scale is None else pertoken_scale.float()[:, None])
    result = result + (bias.float() if bias is not None and bias.is_floating_point() else 0)
    return rounded(result + (0 if offset is None else offset.round())) if output_dtype is None else result.to(output_dtype)


def blocks(t, rows, columns, like):
    return t.repeat_interleave(rows, 0)[: like[0]].repeat_interleave(columns, 1)[:, : like[1]]


def scattered(cache, indices, updates, scales, zero=None):
    result, numbers = cache.clone(), rounded(updates / scales + (0 if zero is None else zero))
    for i, place in enumerate(indices.tolist()):
        result[i, :, place : place + updates.shape[2]] = numbers[i]
    return result


def matmul_dequant(x, w, s, x_scale=None, smooth=None):
    x = x.float() if smooth is None else x.float() * smooth.float()
    scale = x.abs().amax(-1, keepdim=True) / 127 if x_scale is None else x_scale
    return (rounded(x / scale, dtype=torch.int64) @ w.long().t()).float() * s * scale


CASES = [
    Case("npu_quantize", (rand(3, 4), torch.tensor([0.1]), torch.tensor([3.0]), torch.qint8, 1), lambda x, s, z, d,
         a: rounded(x / 0.1 + 3)),
    Case("npu_quantize", (rand(3, 4), torch.tensor([0.1, 0.2, 0.3]), torch.tensor([3, 4, 5], dtype=torch.int32), torch.quint8, 0),
         lambda x, s, z, d, a: rounded(x / s[:, None] + z[:, None], 0, 255, torch.uint8), label="uint8 by rows"),
    Case("npu_quantize", (rand(3, 4), torch.tensor([0.001]), None, torch.qint32), lambda x, s, z, d: (x / 0.001).round().int(),
         label="int32"),
    Case("npu_quantize", (rand(3, 4), rand(4) * 9, rand(4, seed=2), torch.qint8, -1, False), lambda x, s, z, d, a, m: rounded(x * s + z),
         label="product"),
    Case("npu_quantize", (rand(3, 4), rand(3) * 9, None, torch.qint8, -2, False), lambda x, s, z, d, a, m: rounded(x * s[:, None]),
         label="product by rows"),
    Case("npu_quantize", (rand(3, 16), rand(16) * 9, rand(16, seed=2), torch.quint4x2, -1, False), lambda x, s, z, d, a, m: int4(x * s + z),
         label="int4"),
    Case("npu_anti_quant", (I8A, rand(6)), lambda x, s: (x * s).half()),
    Case("npu_anti_quant", (I8A, torch.tensor([0.5])), lambda x, s, offset, dst_dtype: ((x + offset) * s).bfloat16(),
         {"offset": torch.tensor([3.0]), "dst_dtype": torch.bfloat16}, label="offset"),
    Case("npu_anti_quant", (packed(I4A), rand(16)), lambda x, s, offset, src_dtype: ((I4A + offset) * s).half(),
         {"offset": rand(16, seed=1), "src_dtype": torch.quint4x2}, label="int4"),
    # The third number, and the two with an offset, are those of the documented example of the operator.
    Case("npu_trans_quant_param", (torch.tensor([1.0, 0.5, 2.5]),), lambda s: torch.tensor([0x40003F800000, 0x40003F000000,
         0x400040200000])),
    Case("npu_trans_quant_param", (torch.tensor([1.00012, 1.00123]), torch.tensor([1.0, -2.0]), 1),
         lambda s, o, r: torch.tensor([1 << 46 | 1 << 37 | 0x3F800000, 1 << 46 | 510 << 37 | 0x3F802000]), label="offset"),
    Case("npu_dynamic_quant", (rand(3, 8),), lambda x: (rounded(dynamic(x)[0]), dynamic(x)[1])),
    Case("npu_dynamic_quant", (rand(2, 3, 16),), lambda x, dst_type, smooth_scales: (int4(dynamic(x * smooth_scales, 7)[0]),
         dynamic(x * smooth_scales, 7)[1]),
         {"dst_type": torch.quint4x2, "smooth_scales": rand(16).abs() + 1}, label="int4"),
    Case("npu_dynamic_quant", (rand(4, 8),), lambda x, smooth_scales, group_index: (
        lambda y: (rounded(dynamic(y)[0]), dynamic(y)[1]))(by_group(x, smooth_scales)),
        {"smooth_scales": rand(3, 8).abs() + 1, "group_index": GROUPS.int()}, label="groups"),
    Case("npu_dynamic_quant", (rand(2, 3, 8),), lambda x, quant_mode: (rounded(dynamic(x, dim=-2)[0]), dynamic(x, dim=-2)[1]),
         {"quant_mode": "perchannel"}, label="channels"),
    Case("npu_dynamic_quant", (rand(2, 3, 8),), lambda x, quant_mode: (rounded(x / (x.abs().amax() / 127)), x.abs().amax().view(1) / 127),
         {"quant_mode": "pertensor"}, label="tensor"),
    Case("npu_dynamic_quant_asymmetric", (torch.tensor([[0.0, 1.0, 2.55], [-1.0, 0.5, 1.55]]),), lambda x: (
        torch.tensor([[-128, -28, 127], [-128, 22, 127]], dtype=torch.int8), torch.tensor([0.01, 0.01]), torch.tensor([-128.0, -28.0]))),
    Case("npu_dynamic_quant_asymmetric", (torch.tensor([[0.0, 1.0, 2.55], [0.5, 1.5, 2.0]]),), lambda x, quant_mode: (
        torch.tensor([[-128, -28, 127], [-78, 22, 72]], dtype=torch.int8), torch.tensor([0.01]), torch.tensor([-128.0])),
        {"quant_mode": "pertensor"}, label="tensor"),
    Case("npu_dynamic_quant_asymmetric", (torch.tensor([[0.0, -1.0], [2.55, 1.55]]),), lambda x, quant_mode: (
        torch.tensor([[-128, -128], [127, 127]], dtype=torch.int8), torch.tensor([0.01, 0.01]), torch.tensor([-128.0, -28.0])),
        {"quant_mode": "perchannel"}, label="channels"),
    Case("npu_dynamic_quant_asymmetric", (rand(4, 16),), lambda x, dst_type, smooth_scales, group_index: (
        lambda y: (int4(asymmetric(y, -8, 7)[0]), *asymmetric(y, -8, 7)[1:]))(by_group(x, smooth_scales)),
        {"dst_type": torch.quint4x2, "smooth_scales": rand(3, 16).abs() + 1, "group_index": GROUPS.int()}, label="int4 in groups"),
    Case("npu_group_quant", (rand(4, 5) * 20, rand(3, 5), GROUPS), lambda x, s, g: rounded(by_group(x, s))),
    Case("npu_group_quant", (rand(4, 8) * 3, rand(3, 8), GROUPS.int()), lambda x, s, g, offset, dst_dtype: int4(by_group(x, s) + offset),
         {"offset": torch.tensor([1.5]), "dst_dtype": torch.quint4x2}, label="int4"),
    Case("npu_dequant_bias", (PRODUCT.int(), SCALE / 100, rand(4), torch.arange(5, dtype=torch.int32)),
         lambda x, s, a, b, output_dtype: ((x + b) * s * a[:, None]).bfloat16(), {"output_dtype": torch.bfloat16}),
    Case("npu_dequant_bias", (PRODUCT.int(), SCALE / 100, None, rand(5)), lambda x, s, a, b: (x * s + b).half(), label="floating"),
    Case("npu_gelu_quant", (rand(3, 8),), lambda x, input_scale: (rounded(dynamic(F.gelu(x) * input_scale)[0]),
         dynamic(F.gelu(x) * input_scale)[1]),
         {"input_scale": rand(8).abs() + 1}),
    Case("npu_gelu_quant", (rand(3, 8),), lambda x, input_scale, input_offset, quant_mode, approximate: rounded(
        F.gelu(x, approximate="tanh") * input_scale + input_offset),
        {"input_scale": rand(8) * 20, "input_offset": rand(8, seed=2), "quant_mode": "static", "approximate": "tanh"}, label="static"),
    Case("npu_swiglu_quant", (rand(4, 12),), lambda x, smooth_scales, group_index, quant_mode: (
        lambda y: (rounded(dynamic(y)[0]), 1 / dynamic(y)[1]))(by_group(swiglu(x), smooth_scales)),
        {"smooth_scales": rand(3, 6).abs() + 1, "group_index": GROUPS.int(), "quant_mode": 1}),
    Case("npu_swiglu_quant", (rand(4, 12),), lambda x, smooth_scales, offsets, group_index, group_list_type, activate_left: rounded(
        by_group(swiglu(x, True), smooth_scales) + torch.cat([offsets[:1], offsets[2:].expand(3, 6)])),
        {"smooth_scales": rand(3, 6) * 30, "offsets": rand(3, 6, seed=2), "group_index": torch.tensor([1, 0, 3], dtype=torch.int32),
         "group_list_type": 1, "activate_left": True}, label="static"),
    Case("npu_dequant_swiglu_quant", (ROWS32,), lambda x, weight_scale, activation_scale, quant_scale, quant_mode: (
        lambda y: (rounded(dynamic(y)[0]), dynamic(y)[1]))(swiglu(x.float() * weight_scale * activation_scale[:, None]) * quant_scale),
        {"weight_scale": rand(12).abs() / 50, "activation_scale": rand(4).abs() + 0.5, "quant_scale": rand(1, 6).abs() + 1,
        "quant_mode": 1}),
    Case("npu_dequant_swiglu_quant", (ROWS32,), lambda x, weight_scale, activation_scale, quant_scale, group_index, quant_mode,
         activate_left: (
        lambda y: (rounded(dynamic(y)[0]), dynamic(y)[1]))(by_group(swiglu(by_group(x.float(), weight_scale) * activation_scale[:, None],
        True), quant_scale)),
        {"weight_scale": rand(3, 12).abs() / 50, "activation_scale": rand(4).abs() + 0.5, "quant_scale": rand(3, 6).abs() + 1,
         "group_index": torch.tensor([1, 0, 3]), "quant_mode": 1, "activate_left": True}, label="groups"),
    Case("npu_dequant_swiglu_quant", (ROWS32,), lambda x, weight_scale, activation_scale, bias, quant_scale, quant_offset: rounded(
        swiglu((x + bias).float() * weight_scale * activation_scale[:, None]) * quant_scale + quant_offset),
        {"weight_scale": rand(12).abs() / 50, "activation_scale": rand(4).abs() + 0.5, "bias": torch.arange(12, dtype=torch.int32),
         "quant_scale": rand(6) * 9, "quant_offset": rand(6, seed=3)}, label="static"),
    Case("npu_add_rms_norm_quant", (X, X, W, torch.full((8,), 0.02), torch.full((8,), 3.0)),
         lambda a, b, w, s, z: (rounded(rms(a + b, w) / s + z), torch.zeros(4, 6, 8, dtype=torch.int8), a + b)),
    Case("npu_add_rms_norm_quant", (X, X, W, rand(8) * 30, None, B, rand(8, seed=5) * 30, torch.arange(8, dtype=torch.int32)),
         lambda a, b, w, s, z, beta, s2, z2, div_mode: (rounded(rms(a + b, w, beta) * s), rounded(rms(a + b, w, beta) * s2 + z2), a + b),
         {"div_mode": False}, label="two"),
    Case("npu_add_rms_norm_dynamic_quant", (X, X, W), lambda a, b, w, smooth_scale1, smooth_scale2: (
        *[rounded(dynamic(rms(a + b, w) * s)[0]) for s in (smooth_scale1, smooth_scale2)], a + b,
        *[dynamic(rms(a + b, w) * s)[1] for s in (smooth_scale1, smooth_scale2)]),
        {"smooth_scale1": rand(8).abs() + 1, "smooth_scale2": rand(8, seed=4).abs() + 1}),
    Case("npu_add_rms_norm_dynamic_quant", (X, X, W), lambda a, b, w, beta, y_dtype, output_mask: (
        torch.empty(0, dtype=torch.int32), int4(dynamic(rms(a + b, w, beta), 7)[0]), a + b, torch.empty(0), dynamic(rms(a + b, w, beta),
        7)[1]),
        {"beta": B, "y_dtype": torch.quint4x2, "output_mask": [False, True]}, label="int4"),
    Case("npu_rms_norm_quant", (X, W, B, torch.tensor([0.03]), torch.tensor([3], dtype=torch.int8)),
         lambda x, w, b, s, o: rounded(rms(x, w, b) / s + o)),
    Case("npu_rms_norm_quant", (X, W, B, torch.tensor([0.3]), torch.tensor([1], dtype=torch.int8)),
         lambda x, w, b, s, o, dst_dtype: int4(rms(x, w, b) / s + o), {"dst_dtype": torch.quint4x2}, label="int4"),
    Case("npu_rms_norm_quant_v2", (X, W, torch.tensor([30.0])), lambda x, w, s, beta, div_mode: (
        rounded(rms(x, w, beta) * s), torch.empty(0)), {"beta": B, "div_mode": False}),
    Case("npu_quant_scatter", (i8(2, 3, 6, 4), torch.tensor([1, 4], dtype=torch.int32), rand(2, 3, 2, 4) * 9, torch.tensor([0.1, 0.2, 0.3,
         0.4])),
         scattered),
    Case("npu_quant_scatter_", (i8(2, 3, 6, 4), torch.tensor([1, 4], dtype=torch.int32), rand(2, 3, 2, 4) * 9,
                                torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.tensor([1.0, 2.0, 3.0, 4.0])), scattered),
    Case("npu_quant_conv2d", (IMAGE, KERNEL, (DEQUANT.view(torch.int32).long() | 1 << 46)),
         lambda x, w, s, output_dtype, bias: ((F.conv2d(x.float(), w.float()) + bias[:, None, None]) * DEQUANT[:, None, None]).half(),
         {"output_dtype": torch.float16, "bias": torch.arange(3, dtype=torch.int32) * 100}),
    Case("npu_quant_conv2d", (IMAGE, KERNEL, DEQUANT, [2, 2], [1, 1]), lambda x, w, s, stride, pads, output_dtype: (
        F.conv2d(x.float(), w.float(), stride=2, padding=1) * s[:, None, None]).half(), {"output_dtype": torch.float16}, label="strides"),
    Case("npu_quant_matmul", (I8A, I8B, SCALE), quant_matmul, {"output_dtype": torch.float16, "pertoken_scale": rand(4)}),
    Case("npu_quant_matmul", (I8A, I8B, SCALE), quant_matmul, {"bias": torch.arange(5, dtype=torch.int32) * 1000, "offset": torch.ones(5)},
         label="int8"),
    Case("npu_quant_matmul", (I8A, I8B, SCALE / 10), quant_matmul, {"output_dtype": torch.float16}, label="float16"),
    Case("npu_quant_matmul", (I8A, I8B, SCALE[:1]), quant_matmul, {"output_dtype": torch.bfloat16, "bias": rand(5)}, label="bfloat16"),
    Case("npu_quant_matmul", (I8A, I8B, SCALE), quant_matmul, {"output_dtype": torch.int32, "bias": torch.arange(5, dtype=torch.int32)},
         label="int32"),
    Case("npu_quant_matmul", (I8A, I8B, 1 << 46 | 1 << 37 | nineteen_bits(SCALE).view(torch.int32).long()),
         lambda a, b, s: rounded(PRODUCT * nineteen_bits(SCALE) + 1), label="int64 scale"),
    Case("npu_quant_matmul", (i8(3, 4, 6), i8(1, 6, 5), SCALE / 10), lambda a, b, s, output_dtype, bias: (
        ((a.long() @ b.long()) + bias) * nineteen_bits(s)).half(), {"output_dtype": torch.float16, "bias": torch.arange(15,
        dtype=torch.int32).view(3, 1, 5)},
        label="batch"),
    Case("npu_quant_matmul", (packed(I4A), packed(I4B), SCALE8), lambda a, b, s, output_dtype, pertoken_scale: (
        (I4A.long() @ I4B.long()) * s * pertoken_scale[:, None]).half(), {"output_dtype": torch.float16, "pertoken_scale": rand(4)},
        label="int4"),
    Case("npu_quant_matmul", (packed(I4A), packed(I4B.t()).t(), SCALE8), lambda a, b, s, output_dtype, pertoken_scale: (
        (I4A.long() @ I4B.long()) * s * pertoken_scale[:, None]).half(), {"output_dtype": torch.float16, "pertoken_scale": rand(4)},
        label="int4 transposed"),
    Case("npu_quant_matmul", (i8(4, 260), i8(260, 150), rand(3, 2).abs() / 100), lambda a, b, s, output_dtype, pertoken_scale,
         group_sizes: (
        (a * blocks(pertoken_scale, 1, 128, a.shape)) @ (b * blocks(s, 128, 128, b.shape))).bfloat16(),
        {"output_dtype": torch.bfloat16, "pertoken_scale": rand(4, 3).abs() / 100, "group_sizes": [1, 128, 128]}, label="blocks"),
    Case("npu_weight_quant_batchmatmul", (rand(4, 6), I8B, SCALE[None], rand(1, 5)), lambda x, w, s, o: x @ ((w + o) * s)),
    Case("npu_weight_quant_batchmatmul", (rand(4, 80), i8(80, 5) // 8, rand(3, 5) / 8, None, None, None, rand(5), 32),
         lambda x, w, s, o, qs, qo, b, g: x @ (w * s.repeat_interleave(32, 0)[:80]) + b, label="groups"),
    Case("npu_weight_quant_batchmatmul", (rand(4, 16), packed(I4B), rand(1, 8), rand(1, 8, seed=2)), lambda x, w, s,
         o: x @ ((I4B + o) * s), label="int4"),
    Case("npu_weight_quant_batchmatmul", (rand(4, 16), packed(I4B.t()).t(), rand(4, 8), rand(4, 8, seed=2), None, None, None, 4, 1),
         lambda x, w, s, o, qs, qo, b, g, p: x @ ((I4B + o.repeat_interleave(4, 0)) * s.repeat_interleave(4, 0)), label="int4 transposed"),
    Case("npu_weight_quant_batchmatmul", (rand(4, 6), I8B, SCALE, None, rand(5) * 20, rand(5, seed=3)),
         lambda x, w, s, o, qs, qo: rounded((x @ (w * s)) * nineteen_bits(qs) + qo.round()), label="quantised"),
    Case("npu_quant_matmul_dequant", (rand(4, 6), i8(5, 6), SCALE), matmul_dequant),
    Case("npu_quant_matmul_dequant", (rand(4, 6), i8(5, 6), SCALE), lambda x, w, s, x_scale, smooth_scale, quant_mode: matmul_dequant(x, w,
         s, x_scale, smooth_scale),
         {"x_scale": torch.tensor([0.02]), "smooth_scale": rand(6), "quant_mode": "pertensor"}, label="static"),
    Case("npu_quant_matmul_reduce_sum", (i8(2, 4, 6), i8(2, 6, 5)), lambda a, b, x1_scale, x2_scale: (
        (a.long() @ b.long()).float() * x1_scale[..., None] * x2_scale.float()).sum(0).bfloat16(),
        {"x1_scale": rand(2, 4), "x2_scale": SCALE}),
    Case("npu_convert_weight_to_int4pack", (torch.tensor([[1, 2, 3, 4, 5, 6, 7, -8], [-1] * 8], dtype=torch.int32),),
         lambda w: torch.tensor([[0x87654321 - (1 << 32)], [-1]], dtype=torch.int32)),
    Case("npu_convert_weight_to_int4pack", (I4B,), packed, label="rows"),
]
# Cases that the official wheel refuses, or answers otherwise: see test/official/custom_ops.py.
NOT_OFFICIAL = {
    "npu_add_rms_norm_dynamic_quant-int4": "a result that is not asked for has no dimensions, in its meta function one of length 0",
    "npu_weight_quant_batchmatmul-int4 transposed": "groups of 4; it takes multiples of 32",
    "npu_quant_matmul_reduce_sum": "it takes weights in the format FRACTAL_NZ only",
}
