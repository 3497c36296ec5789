"""Operators of torch_npu that language models use, against plain torch, in the types and sizes that a card takes."""

import torch
from torch.nn import functional as F

from torch_npu.verify.samples import Operator, f, float32, index, int8, mask, order

HALF = (torch.float16, torch.bfloat16)
ALL = (*HALF, torch.float32)
ROWS, GAMMA = f(8, 16, 256), f(256, low=0.5, high=1.5)
HEADS = f(2, 4, 64, 64)
ANGLES = (f(1, 1, 32, 64, low=-1, high=1), f(1, 1, 32, 64, low=-1, high=1))
SEQUENCES = (96, 32, 64)  # of a batch in one row
QUERY = f(sum(SEQUENCES), 4, 64)
GROUPS = (24, 8, 0, 32)  # rows of each expert


def npu(name):
    return getattr(torch.ops.npu, name)


def first(name, *numbers, **options):
    """The operator's first result."""
    def call(*tensors):
        result = npu(name)(*tensors, *numbers, **options)
        return result if isinstance(result, torch.Tensor) else result[0]

    return call


def some(name, *places):
    """Some of the operator's results."""
    return lambda *tensors: [npu(name)(*tensors)[place] for place in places]


def rms(x, gamma):
    return F.rms_norm(x, gamma.shape, gamma, 1e-6)


def halves(x):
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


def pairs(x):
    return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)


def rotated(x, cos, sin, turn=halves):
    return x * cos + turn(x) * sin


def attended(q, k, v, causal=False, hidden=None):
    seen = None if hidden is None else ~hidden
    return F.scaled_dot_product_attention(q, k, v, seen, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])


def fused_attention(layout, **options):
    """With the scale of plain attention over heads of 64 numbers."""
    def call(q, k, v, *rest):
        heads = {"BNSD": 1, "BSND": 2, "TND": 1}.get(layout)
        count = q.shape[-1] // 64 if heads is None else q.shape[heads]
        return npu("npu_fusion_attention")(q, k, v, count, layout, scale=0.125, **options)[0]

    return call


def causal_attention(q, k, v):
    hidden = torch.ones(2048, 2048, dtype=torch.bool, device=q.device).triu(1)
    return npu("npu_fusion_attention")(q, k, v, q.shape[1], "BNSD", atten_mask=hidden, scale=0.125, sparse_mode=2)[0]


def in_rows(q, k, v):
    """[batch, rows, heads x 64] through attention and back."""
    q, k, v = (t.unflatten(-1, (-1, 64)).transpose(1, 2) for t in (q, k, v))
    return attended(q, k, v).transpose(1, 2).flatten(2)


def packed(q, k, v):
    parts = (t.split(SEQUENCES) for t in (q, k, v))
    return torch.cat([attended(*(t.transpose(0, 1)[None] for t in part))[0].transpose(0, 1) for part in zip(*parts)])


def ends():
    return torch.tensor(SEQUENCES).cumsum(0).tolist()


def grouped(x, weight):
    group_list = torch.tensor(GROUPS, device=x.device).cumsum(0)
    return npu("npu_grouped_matmul")([x], [weight], group_list=group_list, split_item=2, group_type=0)[0]


def experts(x, weight):
    return torch.cat([part @ w for part, w in zip(x.split(GROUPS), weight)])


def gated(scores):
    return npu("npu_moe_gating_top_k_softmax")(distinct(scores), None, 4)[:2]


def distinct(scores):
    return (scores / 8).half()


def chosen(scores):
    values, places = distinct(scores).float().softmax(-1).topk(4, -1)
    return values.half(), places.int()


def permuted(tokens, experts):
    rows = experts.flatten().argsort(stable=True)
    return tokens[rows // experts.shape[1]], rows.argsort().int()


def there_and_back(tokens, experts, probabilities):
    rows, places = npu("npu_moe_token_permute")(tokens, experts)
    return npu("npu_moe_token_unpermute")(rows, places, probabilities)


def dynamically(x):
    scale = x.float().abs().amax(-1, keepdim=True) / 127
    return (x.float() / scale).round().to(torch.int8), scale[..., 0]


def in_private_format(x, weight):
    import torch_npu

    return x @ torch_npu.npu_format_cast(weight, torch_npu.Format.FRACTAL_NZ)


CASES = [
    Operator("npu_rms_norm", first("npu_rms_norm"), (ROWS, GAMMA), ALL, reference=rms),
    Operator("npu_gemma_rms_norm", first("npu_gemma_rms_norm"), (ROWS, GAMMA), ALL, gradient=False, reference=lambda x, g: rms(x, 1 + g)),
    Operator("npu_add_rms_norm", some("npu_add_rms_norm", 0, 2), (ROWS, ROWS, GAMMA), ALL, gradient=False,
             reference=lambda x, y, g: (rms(x + y, g), x + y)),
    Operator("npu_add_layer_norm", first("npu_add_layer_norm", 1e-5, True), (ROWS, ROWS, GAMMA, GAMMA), ALL, gradient=False,
             reference=lambda x, y, w, b: F.layer_norm(x + y, (256,), w, b)),
    Operator("npu_group_norm_silu", first("npu_group_norm_silu", 8), (f(2, 32, 8, 8), f(32), f(32)), HALF, gradient=False,
             reference=lambda x, w, b: F.silu(F.group_norm(x, 8, w, b))),
    Operator("npu_swiglu", first("npu_swiglu"), (f(64, 256),), ALL, reference=lambda x: F.silu(x[:, :128]) * x[:, 128:]),
    Operator("npu_geglu", first("npu_geglu"), (f(64, 256),), HALF, reference=lambda x: x[:, :128] * F.gelu(x[:, 128:], approximate="tanh")),
    Operator("npu_fast_gelu", first("npu_fast_gelu"), (ROWS,), ALL,
             reference=lambda x: x / (1 + torch.exp(-1.702 * x.abs())) * torch.exp(0.851 * (x - x.abs()))),
    Operator("npu_gelu", first("npu_gelu", approximate="tanh"), (ROWS,), ALL, reference=lambda x: F.gelu(x, approximate="tanh")),
    Operator("npu_gelu_mul", first("npu_gelu_mul"), (f(64, 256),), HALF, gradient=False,
             reference=lambda x: F.gelu(x[:, :128]) * x[:, 128:]),
    Operator("npu_rotary_mul", npu("npu_rotary_mul"), (f(2, 4, 32, 64), *ANGLES), ALL, reference=rotated),
    Operator("npu_rotary_mul_interleave", lambda x, c, s: npu("npu_rotary_mul")(x, c, s, "interleave"), (f(2, 4, 32, 64), *ANGLES), ALL,
             gradient=False, reference=lambda x, c, s: rotated(x, c, s, pairs)),
    Operator("npu_apply_rotary_pos_emb", npu("npu_apply_rotary_pos_emb"),
             (f(2, 16, 4, 128), f(2, 16, 2, 128), f(2, 16, 1, 128), f(2, 16, 1, 128)), HALF, gradient=False,
             reference=lambda q, k, c, s: (rotated(q, c, s), rotated(k, c, s))),
    Operator("npu_scaled_masked_softmax", lambda x, m: npu("npu_scaled_masked_softmax")(x, m, 0.5, False),
             (f(2, 4, 32, 64), mask(2, 1, 32, 64)), HALF, reference=lambda x, m: (x * 0.5).masked_fill(m, -10000.0).softmax(-1)),
    Operator("npu_fusion_attention", fused_attention("BNSD"), (HEADS, HEADS, HEADS), HALF, loose=2, reference=attended),
    Operator("npu_fusion_attention_causal", causal_attention, (HEADS, HEADS, HEADS), HALF, loose=2,
             reference=lambda q, k, v: attended(q, k, v, causal=True)),
    Operator("npu_fusion_attention_mask", lambda q, k, v, m: npu("npu_fusion_attention")(
        q, k, v, 4, "BNSD", atten_mask=m.triu(1), scale=0.125)[0],
             (HEADS, HEADS, HEADS, mask(2, 1, 64, 64)), HALF, loose=2, reference=lambda q, k, v, m: attended(q, k, v, hidden=m.triu(1))),
    Operator("npu_fusion_attention_grouped", fused_attention("BNSD"), (HEADS, f(2, 2, 64, 64), f(2, 2, 64, 64)), HALF, loose=2,
             reference=attended),
    Operator("npu_fusion_attention_BSH", fused_attention("BSH"), (f(2, 64, 256), f(2, 64, 256), f(2, 64, 256)), HALF, loose=2,
             reference=in_rows),
    Operator("npu_fusion_attention_TND", lambda q, k, v: npu("npu_fusion_attention")(
        q, k, v, 4, "TND", scale=0.125, actual_seq_qlen=ends(), actual_seq_kvlen=ends())[0], (QUERY, QUERY, QUERY), HALF, loose=2,
        reference=packed),
    Operator("npu_prompt_flash_attention", lambda q, k, v: npu("npu_prompt_flash_attention")(
        q, k, v, num_heads=4, input_layout="BNSD", scale_value=0.125), (HEADS, HEADS, HEADS), HALF[:1], gradient=False, loose=2,
        reference=attended),
    Operator("npu_incre_flash_attention", lambda q, k, v: npu("npu_incre_flash_attention")(
        q, k, v, num_heads=4, input_layout="BNSD", scale_value=0.125), (f(2, 4, 1, 64), HEADS, HEADS), HALF[:1], gradient=False, loose=2,
        reference=attended),
    Operator("npu_fused_infer_attention_score", lambda q, k, v: npu("npu_fused_infer_attention_score")(
        q, k, v, num_heads=4, input_layout="BNSD", scale=0.125)[0], (HEADS, HEADS, HEADS), HALF, gradient=False, loose=2,
        reference=attended),
    Operator("npu_grouped_matmul", grouped, (f(64, 128), f(4, 128, 96)), HALF, gradient=False, loose=8, reference=experts),
    Operator("npu_ffn", lambda x, a, b: npu("npu_ffn")(x, a, b, "gelu"), (f(32, 64), f(64, 128), f(128, 64)), HALF[:1], gradient=False,
             loose=16, reference=lambda x, a, b: F.gelu(x @ a) @ b),
    Operator("npu_moe_gating_top_k_softmax", gated, (order(16, 32),), HALF[:1], gradient=False, reference=chosen),
    Operator("npu_moe_token_permute", lambda x, i: npu("npu_moe_token_permute")(x, i.int()), (f(16, 64), index(16, 2, high=4)), HALF[1:],
             gradient=False, reference=permuted),
    Operator("npu_moe_token_unpermute", lambda x, i, p: there_and_back(x, i.int(), p),
             (f(16, 64), index(16, 2, high=4), f(16, 2, low=0, high=1)), HALF[1:], gradient=False,
             reference=lambda x, i, p: x * p.sum(-1, keepdim=True)),
    Operator("npu_quantize", lambda x, s: npu("npu_quantize")(x, s, None, torch.qint8, -1, True), (ROWS, float32(256, low=0.02, high=0.05)),
             HALF, gradient=False, reference=lambda x, s: (x.float() / s).round().clamp(-128, 127).to(torch.int8)),
    Operator("npu_dynamic_quant", npu("npu_dynamic_quant"), (f(16, 256),), HALF, gradient=False, reference=dynamically),
    Operator("npu_quant_matmul", lambda a, b, s: npu("npu_quant_matmul")(a, b, s, output_dtype=torch.bfloat16),
             (int8(32, 64), int8(64, 128), f(128, low=0.001, high=0.002)), HALF[1:], gradient=False, loose=2,
             reference=lambda a, b, s: (a.double() @ b.double() * s.double()).bfloat16()),
    Operator("npu_weight_quant_batchmatmul", npu("npu_weight_quant_batchmatmul"), (f(32, 64), int8(64, 128), f(128, low=0.001, high=0.02)),
             HALF, gradient=False, loose=8, reference=lambda x, w, s: x @ (w.to(x.dtype) * s)),
    Operator("npu_anti_quant", npu("npu_anti_quant"), (int8(16, 64), float32(64, low=0.01, high=0.02)), HALF[:1], gradient=False,
             reference=lambda x, s: (x.float() * s).half()),
    Operator("npu_cross_entropy_loss", first("npu_cross_entropy_loss"), (f(32, 128), index(32, high=128)), (torch.float32, torch.bfloat16),
             reference=lambda x, t: F.cross_entropy(x, t)[None]),
    Operator("npu_scatter_nd_update", npu("npu_scatter_nd_update"), (f(16, 32), order(16, 1), f(16, 32)), HALF, gradient=False,
             reference=lambda x, i, y: x.index_put((i[:, 0],), y)),
    Operator("npu_format_cast", in_private_format, (f(32, 64), f(64, 48)), HALF, gradient=False, loose=4, reference=lambda x, w: x @ w),
]
