"""Matrix products in groups of rows: a loop over the groups in plain torch."""

import torch
from cases import Case, rand
from cases_quant import dynamic, i4, i8, matmul_dequant, packed, rounded
from torch.nn import functional as F

ROWS, EXPERTS, BIAS = rand(10, 4), rand(3, 4, 5), rand(3, 5)
ENDS, SIZES = torch.tensor([3, 3, 10]), torch.tensor([3, 0, 7])
PAIRS = torch.tensor([[2, 4], [0, 6], [1, 0]])
I8X, I8W, W_SCALE, X_SCALE = i8(10, 16), i8(3, 16, 8), rand(3, 8).abs() / 100, rand(10).abs() / 10
I4W = i4(3, 16, 8)
MANY, MANY_EXPERTS = rand(130, 4), rand(64, 4, 5)
TOKENS = torch.tensor([0, 2, 1, 1, 0, 3, 2, 3, 0, 1])  # of five; the last gets none


def by_expert(x, weights, ends=(3, 3, 10), bias=None):
    products = [x[begin:end] @ weights[i] + (0 if bias is None else bias[i]) for i, (begin, end) in enumerate(zip([0, *ends], ends))]
    return torch.cat(products)


def integers_by_expert(x, weights, bias=None):
    return by_expert(x.long(), weights.long(), bias=bias).float()


def per_row(values, ends=(3, 3, 10)):
    """The expert's values for every row."""
    return torch.cat([values[i].expand(end - begin, -1) for i, (begin, end) in enumerate(zip([0, *ends], ends))])


def swiglu_quant(x, w, groups, w_scale, x_scale):
    y = integers_by_expert(x, w) * per_row(w_scale) * x_scale[:, None]
    a, b = y.chunk(2, -1)
    numbers, scale = dynamic(F.silu(a) * b)
    return rounded(numbers), scale


def routed(x, w, groups, scale, pertoken_scale, logit=None, row_index=None, shared_input=None, shared_input_weight=1.0,
           shared_input_offset=0, output_bs=0, **_):
    rows = integers_by_expert(x, w) * per_row(scale) * pertoken_scale[:, None]
    rows = rows if logit is None else rows * logit[:, None]
    result = torch.zeros(output_bs or len(x), rows.shape[1])
    result = result + rows if row_index is None else result.index_add(0, row_index.long(), rows)
    if shared_input is not None:
        result[shared_input_offset : shared_input_offset + len(shared_input)] += shared_input_weight * shared_input.float()
    return result


def correction(weight, scale):
    """What int8 by int4 needs as a bias."""
    return 8 * (weight.float() * scale[:, None]).sum(1)


def bits(scale):
    return scale.contiguous().view(torch.int32).long()


def ffn_int8(x, w1, w2, activation, bias1, deq_scale1, deq_scale2, scale, offset):
    hidden = torch.relu((x.long() @ w1.long() + bias1).float() * deq_scale1)
    return ((rounded(hidden * scale + offset).long() @ w2.long()).float() * deq_scale2).half()


BY_ROWS = {"split_item": 2, "group_type": 0}
CASES = [
    Case("npu_grouped_matmul", ([ROWS], [EXPERTS]), lambda x, w, **_: by_expert(x[0], w[0]), {**BY_ROWS, "group_list": ENDS}),
    Case("npu_grouped_matmul", ([ROWS], list(EXPERTS)), lambda x, w, **_: by_expert(x[0], w),
         {"group_list": SIZES, "split_item": 3, "group_type": 0, "group_list_type": 1}, label="sizes"),
    Case("npu_grouped_matmul", ([ROWS], [EXPERTS]), lambda x, w, **_: torch.cat([x[0][:4] @ w[0][2], x[0][4:] @ w[0][0]]),
         {**BY_ROWS, "group_list": PAIRS, "group_list_type": 2}, label="pairs"),
    Case("npu_grouped_matmul", ([ROWS], [EXPERTS]), lambda x, w, **_: torch.cat([by_expert(x[0], w[0], (2, 3, 6)), torch.zeros(4, 5)]),
         {**BY_ROWS, "group_list": torch.tensor([2, 3, 6])}, label="rows behind the last group"),
    Case("npu_grouped_matmul", ([ROWS[:2], ROWS[2:]], [EXPERTS[0], EXPERTS[1]]),
         lambda x, w, **_: [a @ b for a, b in zip(x, w)], {"bias": None, "group_type": -1}, label="lists"),
    Case("npu_grouped_matmul", ([ROWS[:2], ROWS[2:]], [EXPERTS[0], EXPERTS[1]]),
         lambda x, w, bias, **_: torch.cat([a @ b + c for a, b, c in zip(x, w, bias)]), {"bias": list(BIAS[:2]), "split_item": 3,
         "group_type": 0},
         label="joined lists"),
    Case("npu_grouped_matmul", ([rand(2, 3, 4)], [EXPERTS[0]]), lambda x, w, **_: [x[0] @ w[0]], {"group_type": -1},
         label="more dimensions"),
    Case("npu_grouped_matmul", ([ROWS], [EXPERTS]), lambda x, w, bias, **_: by_expert(x[0], w[0], bias=bias[0]),
         {**BY_ROWS, "bias": [BIAS], "group_list": ENDS}, label="bias"),
    Case("npu_grouped_matmul", ([ROWS], [EXPERTS.transpose(1, 2).contiguous().transpose(1, 2)]), lambda x, w, **_: by_expert(x[0], w[0]),
         {**BY_ROWS, "group_list": ENDS}, label="transposed"),
    Case("npu_grouped_matmul", ([MANY], [MANY_EXPERTS]), lambda x, w,
         **_: torch.cat([x[0][2 * i : 2 * i + 2] @ w[0][i] for i in range(64)] + [torch.zeros(2, 5)]),
         {**BY_ROWS, "group_list": torch.full((64,), 2), "group_list_type": 1}, label="64 experts"),
    Case("npu_grouped_matmul", ([rand(4, 10)], [rand(10, 5)]),
         lambda x, w, **_: torch.stack([x[0][:, :3] @ w[0][:3], torch.zeros(4, 5), x[0][:, 3:] @ w[0][3:]]),
         {"group_list": ENDS, "split_item": 2, "group_type": 2}, label="columns"),
    Case("npu_grouped_matmul", ([I8X], [I8W]), lambda x, w, scale, per_token_scale, **_: (
        integers_by_expert(x[0], w[0]) * per_row(scale[0]) * per_token_scale[0][:, None]).half(),
        {**BY_ROWS, "group_list": ENDS, "scale": [W_SCALE], "per_token_scale": [X_SCALE], "output_dtype": torch.float16}, label="int8"),
    Case("npu_grouped_matmul", ([I8X], list(I8W)), lambda x, w, scale, per_token_scale, bias, act_type, **_: F.silu(
        integers_by_expert(x[0], torch.stack(w), bias) * per_row(torch.stack(scale)) * per_token_scale[0][:, None]).bfloat16(),
        {**BY_ROWS, "group_list": SIZES, "group_list_type": 1, "scale": list(W_SCALE), "per_token_scale": [X_SCALE],
        "output_dtype": torch.bfloat16,
         "bias": list(torch.arange(24, dtype=torch.int32).view(3, 8)), "act_type": 5}, label="int8 lists, silu"),
    Case("npu_grouped_matmul", ([I8X], [I8W]), lambda x, w, bias, scale, **_: rounded(integers_by_expert(x[0], w[0],
         bias[0]) * per_row(W_SCALE)),
         {**BY_ROWS, "group_list": ENDS, "scale": [bits(W_SCALE)], "bias": [torch.arange(24, dtype=torch.int32).view(3, 8)]},
         label="int8 to int8"),
    Case("npu_grouped_matmul", ([I8X], [I8W]), lambda x, w, **_: integers_by_expert(x[0], w[0]).int(),
         {**BY_ROWS, "group_list": ENDS, "output_dtype": torch.int32}, label="int32"),
    Case("npu_grouped_matmul", ([packed(i4(10, 16))], [packed(I4W)]), lambda x, w, scale, per_token_scale, **_: (
        integers_by_expert(i4(10, 16), I4W) * per_row(W_SCALE) * per_token_scale[0][:, None]).half(),
        {**BY_ROWS, "group_list": ENDS, "scale": [bits(W_SCALE)], "per_token_scale": [X_SCALE], "output_dtype": torch.float16},
        label="int4"),
    Case("npu_grouped_matmul", ([I8X], [packed(I4W)]), lambda x, w, per_token_scale, **_: (
        integers_by_expert(x[0], I4W) * per_row(W_SCALE) * per_token_scale[0][:, None]).bfloat16(),
        {**BY_ROWS, "group_list": ENDS, "scale": [bits(W_SCALE)[:, None]], "bias": [correction(I4W, W_SCALE)], "per_token_scale": [X_SCALE],
         "output_dtype": torch.bfloat16}, label="int8 by int4"),
    Case("npu_grouped_matmul", ([rand(10, 16)], [I8W]), lambda x, w, antiquant_scale, antiquant_offset, **_: by_expert(
        x[0], (w[0] + antiquant_offset[0][:, None]) * antiquant_scale[0][:, None]),
        {**BY_ROWS, "group_list": ENDS, "antiquant_scale": [W_SCALE], "antiquant_offset": [rand(3, 8)]}, label="weights of int8"),
    Case("npu_grouped_matmul", ([rand(10, 16)], [packed(I4W)]), lambda x, w, antiquant_scale, **_: by_expert(
        x[0], I4W * antiquant_scale[0].repeat_interleave(4, 1)), {**BY_ROWS, "group_list": ENDS, "antiquant_scale": [rand(3, 4, 8)]},
        label="weights of int4 in groups"),
    Case("npu_grouped_matmul.List", ([ROWS], list(EXPERTS)), lambda x, w, **_: [x[0][:3] @ w[0], x[0][3:3] @ w[1], x[0][3:] @ w[2]],
         {"group_list": [3, 3, 10]}),
    Case("npu_grouped_matmul.List", ([ROWS], list(EXPERTS)), lambda x, w, bias, **_: by_expert(x[0], w, bias=bias),
         {"group_list": [3, 3, 10], "split_item": 3, "bias": list(BIAS)}, label="joined"),
    Case("npu_grouped_matmul_add", (rand(12, 5), rand(10, 4), rand(10, 5), ENDS),
         lambda s, x, w, e: s + torch.cat([x[:3].t() @ w[:3], torch.zeros(4, 5), x[3:].t() @ w[3:]])),
    Case("npu_grouped_matmul_add_", (rand(3, 4, 5), rand(10, 4), rand(10, 5), SIZES),
         lambda s, x, w, e, group_list_type: s + torch.stack([x[:3].t() @ w[:3], torch.zeros(4, 5), x[3:].t() @ w[3:]]),
         {"group_list_type": 1}),
    Case("npu_grouped_matmul_swiglu_quant", (I8X, I8W, ENDS, W_SCALE, X_SCALE), swiglu_quant),
    Case("npu_grouped_matmul_swiglu_quant", (I8X, packed(I4W), ENDS, bits(W_SCALE)[:, None], X_SCALE),
         lambda x, w, g, s, t, bias: swiglu_quant(x, I4W, g, W_SCALE, t), {"bias": correction(I4W, W_SCALE)}, label="int4"),
    Case("npu_grouped_matmul_swiglu_quant_v2", (I8X, [I8W], [W_SCALE], X_SCALE, SIZES),
         lambda x, w, s, t, g, group_list_type: swiglu_quant(x, w[0], g, s[0], t), {"group_list_type": 1}),
    Case("npu_grouped_matmul_finalize_routing", (I8X, I8W, SIZES), routed,
         {"scale": W_SCALE, "pertoken_scale": X_SCALE, "logit": rand(10), "row_index": TOKENS, "output_bs": 5,
          "shared_input": rand(2, 8).bfloat16(), "shared_input_weight": 0.5, "shared_input_offset": 3}),
    Case("npu_grouped_matmul_finalize_routing", (I8X, I8W, ENDS), routed,
         {"scale": W_SCALE, "pertoken_scale": X_SCALE, "row_index": TOKENS.int(), "group_list_type": 0}, label="ends"),
    Case("npu_grouped_matmul_finalize_routing", (I8X, packed(I4W), SIZES),
         lambda x, w, g, scale, bias, **options: routed(x, I4W, g, W_SCALE, **options),
         {"scale": bits(W_SCALE)[:, None], "bias": correction(I4W, W_SCALE), "pertoken_scale": X_SCALE, "logit": rand(10),
         "row_index": TOKENS,
          "output_bs": 5}, label="int4"),
    Case("npu_quant_grouped_matmul_dequant", (ROWS, i8(3, 5, 4), W_SCALE[:, :5], ENDS), lambda x, w, s, e: torch.cat(
        [matmul_dequant(x[:3], w[0], s[0]), matmul_dequant(x[3:], w[2], s[2])])),
    Case("npu_ffn", (ROWS, rand(4, 6), rand(6, 4), "relu"), lambda x, a, b, act: torch.relu(x @ a) @ b),
    Case("npu_ffn", (ROWS, rand(4, 6), rand(3, 4), "swiglu"), lambda x, a, b, act, bias1, bias2: (
        lambda h: F.silu(h[:, :3]) * h[:, 3:])(x @ a + bias1) @ b + bias2, {"bias1": rand(6), "bias2": rand(4)}, label="gated"),
    Case("npu_ffn", (ROWS, EXPERTS, rand(3, 5, 4), "gelu"), lambda x, a, b, act, expert_tokens: torch.cat(
        [F.gelu(x[:3] @ a[0]) @ b[0], F.gelu(x[3:] @ a[2]) @ b[2]]), {"expert_tokens": [3, 0, 7]}, label="experts"),
    Case("npu_ffn", (ROWS, EXPERTS, rand(3, 5, 4), "silu"), lambda x, a, b, act, expert_tokens_index: torch.cat(
        [F.silu(x[:3] @ a[0]) @ b[0], F.silu(x[3:] @ a[2]) @ b[2]]), {"expert_tokens_index": [3, 3, 10]}, label="ends"),
    Case("npu_ffn", (i8(10, 4), i8(4, 6), i8(6, 4), "relu"), ffn_int8,
         {"bias1": torch.arange(6, dtype=torch.int32), "deq_scale1": rand(6).abs() / 1000, "deq_scale2": rand(4).abs() / 100,
          "scale": torch.tensor([9.0]), "offset": torch.tensor([2.0])}, label="int8"),
    Case("npu_ffn", (ROWS, i8(4, 6), i8(6, 4), "fastgelu"), lambda x, a, b, act, antiquant_scale1, antiquant_scale2, antiquant_offset1: (
        lambda h: h * torch.sigmoid(1.702 * h))(x @ ((a + antiquant_offset1) * antiquant_scale1)) @ (b * antiquant_scale2),
        {"antiquant_scale1": rand(6) / 50, "antiquant_scale2": rand(4) / 50, "antiquant_offset1": rand(6, seed=2)},
        label="weights of int8"),
    Case("npu_transpose_batchmatmul", (rand(6, 3, 4), EXPERTS), lambda a, b, perm_x1, perm_y: torch.stack(
        [a[:, i] @ b[i] for i in range(3)], 1), {"perm_x1": [1, 0, 2], "perm_y": [1, 0, 2]}),
    Case("npu_transpose_batchmatmul", (rand(4, 6, 3), rand(4, 5, 3)), lambda a, b, perm_x2, batch_split_factor: torch.stack(
        [torch.cat([a[i] @ b[i].t(), a[i + 1] @ b[i + 1].t()], 1) for i in (0, 2)]), {"perm_x2": [0, 2, 1], "batch_split_factor": 2},
        label="parts"),
    Case("npu_transpose_batchmatmul", (rand(3, 6, 4), EXPERTS), lambda a, b, scale: rounded(
        torch.cat([a[i] @ b[i] for i in range(3)], 1) * 9 + 1)[:, None], {"scale": (torch.full((15,),
        9.0).view(torch.int32).long() | 1 << 46 | 1 << 37)},
        label="int8"),
    Case("npu_bmmV2", (rand(4, 6, 8), rand(4, 8, 3), [24, 3]), lambda a, b, s: (a @ b).view(24, 3), grad=(0, 1), label="sizes"),
    Case("npu_bmm_v2_mat1_backward", (rand(4, 6, 3), rand(4, 6, 8), rand(4, 8, 3), [4, 6, 8]), lambda g, a, b, s: g @ b.mT),
    Case("npu_bmm_v2_mat2_backward", (rand(4, 6, 3), rand(4, 6, 8), rand(4, 8, 3), [4, 8, 3]), lambda g, a, b, s: a.mT @ g),
    *[Case("npu_fused_matmul", (rand(2, 3, 4), rand(4, 5)), lambda a, b, x3=None, fused_op_type="", f=f: f(a @ b, x3),
         {"fused_op_type": name, **more},
           label=name or "plain")
      for name, f, more in (("", lambda y, x: y, {}), ("add", torch.add, {"x3": rand(2, 3, 5)}), ("mul", torch.mul, {"x3": rand(2, 3, 5)}),
                            ("gelu_erf", lambda y, x: F.gelu(y), {}), ("gelu_tanh", lambda y, x: F.gelu(y, approximate="tanh"), {}))],
]
# Cases that the official wheel refuses, or answers otherwise: see test/official/custom_ops.py.
NOT_OFFICIAL = {
    "npu_grouped_matmul_add_": "it takes sizes for ends",
    "npu_transpose_batchmatmul-int8": "its result has the type of the input, against its own meta function and documentation",
}
