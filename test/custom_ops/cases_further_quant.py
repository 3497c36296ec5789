"""Further forms of quantisation, softmax, cross entropy and the gated delta rule: one row, one group, other types."""

import torch
from cases import rand
from cases_misc import FIRST, GATES, QKV, STATES, chunk_delta, deformed, deformed_gradients, recurrent_delta
from cases_mx import E1M2, E5M2, ENDS, OFFSET, TALL, WEIGHT, X as MX, add_norm_mx, case, grouped_block, levels, norm_mx, swiglu_group
from cases_quant import (
    DEQUANT,
    GROUPS,
    I4B,
    IMAGE,
    KERNEL,
    PRODUCT,
    SCALE,
    B,
    W,
    X,
    by_group,
    dynamic,
    i8,
    int4,
    matmul_dequant,
    nineteen_bits,
    packed,
    rms,
    rounded,
    scattered,
    swiglu,
)
from cases_quant_fused import BY_CHANNEL, add_norm, quantised
from cases_rnn import WIDTH, qkv_grad
from cases_softmax import (
    LOGS,
    TARGETS,
    WEIGHT as WEIGHTS,
    attended,
    cross_entropy_gradient,
    linear_gradient,
    masked_gradient,
    max_sum,
)
from torch.nn import functional as F

ROW = rand(1, 8)


def group_quant(x, s, ends, offset=None, dst_dtype=torch.int8):
    y = by_group(x, s, tuple(ends.tolist())) + (0 if offset is None else offset)
    return int4(y) if dst_dtype == torch.quint4x2 else rounded(y)


def bits_of(scale):
    """As the operator has them: the number's, and 1 << 46."""
    return nineteen_bits(scale).view(torch.int32).long() | 1 << 46


def norm_quant(x, w, b, s, o):
    return rounded(rms(x, w, b) / s + o)


QUANT = [
    case("npu_group_quant", (rand(4, 5) * 20, rand(1, 5), torch.tensor([4])), group_quant, "one group", offset=torch.tensor([2.0])),
    case("npu_group_quant", (rand(4, 5) * 20, rand(3, 5), torch.tensor([0, 0, 4], dtype=torch.int32)), group_quant, "the last group"),
    case("npu_dequant_bias", (PRODUCT.int(), SCALE / 100, None, None), lambda x, s, a, b, output_dtype: (x * s).half(), "no bias",
         output_dtype=torch.float16),
    case("npu_dequant_bias", (PRODUCT.int()[:1], SCALE / 100, rand(1), None),
         lambda x, s, a, b, output_dtype: (x * s * a[:, None]).bfloat16(), "one row", output_dtype=torch.bfloat16),
    case("npu_trans_quant_param", (torch.tensor([0.25]),), bits_of, "one number"),
    case("npu_trans_quant_param", (rand(40).abs(),), bits_of, "forty numbers"),
    case("npu_gelu_quant", (rand(2, 3, 8),), lambda x: (rounded(dynamic(F.gelu(x))[0]), dynamic(F.gelu(x))[1]), "no scale"),
    case("npu_swiglu_quant", (rand(4, 12),), lambda x, smooth_scales, group_index, quant_mode, activate_left: (
        lambda y: (rounded(dynamic(y)[0]), 1 / dynamic(y)[1]))(by_group(swiglu(x, True), smooth_scales)), "left",
        smooth_scales=rand(3, 6).abs() + 1, group_index=GROUPS.int(), quant_mode=1, activate_left=True),
    case("npu_add_rms_norm_quant", (ROW, ROW + 1, W, torch.full((8,), 0.02), None),
         lambda a, b, w, s, z: (rounded(rms(a + b, w) / s), torch.zeros(1, 8, dtype=torch.int8), a + b), "one row"),
    case("npu_add_rms_norm_quant", (X, X, W, rand(8).abs() + 0.1, None, B), lambda a, b, w, s, z, beta, epsilon: (
        rounded(rms(a + b, w, beta, epsilon) / s), torch.zeros(4, 6, 8, dtype=torch.int8), a + b), "epsilon", epsilon=1e-2),
    case("npu_add_rms_norm_dynamic_quant", (ROW, ROW + 1, W), lambda a, b, w, smooth_scale1: rounded(
        dynamic(rms(a + b, w) * smooth_scale1)[0]), "one row", smooth_scale1=rand(8).abs() + 1),
    case("npu_add_rms_norm_dynamic_quant", (X, X, W), lambda a, b, w, smooth_scale1, epsilon: rounded(
        dynamic(rms(a + b, w, 0.0, epsilon) * smooth_scale1)[0]), "epsilon", smooth_scale1=rand(8).abs() + 1, epsilon=1e-2),
    case("npu_rms_norm_quant", (ROW, W, B, torch.tensor([0.03]), torch.tensor([-5], dtype=torch.int8)), norm_quant, "one row"),
    case("npu_rms_norm_quant_v2", (X, W, torch.tensor([0.05])), lambda x, w, s: (rounded(rms(x, w) / s), torch.empty(0)), "divided"),
    case("npu_rms_norm_quant_v2", (ROW, W, torch.tensor([9.0])), lambda x, w, s, div_mode, epsilon: (
        rounded(rms(x, w, 0.0, epsilon) * s), torch.empty(0)), "epsilon", div_mode=False, epsilon=1e-2),
    *[case(f"npu_quant_scatter{end}", (i8(2, 3, 6, 4), torch.tensor(places, dtype=torch.int32), rand(2, 3, n, 4) * 9,
                                       torch.tensor([0.1, 0.2, 0.3, 0.4]), zero), scattered, label)
      for end in ("", "_") for label, places, n, zero in (("one place", [5, 0], 1, torch.tensor([1.0, 2.0, 3.0, 4.0])),
                                                          ("everything", [0, 0], 6, None))],
    case("npu_quant_conv2d", (IMAGE, KERNEL, DEQUANT, [1, 1], [0, 0], [2, 2]), lambda x, w, s, stride, pads, dilation, output_dtype: (
        F.conv2d(x.float(), w.float(), dilation=2) * s[:, None, None]).half(), "dilated", output_dtype=torch.float16),
    case("npu_quant_matmul_dequant", (rand(1, 6), i8(5, 6), SCALE), matmul_dequant, "one row"),
    *[case("npu_quant_matmul_reduce_sum", (i8(n, rows, 6), i8(n, 6, 5)), lambda a, b, x1_scale, x2_scale: (
        (a.long() @ b.long()).float() * x1_scale[..., None] * x2_scale.float()).sum(0).bfloat16(), f"{n} terms", x1_scale=rand(n, rows),
        x2_scale=SCALE) for n, rows in ((1, 4), (5, 2))],
    case("npu_convert_weight_to_int4pack", (torch.stack([I4B, -I4B.clamp(min=-7)]),), packed, "batch"),
    case(BY_CHANNEL, (rand(2, 3, 4), rand(3).abs() + 0.1, torch.arange(3) + 1.0, 1, torch.quint8),
         lambda x, s, z, axis, d, result: quantised(x, s, z, axis, d), "bytes", result=torch.zeros(2, 3, 4, dtype=torch.uint8)),
    case("npu_add_rms_norm_v2", (ROW, ROW + 1, W), lambda *a: add_norm(*a)[0], "one row"),
    case("npu_add_rms_norm_v2_functional", (ROW, ROW + 1, W, 1e-2), add_norm, "one row with epsilon"),
    case("npu_dynamic_dual_level_mx_quant", (rand(2, 3, 600),), levels, "three dimensions"),
    case("npu_rms_norm_dynamic_mx_quant", (MX[:1], WEIGHT), norm_mx, "one row", dst_type=E5M2, epsilon=1e-2),
    case("npu_add_rms_norm_dynamic_mx_quant", (MX[:1], rand(1, 200), WEIGHT), add_norm_mx, "one row", beta=OFFSET, dst_type=E1M2),
    case("npu_grouped_dynamic_block_quant", (TALL, ENDS), grouped_block, "e5m2", dst_type=E5M2, row_block_size=16),
    case("npu_swiglu_group_quant", (rand(5, 16),), swiglu_group, "limited", quant_mode=3, clamp_limit=0.5, output_origin=True),
]

V, VW, TOP = rand(3, 4), rand(6, 4, seed=1), torch.tensor([3, 5, 4])
ALL = max_sum(V, VW, TOP, 3, 8)
SOFTMAX = [
    case("npu_scaled_masked_softmax_backward", (rand(1, 1, 3, 7, seed=7), torch.softmax(rand(1, 1, 3, 7), -1),
                                                torch.zeros(1, 1, 3, 7).bool(), 1.0, False), masked_gradient, "nothing hidden"),
    case("npu_masked_softmax_with_rel_pos_bias", (rand(2, 3, 2, 4, 6), rand(1, 3, 1, 4, 6), rand(1, 1, 2, 4, 6, seed=2), 0.5),
         lambda x, m, b, s: torch.softmax(x * s + m + b, -1), "scaled mask"),
    case("npu_attn_softmax_", (rand(2, 300),), lambda x: torch.softmax(x, -1), "wide rows"),
    case("npu_attn_softmax_backward_", (torch.softmax(rand(1, 1, 1), -1), rand(1, 1, 3), rand(1, 1, 3)), attended, "one number"),
    case("npu_attn_softmax_backward_", (torch.softmax(rand(3, 2, 70), -1), rand(3, 2, 4), rand(3, 70, 4)), attended, "wide rows"),
    case("npu_cross_entropy_loss_backward", (rand(1), LOGS, TARGETS.clamp(min=0), WEIGHTS, None, None, "sum"), cross_entropy_gradient,
         "sum"),
    case("npu_fused_linear_online_max_sum", (V, VW, TOP, 3, 8), max_sum, "all inside"),
    case("npu_fused_cross_entropy_loss_with_max_sum", ALL[:3], lambda m, s, p: s.log() - p, "all inside"),
    case("npu_fused_linear_cross_entropy_loss_with_max_sum_backward", (rand(3, seed=3), V, VW, ALL[3], ALL[4], 0.0, *ALL[:2]),
         linear_gradient, "all inside"),
]

ONE_TOKEN = {"actual_seq_lengths": torch.tensor([1, 4], dtype=torch.int32)}
ODD = (rand(1, 2, 4, 6), rand(2, 2, 2, 3), rand(1, 3 * 6, 3, 4), rand(2), [2, 3], [1] * 4, [0, 0, 0, 0], [1] * 4, 1, 1)
DELTA = [
    case("npu_chunk_gated_delta_rule", QKV, chunk_delta, "one token", **GATES, **{**FIRST, **ONE_TOKEN}),
    case("npu_recurrent_gated_delta_rule", (*QKV, rand(6, 4, 3, 4)), lambda *a, **kw: recurrent_delta(*a, **kw)[0], "one token", **GATES,
         **{**STATES, **ONE_TOKEN}, scale=0.5),
    case("npu_recurrent_gated_delta_rule_functional", (*QKV, rand(6, 4, 3, 4)), recurrent_delta, "one token", **GATES,
         **{**STATES, **ONE_TOKEN}, scale=0.25),
    case("npu_deformable_conv2dbk", (ODD[0], rand(1, 2, 3, 4), deformed(*ODD)[1], *ODD[1:3], *ODD[4:]), deformed_gradients,
         "oblong kernel"),
    case("npu_fused_attention_qkv_grad", (*(rand(1, 4, seed=s) for s in range(3)), *(rand(WIDTH, 4, seed=s) for s in range(3)),
                                          rand(1, WIDTH), rand(1, WIDTH, seed=8)), qkv_grad, "one row"),
]


CASES = [*QUANT, *SOFTMAX, *DELTA]
# Why the official client cannot be asked, or does not agree.
NOT_OFFICIAL = {
    "npu_convert_weight_to_int4pack-batch": "it leaves out the batch",
    "npu_chunk_gated_delta_rule-one token": "it needs scale",
    "npu_quant_matmul_reduce_sum-1 terms": "it takes weights in FRACTAL_NZ only",
    "npu_quant_matmul_reduce_sum-5 terms": "the same",
}
