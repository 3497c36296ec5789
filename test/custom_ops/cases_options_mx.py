"""Quantisation to MX blocks and 8 bits: ways of rounding, of choosing scales, one row, no row, short blocks."""

import torch
from cases import rand
from cases_mx import (
    ALIASES,
    E1M2,
    E2M1,
    E4M3,
    E5M2,
    ENDS,
    EVEN,
    HIF8,
    LARGEST,
    OFFSET,
    TALL,
    WEIGHT,
    X,
    add_norm_mx,
    anti_mx_quant,
    block_quant,
    byte_quant,
    case,
    dual_axis,
    grouped,
    grouped_block,
    levels,
    mx_quant,
    norm_mx,
    quant_max,
    squares,
    swiglu_group,
    swiglu_mx,
)
from cases_quant import by_group
from cases_quant_fused import DUAL, DUAL_BACKWARD, group_backward, norm_backward_quant, rms, swiglu_both, swiglu_both_backward

import torch_npu

ROW, W = rand(1, 40), rand(16, seed=1)
THREE = torch.tensor([0, 33, 64], dtype=torch.int32)


def dynamic(x, smooth_scales=None, group_index=None, dst_type=None, quant_mode="pertoken", dst_type_max=0.0):
    """Numbers of 8 bits that have an exponent, and a scale for each token, channel or tensor that brings its largest one to the type's."""
    kind = ALIASES.get(dst_type, dst_type)
    x = x.float()
    if group_index is not None:
        x = by_group(x, smooth_scales, tuple(group_index.tolist()))
    elif smooth_scales is not None:
        x = x * (smooth_scales[:, None] if quant_mode == "perchannel" else smooth_scales)
    largest = x.abs().amax() if quant_mode == "pertensor" else x.abs().amax(-2 if quant_mode == "perchannel" else -1, keepdim=True)
    scale = largest / (dst_type_max or LARGEST[kind])
    values = torch.where(scale == 0, torch.zeros(()), x / scale)
    return byte_quant(values, kind), scale.view(1) if quant_mode == "pertensor" else scale.squeeze(-2 if quant_mode == "perchannel" else -1)


PLANES = rand(2, 3, 40)
CASES = [
    *[case("npu_dynamic_quant", (x,), dynamic, f"{label} of {name}", dst_type=kind, **options)
      for name, kind in (("e4m3", E4M3), ("e5m2", torch_npu.float8_e5m2), ("hifloat8", HIF8))
      for label, x, options in (
          ("tokens", torch.cat([PLANES, torch.zeros(2, 1, 40)], 1).half(), {}),
          ("channels", PLANES, {"quant_mode": "perchannel", "smooth_scales": rand(3).abs() + 1}),
          ("everything", PLANES, {"quant_mode": "pertensor", "smooth_scales": rand(40).abs() + 1}),
          ("groups", PLANES[0], {"smooth_scales": rand(2, 40).abs() + 1, "group_index": torch.tensor([1, 3], dtype=torch.int32)}))],
    case("npu_dynamic_quant", (PLANES,), dynamic, "a maximum of hifloat8", dst_type=HIF8, dst_type_max=56.0),
    case("npu_dynamic_mx_quant_with_dual_axis", (torch.cat([EVEN, -EVEN]),), dual_axis, "ties", round_mode="round"),
    case("npu_dynamic_mx_quant_with_dual_axis", (ROW,), dual_axis, "one row", dst_type=E4M3, scale_alg=1),
    case("npu_dynamic_block_mx_quant", (torch.cat([EVEN, -EVEN]),), squares, "ties", round_mode="round", dst_type=E1M2),
    case("npu_dynamic_block_mx_quant", (ROW,), squares, "one row", scale_alg=2, dst_type_max=7.0),
    case("npu_anti_mx_quant", mx_quant(ROW, dst_type=E4M3), anti_mx_quant, "one row", dst_type=torch.float16, axis=-1),
    case("npu_anti_mx_quant", mx_quant(rand(2, 3, 64), dst_type=E5M2), anti_mx_quant, "three dimensions", src_type=torch_npu.float8_e5m2),
    case("npu_grouped_dynamic_mx_quant", (rand(64, 4), THREE), grouped, "three groups", dst_type=E5M2, blocksize=32),
    case("npu_grouped_dynamic_mx_quant", (rand(64, 4), THREE), grouped, "maximum", dst_type=E2M1, scale_alg=2, dst_type_max=7.0),
    case("npu_grouped_dynamic_mx_quant", (rand(100, 2), ENDS), grouped, "rounded away", dst_type=E2M1, round_mode="round"),
    case("npu_grouped_dynamic_mx_quant", (rand(5, 70), torch.tensor([5], dtype=torch.int32)), grouped, "one group", dst_type=E4M3),
    case("npu_dynamic_block_quant", (ROW,), block_quant, "one row with a bound", dst_type=E4M3, col_block_size=64, min_scale=1000.0),
    case("npu_dynamic_block_quant", (rand(70, 130),), block_quant, "short blocks", dst_type=E5M2, row_block_size=32, col_block_size=64),
    case("npu_dynamic_dual_level_mx_quant", (rand(1, 512),), levels, "one block"),
    case("npu_dynamic_dual_level_mx_quant", (torch.cat([rand(2, 512), torch.zeros(2, 512)], 1),), levels, "a block of zeros",
        round_mode="floor"),
    case("npu_dynamic_dual_level_mx_quant", (rand(70, 30),), levels, "a short block"),
    *[case("npu_rms_norm_dynamic_mx_quant", (X, WEIGHT), norm_mx, f"{mode}, {kind}", round_mode=mode, dst_type=kind, **more)
      for mode, kind, more in (("round", E2M1, {"beta": OFFSET}), ("floor", E1M2, {"epsilon": 1e4}))],
    case("npu_rms_norm_dynamic_mx_quant", (rand(2, 3, 40), rand(40)), norm_mx, "three dimensions", dst_type=E4M3),
    *[case("npu_add_rms_norm_dynamic_mx_quant", (X, rand(4, 200), WEIGHT), add_norm_mx, f"{mode}, {kind}", round_mode=mode, dst_type=kind,
        **more)
      for mode, kind, more in (("round", E2M1, {"beta": OFFSET}), ("floor", E1M2, {"epsilon": 1e4}), ("rint", E4M3, {"scale_alg": 1}))],
    case("npu_grouped_dynamic_block_quant", (TALL, ENDS), grouped_block, "a bound", dst_type=E4M3, min_scale=100.0, group_list_type=0),
    case("npu_grouped_dynamic_block_quant", (rand(64, 130), THREE), grouped_block, "three groups", dst_type=E4M3, row_block_size=16,
         col_block_size=64),
    case("npu_grouped_dynamic_block_quant", (TALL, ENDS), grouped_block, "hifloat8", dst_type=HIF8, round_mode="round", dst_type_max=224.0),
    *[case("npu_quant_max", (x, torch.tensor([s])), quant_max, label, dst_dtype=kind, **more)
      for label, x, s, kind, more in (("zeros", torch.zeros(2, 3), 1.0, E4M3, {}), ("one number", rand(1) * 9, 0.25, E5M2, {}),
                                      ("three dimensions", rand(2, 3, 50), 0.1, HIF8, {"round_mode": "round"}))],
    *[case("npu_swiglu_mx_quant", (rand(3, 80) * 5,), swiglu_mx, label, dst_type=kind, **more)
      for label, kind, more in (("limit, alpha and bias", E4M3, {"swiglu_mode": 2, "clamp_limit": 2.0, "glu_alpha": 0.5, "glu_bias": -1.0}),
                                ("rounded down", E2M1, {"round_mode": "floor"}))],
    *[case("npu_swiglu_group_quant", (x,), swiglu_group, label, quant_mode=3, **more)
      for label, x, more in (("weights", rand(6, 8), {"weight": rand(6, 1), "dst_type_max": 28.0}), ("one row", rand(1, 16),
          {"output_origin": True}),
                             ("three groups", rand(9, 8), {"group_index": torch.tensor([2, 4, 3]), "clamp_limit": 0.5}))],
    *[case("npu_swiglu_group_quant_backward", (rand(*g), x), group_backward, label, **more)
      for label, g, x, more in (("limit", (6, 8), rand(6, 16) * 3, {"clamp_limit": 1.0}), ("one row", (1, 4), rand(1, 8), {}),
                                ("weights of groups, limit", (9, 2), rand(9, 4) * 3, {"weight": rand(9, 1), "y_origin": rand(9, 2, seed=3),
                                                                                       "group_index": torch.tensor([4, 5]),
                                                                                           "clamp_limit": 2.0}))],
    case(DUAL, (rand(1, 64),), swiglu_both, "one row", dst_type=E5M2, scale_alg=1),
    case(DUAL, (rand(64, 8), ), swiglu_both, "rounded down", dst_type=E2M1, scale_alg=0, round_mode="floor", group_index=THREE.long()),
    case(DUAL_BACKWARD, (rand(64, 128), rand(64, 64, seed=1)), swiglu_both_backward, "rounded away", dst_type=E2M1, scale_alg=2,
        dst_type_max=7.0,
         round_mode="round"),
    case(DUAL_BACKWARD, (rand(64, 64), rand(64, 32, seed=1)), swiglu_both_backward, "three groups", group_index=THREE.long(),
        dst_type=E5M2),
    case(DUAL_BACKWARD, (rand(1, 128), rand(1, 64, seed=1)), swiglu_both_backward, "one row", scale_alg=0),
    *[case("_npu_rms_norm_backward_quant", (rand(*x.shape, seed=3), x, rms(x, w)[1], w, torch.tensor([s])), norm_backward_quant, label,
        **more)
      for label, x, w, s, more in (("one row", rand(1, 16), W, 0.01, {"quant_mode": "static"}),
                                   ("three dimensions", rand(2, 3, 8), rand(8), 0.02, {"dst_type": 1}),
                                   ("multiplied with an offset", rand(70, 16), W, 30.0, {"div_mode": False,
                                       "offset_x": torch.tensor([-4.0])}))],
]
