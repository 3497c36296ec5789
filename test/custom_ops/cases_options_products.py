"""Products: grouped ones with other groups, types and activations, quantised ones of MX blocks and hifloat8, adapters, batches."""

import torch
from cases import Case, grads, rand
from cases_grouped import bits, correction
from cases_mx import E2M1, E4M3, E5M2
from cases_quant import dynamic, i4, i8, matmul_dequant, packed, rounded
from cases_quant_fused import GELU, int8, matmul_gelu
from cases_quant_products import (
    HIFS,
    SCALES,
    add_quant,
    add_quant_gmm,
    adding,
    batch_of,
    dual_level,
    hif8,
    kronecker,
    levels,
    lora,
    mx_pair,
    transposed,
)
from torch.nn import functional as F

ROWS, EXPERTS = rand(12, 4), rand(4, 4, 5)
GROUPS = {"four groups": [5, 5, 6, 12], "none in front": [0, 0, 3, 12], "one each": [3, 6, 9, 12]}


def parts(x, ends):
    return [x[begin:end] for begin, end in zip([0, *ends], ends)]


def by_group(x, weights, ends):
    return torch.cat([part @ w for part, w in zip(parts(x, ends), weights)])


def weighted(x, w, ends):
    return torch.stack([a.t() @ b for a, b in zip(parts(x, ends), parts(w, ends))])


def rows_of(values, ends):
    return torch.cat([value.expand(len(part), -1) for value, part in zip(values, parts(torch.zeros(12), ends))])


I8X, I8W, I4W = i8(12, 16), i8(4, 16, 8), i4(4, 16, 8)
W_SCALE, X_SCALE = rand(4, 8).abs() / 100, rand(12).abs() / 10
ENDS = GROUPS["four groups"]
BY_ROWS = {"split_item": 2, "group_type": 0}


def listed(x, w, bias=None, scale=None, antiquant_scale=None, antiquant_offset=None, group_list=None, split_item=0, **_):
    if antiquant_scale is not None:
        w = [(a + b) * c for a, b, c in zip(w, antiquant_offset, antiquant_scale)]
    out = [a @ b + (0 if bias is None else c) for a, b, c in zip(parts(x[0], group_list), w, bias or w)]
    return torch.cat(out) if split_item > 1 else out


def swiglu(x, w, ends, w_scale, x_scale):
    a, b = (by_group(x.long(), w.long(), ends).float() * rows_of(w_scale, ends) * x_scale[:, None]).chunk(2, -1)
    numbers, scale = dynamic(F.silu(a) * b)
    return rounded(numbers), scale


def finalized(x, w, groups, scale, pertoken_scale, logit=None, row_index=None, shared_input=None, shared_input_weight=1.0,
              shared_input_offset=0, output_bs=0, group_list_type=1, **_):
    ends = (groups.cumsum(0) if group_list_type else groups).tolist()
    rows = by_group(x.long(), w.long(), ends).float() * rows_of(scale, ends) * pertoken_scale[:, None]
    rows = rows if logit is None else rows * logit[:, None]
    result = torch.zeros(output_bs or 12, 8).index_add(0, row_index.long(), rows)
    if shared_input is not None:
        result[shared_input_offset : shared_input_offset + len(shared_input)] += shared_input_weight * shared_input.float()
    return result


SIZES, PLACES = torch.tensor(ENDS).diff(prepend=torch.tensor([0])), torch.arange(12) * 5 % 12
ROUTING = {"scale": W_SCALE, "pertoken_scale": X_SCALE}
GROUPED = [
    *[Case("npu_grouped_matmul", ([ROWS], [EXPERTS]), lambda x, w, **_: by_group(x[0], w[0], ends), {**BY_ROWS, "group_list": torch.tensor(
        ends), "tuning_config": [4]}, label=f"{label}, tuned") for label, ends in list(GROUPS.items())[:1]],
    *[Case("npu_grouped_matmul", ([I8X], [I8W]), lambda x, w, scale, per_token_scale, act_type, act=act, **_: act(by_group(
        x[0].long(), w[0].long(), ENDS).float() * rows_of(scale[0], ENDS) * per_token_scale[0][:, None]).half(),
        {**BY_ROWS, "group_list": torch.tensor(ENDS), "scale": [W_SCALE], "per_token_scale": [X_SCALE], "output_dtype": torch.float16,
         "act_type": number}, label=label)
      for label, number, act in (("relu", 1, F.relu), ("gelu", 2, lambda x: F.gelu(x, approximate="tanh")),
                                 ("fast gelu", 4, lambda x: x * torch.sigmoid(1.702 * x)))],
    Case("npu_grouped_matmul.List", ([rand(12, 16)], list(I8W)), listed, {
        "group_list": ENDS, "antiquant_scale": list(W_SCALE), "antiquant_offset": list(rand(4, 8))}, label="weights of int8"),
    Case("npu_grouped_matmul.List", ([ROWS], list(EXPERTS)), listed, {"group_list": GROUPS["one each"], "bias": list(rand(4, 5)),
                                                                      "group_type": 0}, label="parts with bias"),
    *[Case("npu_grouped_matmul_add", (rand(16, 5), ROWS, rand(12, 5), torch.tensor(ends)), lambda s, x, w, e, **_: s + weighted(
        x, w, e.tolist()).flatten(0, 1), label=label) for label, ends in GROUPS.items()],
    Case("npu_grouped_matmul_add", (rand(16, 5), ROWS, rand(12, 5), SIZES), lambda s, x, w, e, **_: s + weighted(x, w, ENDS).flatten(0, 1),
         {"group_list_type": 1}, label="sizes"),
    *[Case("npu_grouped_matmul_add_", (rand(4, 4, 5), ROWS, rand(12, 5), torch.tensor(ends)),
           lambda s, x, w, e: s + weighted(x, w, e.tolist()), label=label) for label, ends in GROUPS.items()],
    *[Case("npu_grouped_matmul_swiglu_quant", (I8X, I8W, torch.tensor(ends), W_SCALE, X_SCALE),
           lambda x, w, g, s, t: swiglu(x, w, g.tolist(), s, t), label=label) for label, ends in GROUPS.items()],
    *[Case("npu_grouped_matmul_swiglu_quant_v2", (I8X, [I8W], [W_SCALE], X_SCALE, torch.tensor(ends)),
           lambda x, w, s, t, g, **_: swiglu(x, w[0], g.tolist(), s[0], t), options, label=label)
      for (label, ends), options in zip(GROUPS.items(), ({"tuning_config": [4]}, {"quant_dtype": torch.int8}, {"dequant_mode": 0}))],
    Case("npu_grouped_matmul_finalize_routing", (I8X, I8W, SIZES), finalized, {**ROUTING, "row_index": PLACES, "tuning_config": [4]},
         label="four groups"),
    Case("npu_grouped_matmul_finalize_routing", (I8X, I8W, torch.tensor(GROUPS["none in front"])), finalized,
         {**ROUTING, "row_index": PLACES // 2, "output_bs": 8, "group_list_type": 0, "logit": rand(12), "dtype": torch.float32},
         label="none in front"),
    Case("npu_grouped_matmul_finalize_routing", (I8X, packed(I4W), SIZES),
         lambda x, w, g, scale, bias, **options: finalized(x, I4W, g, W_SCALE, **options),
         {"scale": bits(W_SCALE)[:, None], "bias": correction(I4W, W_SCALE), "pertoken_scale": X_SCALE, "row_index": PLACES // 3,
          "output_bs": 6, "shared_input": rand(6, 8).bfloat16(), "shared_input_weight": 2.0}, label="int4, shared by all"),
    *[Case("npu_quant_grouped_matmul_dequant", (ROWS, i8(4, 5, 4), rand(4, 5).abs() / 100, torch.tensor(ENDS)),
           lambda x, w, s, e, x_scale=None, smooth_scale=None, quant_mode="pertoken": torch.cat([matmul_dequant(
               part, w[i], s[i], None if x_scale is None else x_scale if x_scale.numel() == 1 else parts(x_scale, ENDS)[i],
               smooth_scale) for i, part in enumerate(parts(x, ENDS))]), options, label=label)
      for label, options in (("four groups", {}), ("one scale", {"x_scale": torch.tensor([0.03]), "quant_mode": "pertensor"}),
                             ("smooth", {"smooth_scale": rand(4).abs() + 0.5}))],
]


def ffn(x, a, b, act, antiquant_scale1, antiquant_scale2, antiquant_offset1=0, antiquant_offset2=0, inner_precise=0):
    hidden = x @ ((a + antiquant_offset1) * antiquant_scale1)
    return F.silu(hidden) @ ((b + antiquant_offset2) * antiquant_scale2)


def fused(a, b, bias=None, x3=None, fused_op_type=""):
    y = a @ b + (0 if bias is None else bias)
    return {"": lambda: y, "relu": lambda: y.relu(), "add": lambda: y + x3, "gelu_erf": lambda: F.gelu(y)}[fused_op_type]()


def batches(a, b, bias=None, scale=None, perm_x1=(0, 1, 2), perm_x2=(0, 1, 2), perm_y=None, batch_split_factor=1):
    return (a.permute(*perm_x1) @ b.permute(*perm_x2)).transpose(0, 1)


A, C = rand(5, 2, 3), rand(5, 3, 4)
PLAIN = [
    Case("npu_ffn", (ROWS, i8(4, 6), i8(6, 4), "silu"), ffn, {
        "antiquant_scale1": rand(6) / 50, "antiquant_scale2": rand(4) / 50, "antiquant_offset1": rand(6, seed=2),
        "antiquant_offset2": rand(4, seed=2), "inner_precise": 1}, label="offsets of both weights"),
    Case("npu_ffn", (i8(10, 4), i8(4, 6), i8(6, 4), "relu"), lambda x, a, b, act, deq_scale1, deq_scale2, scale, output_dtype: (
        (rounded(torch.relu((x.long() @ a.long()).float() * deq_scale1) * scale).long() @ b.long()).float() * deq_scale2).to(output_dtype),
        {"deq_scale1": rand(6).abs() / 1000, "deq_scale2": rand(4).abs() / 100, "scale": torch.tensor([9.0]),
         "output_dtype": torch.bfloat16}, label="int8 to bfloat16"),
    Case("npu_ffn", (rand(2, 3, 4), rand(4, 6), rand(3, 5), "geglu"), lambda x, a, b, act: (
        (x @ a)[..., :3] * F.gelu((x @ a)[..., 3:])) @ b, label="three dimensions, geglu"),
    *[Case("npu_fused_matmul", (rand(6, 4), rand(4, 5)), fused, options, label=label)
      for label, options in (("relu, bias", {"fused_op_type": "relu", "bias": rand(5)}),
                             ("add, bias", {"fused_op_type": "add", "bias": rand(5), "x3": rand(6, 5)}))],
    *[Case("npu_transpose_batchmatmul", args, batches, options, label=label)
      for label, args, options in (("plain", (A, C), {}), ("second turned", (A, rand(5, 4, 3)), {"perm_x2": [0, 2, 1]}),
                                   ("both turned", (rand(2, 5, 3), rand(5, 4, 3)), {"perm_x1": [1, 0, 2], "perm_x2": [0, 2, 1],
                                                                                  "perm_y": [1, 0, 2]}))],
    *[Case("npu_bmmV2", (a, b, []), lambda a, b, s: a @ b, grad=(0, 1), label=label)
      for label, a, b in (("rows", rand(5, 1, 3), rand(5, 3, 4)), ("columns", A, rand(5, 3, 1)), ("empty", rand(0, 2, 3), rand(0, 3, 4)))],
    *[case for label, a, b in (("rows", rand(5, 1, 3), rand(5, 3, 4)), ("columns", A, rand(5, 3, 1)), ("empty", rand(0, 2, 3), rand(0, 3,
        4)))
      for case in (Case("npu_bmm_v2_mat1_backward", (rand(*(a @ b).shape, seed=3), a, b, list(a.shape)),
                        lambda g, a, b, s: grads(lambda x: x @ b, (a,), g), label=label),
                   Case("npu_bmm_v2_mat2_backward", (rand(*(a @ b).shape, seed=3), a, b, list(b.shape)),
                        lambda g, a, b, s: grads(lambda x: a @ x, (b,), g), label=label))],
]

MX, ODD = mx_pair(3, 64, 9, (E5M2, E4M3)), mx_pair(1, 33, 2)
THREE = torch.tensor([0, 70, 130])
SPLIT = mx_pair(2, 130, 7, (E5M2, E5M2), ends=THREE.tolist())
ADAPTERS = (rand(6, 10), rand(6, 7), rand(4, 1, 10, 3), torch.tensor([3, 3, 0, 4, 4, 1], dtype=torch.int32), rand(4, 1, 3, 7))
CODED = [
    *adding("npu_add_quant_matmul", add_quant, (rand(3, 9), *MX[:3]), label="e5m2 by e4m3", x1_scale=MX[3], **SCALES),
    *adding("npu_add_quant_matmul", add_quant, (rand(1, 2), *ODD[:3]), label="an odd length", x1_scale=ODD[3], group_sizes=[1, 1, 32],
            **SCALES),
    *adding("npu_add_quant_matmul", add_quant, (rand(7, 4), hif8(7, 16), hif8(16, 4), rand(1)), label="hifloat8 without rows' scales",
            **HIFS),
    *adding("npu_add_quant_gmm", add_quant_gmm, (rand(3, 2, 7), *SPLIT[:3], THREE), label="three groups", x1_scale=SPLIT[3], **SCALES),
    *adding("npu_add_quant_gmm", add_quant_gmm, (rand(2, 5, 6), hif8(5, 20), hif8(20, 6), rand(2, 1), torch.tensor([4, 16])),
            label="hifloat8, lengths", x1_scale=rand(2), group_list_type=1, **HIFS),
    Case("npu_dual_level_quant_matmul", levels(1, 1, 64), dual_level, label="one number"),
    Case("npu_dual_level_quant_matmul", levels(4, 3, 1024), dual_level, {"bias": rand(3), "output_dtype": torch.float16},
        label="bias, float16"),
    Case("npu_dual_level_quant_matmul", levels(70, 2, 128), dual_level, label="many rows"),
    Case("npu_kronecker_quant", (rand(2, 1, 64), rand(1, 1, seed=1), rand(64, 64, seed=2), 0.5), kronecker, label="one row, clipped"),
    Case("npu_kronecker_quant", (rand(1, 4, 16), rand(4, 4, seed=1), rand(16, 16, seed=2), None, E2M1), kronecker,
        label="one matrix, float4"),
    Case("npu_transpose_quant_batchmatmul", *(lambda a: (a[0], transposed, a[1]))(batch_of(1, 4, 64, 3, False, True)), label="one row, mx"),
    Case("npu_quant_matmul_gelu", (int8(1, 16), int8(16, 6), rand(1).abs(), rand(6).abs() / 50), matmul_gelu, {"approximate": "gelu_tanh"},
         label="one row, tanh"),
    Case("npu_quant_matmul_gelu", GELU, matmul_gelu, {"bias": rand(6), "approximate": "gelu_tanh"}, label="bias, tanh"),
    *adding("npu_batch_gather_matmul", lora, ADAPTERS, label="adapters that are not there"),
    *adding("npu_batch_gather_matmul", lora, (ADAPTERS[0], rand(6, 3), *ADAPTERS[2:4]), label="one product of six", scale=-1.0),
    *adding("npu_batch_gather_matmul", lora, (rand(1, 30), *(t[:1] for t in ADAPTERS[1:2]), ADAPTERS[2], ADAPTERS[3][:1], ADAPTERS[4]),
            label="one row, behind", scale=0.25, y_offset=20, y_slice_size=10),
]
CASES = [*GROUPED, *PLAIN, *CODED]
# Why the official client cannot be asked, or does not agree.
NOT_OFFICIAL = {
    **{str(case): "it takes sizes for ends" for case in CASES
       if case.op == "npu_grouped_matmul_add_" or str(case) == "npu_grouped_matmul_add-sizes"},
    **{str(case): "it takes an Ascend950 only" for case in CASES if case.op == "npu_dual_level_quant_matmul"},
    **{str(case): "it returns its input as it was" for case in CASES if case.op == "npu_batch_gather_matmul"},
}
