"""One case per custom operator: arguments, and what plain torch makes of them.

A case is (operator, arguments, reference). Tensors among the arguments are on the CPU; floating ones named in `grad` (by position)
are differentiated through one output. The reference gets the same arguments and returns the outputs that are compared, in order.
"""

from dataclasses import dataclass, field

import torch
from torch.nn import functional as F


def rand(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


@dataclass
class Case:
    op: str
    args: tuple
    reference: object
    kwargs: dict = field(default_factory=dict)
    grad: tuple = ()
    label: str = ""
    through: int = 0  # the output that is differentiated

    def __str__(self):
        return f"{self.op}{'-' + self.label if self.label else ''}"


X, W = rand(4, 6, 8), rand(8, seed=1)
HALVES = rand(3, 8)
MASK = torch.rand(2, 1, 4, 5, generator=torch.Generator().manual_seed(3)) > 0.6
MASK[..., 0] = False
SCORES = rand(2, 3, 4, 5)


def rms(x, w, eps=1e-6):
    rstd = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
    return x * rstd * w, rstd


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


def rotate_pairs(x):
    return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)


NORM = [
    Case("npu_rms_norm", (X, W), rms, grad=(0, 1)),
    Case("npu_rms_norm_backward", (X, rand(4, 6, 8, seed=5), W, rms(rand(4, 6, 8, seed=5), W)[1]),
         lambda dy, x, w, r: grads(lambda a, b: rms(a, b)[0], (x, w), dy)),
    Case("npu_gemma_rms_norm", (X, W), lambda x, w: rms(x, 1 + w)),
    Case("npu_add_rms_norm", (X, rand(4, 6, 8, seed=2), W), lambda a, b, w: (*rms(a + b, w), a + b)),
    Case("npu_add_rms_norm_cast", (X, X, W), lambda a, b, w: (rms(a + b, w)[0], *rms(a + b, w), a + b)),
    Case("npu_add_layer_norm", (X, X, W, W, 1e-5, True),
         lambda a, b, w, c, e, f: (F.layer_norm(a + b, (8,), w, c), (a + b).mean(-1, keepdim=True),
                                   ((a + b).var(-1, correction=0, keepdim=True) + e).rsqrt(), a + b), grad=(0, 2)),
    Case("npu_layer_norm_eval", (X, [8], W, W), lambda x, s, w, b: F.layer_norm(x, s, w, b), grad=(0,)),
    Case("npu_group_norm_silu", (rand(2, 6, 5), rand(6), rand(6, seed=1), 3),
         lambda x, w, b, g: (F.silu(F.group_norm(x, g, w, b)),)),
    Case("npu_group_norm_swish", (rand(2, 6, 5), 3, rand(6), rand(6, seed=1), 1e-5, 2.0),
         lambda x, g, w, b, e, s: (lambda y: y * torch.sigmoid(s * y))(F.group_norm(x, g, w, b)), grad=(0, 2, 3)),
    Case("npu_deep_norm", (X, rand(4, 6, 8, seed=2), W, W), lambda x, g, b, w: (
        (0.3 * x + g).mean(-1, keepdim=True), ((0.3 * x + g).var(-1, correction=0, keepdim=True) + 1e-6).rsqrt(),
        F.layer_norm(0.3 * x + g, (8,), w, b, 1e-6)), grad=(0, 1), through=2),
    Case("npu_layernorm_grad", (X, rand(4, 6, 8, seed=5), [8], rand(4, 6, 8, seed=5).mean(-1, keepdim=True),
                                (rand(4, 6, 8, seed=5).var(-1, correction=0, keepdim=True) + 1e-5).rsqrt(), W, W),
         lambda g, x, s, m, r, w, b: grads(lambda a, c, d: F.layer_norm(a, (8,), c, d), (x, w, b), g)),
]

ACTIVATION = [
    Case("npu_fast_gelu", (X,), lambda x: x / (1 + torch.exp(-1.702 * x.abs())) * torch.exp(0.851 * (x - x.abs())), grad=(0,)),
    Case("fast_gelu", (X,), lambda x: x * torch.sigmoid(1.702 * x), grad=(0,)),
    Case("npu_fast_gelu_backward", (X, X), lambda g, x: grads(lambda a: a * torch.sigmoid(1.702 * a), (x,), g)),
    Case("npu_gelu", (X,), lambda x, approximate: F.gelu(x, approximate=approximate), {"approximate": "tanh"}, grad=(0,)),
    Case("npu_gelu_backward", (X, X), lambda g, x: grads(F.gelu, (x,), g)),
    Case("npu_gelu_mul", (HALVES,), lambda x: F.gelu(x[:, :4]) * x[:, 4:]),
    Case("npu_geglu", (HALVES,), lambda x: (x[:, :4] * F.gelu(x[:, 4:], approximate="tanh"),
                                            F.gelu(x[:, 4:], approximate="tanh")), grad=(0,)),
    Case("npu_mish", (X,), F.mish, grad=(0,)),
    Case("npu_mish_backward", (X, X), lambda g, x: grads(F.mish, (x,), g)),
    Case("npu_silu", (X,), F.silu, grad=(0,)),
    Case("npu_silu_", (X,), F.silu),
    Case("npu_swiglu", (HALVES,), lambda x: F.silu(x[:, :4]) * x[:, 4:], grad=(0,)),
    Case("npu_swiglu_backward", (rand(3, 4), HALVES), lambda g, x: grads(lambda a: F.silu(a[:, :4]) * a[:, 4:], (x,), g)),
    Case("npu_clipped_swiglu", (HALVES * 9,), lambda x: clipped(x[:, ::2], x[:, 1::2])),
    Case("npu_clipped_swiglu", (HALVES * 9,), lambda x, interleaved: clipped(x[:, :4], x[:, 4:]), {"interleaved": False},
         label="halves"),
    Case("npu_silu_backward", (X, X, F.silu(X)), lambda g, x, y: grads(F.silu, (x,), g)),
    Case("npu_geglu_grad", (rand(3, 4), HALVES, F.gelu(HALVES[:, :4]), -1, 0, True),
         lambda g, x, y, *_: grads(lambda a: a[:, 4:] * F.gelu(a[:, :4]), (x,), g)),
]


def clipped(gate, linear):
    gate, linear = gate.clamp(max=7.0), linear.clamp(-7.0, 7.0)
    return gate * torch.sigmoid(1.702 * gate) * (linear + 1)


def grads(function, inputs, grad):
    leaves = [t.detach().requires_grad_() for t in inputs]
    with torch.enable_grad():
        return torch.autograd.grad(function(*leaves), leaves, grad)


SOFTMAX = [
    Case("npu_scaled_masked_softmax", (SCORES, MASK, 0.5),
         lambda x, m, s: torch.softmax((x * s).masked_fill(m, -10000.0), -1), grad=(0,)),
    Case("npu_scaled_masked_softmax", (rand(2, 3, 4, 4), MASK, 0.5, True), lambda x, m, s, f: torch.softmax(
        (x * s).masked_fill(torch.ones(4, 4).triu(1).bool(), -10000.0), -1), label="triangle"),
    Case("npu_scaled_masked_softmax_backward", (rand(2, 3, 4, 5, seed=7), torch.softmax(SCORES.masked_fill(MASK, -1e4), -1), MASK, 1.0,
                                                False),
         lambda g, y, m, s, f: grads(lambda x: torch.softmax(x.masked_fill(m, -1e4), -1), (SCORES,), g)),
    Case("npu_masked_softmax_with_rel_pos_bias", (SCORES, None, rand(1, 3, 4, 5), 0.5),
         lambda x, m, b, s: torch.softmax(x * s + b, -1), grad=(0, 2)),
    Case("npu_softmax_cross_entropy_with_logits", (rand(4, 5), torch.softmax(rand(4, 5, seed=2), -1)),
         lambda x, y: F.cross_entropy(x, y, reduction="none"), grad=(0,)),
    Case("npu_cross_entropy_loss", (rand(4, 5), torch.tensor([0, 3, -100, 1])),
         lambda x, t: (F.cross_entropy(x, t), F.log_softmax(x, -1)), grad=(0,)),
]

COS, SIN = rand(1, 6, 1, 8, seed=3).cos(), rand(1, 6, 1, 8, seed=3).sin()
Q4 = rand(2, 6, 3, 8)
TURNS = rand(6, 6)  # three cosines and three sines for each position


def turned(rows, positions, pairs=False):
    """The first six numbers of each head of eight, turned two by two."""
    result = rows.clone()
    for token in range(len(rows)):
        for head in range(rows.shape[1] // 8):
            for i in range(3):
                place = positions[token] if positions.dim() == 1 else positions[i, token]
                cos, sin = TURNS[place, i], TURNS[place, 3 + i]
                a, b = (head * 8 + 2 * i, head * 8 + 2 * i + 1) if pairs else (head * 8 + i, head * 8 + i + 3)
                result[token, a] = rows[token, a] * cos - rows[token, b] * sin
                result[token, b] = rows[token, b] * cos + rows[token, a] * sin
    return result


ROTARY = [
    Case("npu_rotary_mul", (Q4, COS, SIN), lambda x, c, s: x * c + rotate_half(x) * s, grad=(0, 1, 2)),
    Case("npu_rotary_mul", (Q4, COS, SIN, "interleave"), lambda x, c, s, m: x * c + rotate_pairs(x) * s, grad=(0,), label="pairs"),
    Case("npu_rotary_mul_backward", (Q4, rand(2, 6, 3, 8, seed=4), COS, SIN),
         lambda g, x, c, s: grads(lambda a, b, d: a * b + rotate_half(a) * d, (x, c, s), g)),
    Case("npu_apply_rotary_pos_emb", (Q4, Q4[:, :, :1], COS, SIN),
         lambda q, k, c, s: (q * c + rotate_half(q) * s, k * c + rotate_half(k) * s), grad=(0,)),
    Case("npu_interleave_rope", (Q4, COS, SIN),
         lambda x, c, s: (lambda y: y * c + rotate_half(y) * s)(torch.cat([x[..., ::2], x[..., 1::2]], -1)), grad=(0,)),
    Case("npu_mrope", (torch.tensor([3, 0, 5]), rand(3, 16), rand(3, 8), TURNS, 8), lambda p, q, k, c, h: (turned(q, p), turned(k, p)),
         grad=(1,)),
    Case("npu_mrope", (torch.tensor([[3, 0], [1, 2], [4, 4]]), rand(2, 16), rand(2, 8), TURNS, 8),
         lambda p, q, k, c, h, mrope_section, rotary_mode: (turned(q, p, pairs=True), turned(k, p, pairs=True)),
         {"mrope_section": [1, 1, 1], "rotary_mode": "interleave"}, label="sections"),
]

ROWS, EXPERTS = rand(10, 4), rand(3, 4, 5)
ENDS = torch.tensor([3, 3, 10])


def by_expert(x, w, ends=(3, 3, 10), bias=None):
    begins = [0, *ends[:-1]]
    return torch.cat([x[b:e] @ w[i] + (0 if bias is None else bias[i]) for i, (b, e) in enumerate(zip(begins, ends))])


GROUPED = [
    Case("npu_grouped_matmul", ([ROWS], [EXPERTS]), lambda x, w, **_: by_expert(x[0], w[0]),
         {"group_list": ENDS, "split_item": 2, "group_type": 0}),
    Case("npu_grouped_matmul", ([ROWS], list(EXPERTS)),
         lambda x, w, **_: by_expert(x[0], w), {"group_list": torch.tensor([3, 0, 7]), "split_item": 3, "group_type": 0,
                                                "group_list_type": 1}, label="sizes"),
    Case("npu_grouped_matmul", ([ROWS[:2], ROWS[2:]], [EXPERTS[0], EXPERTS[1]]),
         lambda x, w, **_: [a @ b for a, b in zip(x, w)], {"bias": None}, label="lists"),
    Case("npu_grouped_matmul", ([ROWS], [EXPERTS]), lambda x, w, bias, **_: by_expert(x[0], w[0], bias=bias[0]),
         {"bias": [rand(3, 5)], "group_list": ENDS, "split_item": 2, "group_type": 0}, label="bias"),
    Case("npu_grouped_matmul", ([rand(4, 10)], [rand(10, 5)]),
         lambda x, w, **_: torch.stack([x[0][:, :3] @ w[0][:3], torch.zeros(4, 5), x[0][:, 3:] @ w[0][3:]]),
         {"group_list": ENDS, "split_item": 2, "group_type": 2}, label="columns"),
    Case("npu_ffn", (ROWS, rand(4, 6), rand(6, 4), "relu"), lambda x, a, b, act: torch.relu(x @ a) @ b, grad=(0, 1)),
    Case("npu_ffn", (ROWS, EXPERTS, rand(3, 5, 4), "gelu"), lambda x, a, b, act, expert_tokens: torch.cat(
        [F.gelu(x[:3] @ a[0]) @ b[0], F.gelu(x[3:] @ a[2]) @ b[2]]), {"expert_tokens": [3, 0, 7]}, label="experts"),
    Case("npu_grouped_matmul_add", (rand(12, 5), rand(10, 4), rand(10, 5), ENDS),
         lambda s, x, w, e: s + torch.cat([x[:3].t() @ w[:3], torch.zeros(4, 5), x[3:].t() @ w[3:]]), grad=(0, 1, 2)),
    Case("npu_grouped_matmul_add_", (rand(3, 4, 5), rand(10, 4), rand(10, 5), torch.tensor([3, 0, 7])),
         lambda s, x, w, e, group_list_type: s + torch.stack([x[:3].t() @ w[:3], torch.zeros(4, 5), x[3:].t() @ w[3:]]),
         {"group_list_type": 1}),
    Case("npu_transpose_batchmatmul", (rand(6, 3, 4), EXPERTS), lambda a, b, perm_x1, perm_y: torch.stack(
        [a[:, i] @ b[i] for i in range(3)], 1), {"perm_x1": [1, 0, 2], "perm_y": [1, 0, 2]}, grad=(0, 1)),
]

LOGITS = rand(6, 4)
TOP = torch.softmax(LOGITS, -1).topk(2)
CHOICES = TOP.indices.to(torch.int32)
PAIRS = torch.arange(12, dtype=torch.int32).view(2, 6).t().contiguous()
TOKENS = rand(6, 5)
ROUTES = torch.zeros(6, 4).scatter(1, TOP.indices, 1).bool()


def init_routing(x, row_idx, experts, active):
    flat = experts.reshape(-1)
    order = flat.argsort(stable=True)
    source = row_idx.reshape(-1)[order].long()
    moved = torch.empty(12, dtype=torch.int32)
    moved[source] = torch.arange(12, dtype=torch.int32)
    return x[source % 6], moved, flat[order]


def permute(tokens, indices):
    order = indices.reshape(-1).argsort(stable=True)
    return tokens[order // 2], order.argsort().to(torch.int32)


def best_group(x, two):
    """Weights and experts of the better of two groups of two: that with the best score, or with the larger sum."""
    weights, experts = [], []
    for groups in torch.softmax(x, -1).view(-1, 2, 2):
        group = int((groups.sum(1) if two else groups.amax(1)).argmax())
        value, index = groups[group].sort(descending=True)
        weights.append(value)
        experts.append(index + 2 * group)
    return torch.stack(weights), torch.stack(experts).to(torch.int32)


def gate(chosen, norm_type=0, renorm=0, routed_scaling_factor=1.0):
    return (chosen / chosen.sum(-1, keepdim=True) if norm_type or renorm else chosen) * routed_scaling_factor


MOE = [
    Case("npu_moe_gating_top_k_softmax", (LOGITS, None, 2), lambda x, f, k: (TOP.values, CHOICES, PAIRS), grad=(0,)),
    Case("npu_moe_gating_top_k_softmax_v2", (LOGITS,), lambda x, k, renorm: (torch.softmax(x.topk(2).values, -1), CHOICES),
         {"k": 2, "renorm": 1}, grad=(0,)),
    Case("npu_moe_gating_top_k_softmax_v2", (LOGITS,), lambda x, k, output_softmax: (TOP.values, CHOICES, torch.softmax(x, -1)),
         {"k": 2, "output_softmax": True}, label="with all scores"),
    Case("npu_moe_gating_top_k_softmax_v2", (LOGITS,), lambda x, k: (TOP.values, CHOICES, torch.empty(0)), {"k": 2}, label="plain"),
    Case("npu_moe_gating_top_k", (LOGITS, 2), lambda x, k, norm_type: (
        (lambda s: s / s.sum(-1, keepdim=True))(torch.sigmoid(x).topk(2).values), CHOICES), {"norm_type": 1}, grad=(0,)),
    Case("npu_moe_gating_top_k", (LOGITS, 2), lambda x, k, renorm, routed_scaling_factor: (
        gate(TOP.values, renorm=1, routed_scaling_factor=2.5), CHOICES), {"renorm": 1, "routed_scaling_factor": 2.5}, label="renormed"),
    Case("npu_moe_gating_top_k", (LOGITS, 2), lambda x, k: (TOP.values, CHOICES), label="plain"),
    *[Case("npu_moe_gating_top_k", (LOGITS, 2), lambda x, k, group_select_mode, **_: best_group(x, group_select_mode == 1),
           {"k_group": 1, "group_count": 2, "group_select_mode": mode}, label=f"groups {mode}") for mode in (0, 1)],
    Case("npu_moe_init_routing", (TOKENS, PAIRS, CHOICES, 6), init_routing, grad=(0,)),
    Case("npu_moe_init_routing_v2", (TOKENS, CHOICES), lambda x, e, **_: (
        x[e.reshape(-1).argsort(stable=True) // 2], e.reshape(-1).argsort(stable=True).argsort().to(torch.int32),
        torch.bincount(e.reshape(-1).long(), minlength=4)),
        {"expert_num": 4, "expert_tokens_num_type": 1, "expert_tokens_num_flag": True}, grad=(0,)),
    Case("npu_moe_compute_expert_tokens", (torch.tensor([0, 0, 2, 2, 2, 3], dtype=torch.int32), 4),
         lambda s, n: torch.tensor([2, 2, 5, 6], dtype=torch.int32)),
    Case("npu_moe_finalize_routing", (rand(12, 5), TOKENS, None, rand(4, 5), TOP.values,
                                      init_routing(TOKENS, PAIRS, CHOICES, 6)[1], CHOICES),
         lambda r, s1, s2, b, w, p, e: s1 + sum(w[:, j : j + 1] * (r[p.view(2, 6)[j].long()] + b[e[:, j].long()]) for j in range(2)),
         grad=(0, 1)),
    # Rows lie token by token here, choice by choice above.
    Case("npu_moe_finalize_routing", (rand(12, 5), TOKENS, rand(6, 5, seed=2), rand(4, 5), TOP.values,
                                      torch.tensor([7, 0, 3, 11, 1, 9, 2, 10, 4, 8, 5, 6], dtype=torch.int32), CHOICES, 2),
         lambda r, s1, s2, b, w, p, e, mode: s1 + s2 + torch.stack([
             sum(w[t, j] * (r[p[2 * t + j].long()] + b[e[t, j].long()]) for j in range(2)) for t in range(6)]), label="tokens"),
    Case("npu_moe_token_permute", (TOKENS, CHOICES), permute, grad=(0,)),
    Case("npu_moe_token_unpermute", (rand(12, 5), permute(TOKENS, CHOICES)[1], TOP.values),
         lambda r, i, p: (r[i.long()].view(6, 2, 5) * p.unsqueeze(-1)).sum(1), grad=(0, 2)),
    Case("npu_moe_token_permute_with_routing_map", (TOKENS, ROUTES), lambda t, m, probs, num_out_tokens: (
        torch.cat([t[m[:, e]] for e in range(4)]), torch.cat([probs[m[:, e], e] for e in range(4)])),
        {"probs": torch.softmax(LOGITS, -1), "num_out_tokens": 12}, grad=(0,)),
    Case("npu_moe_token_unpermute_with_routing_map",
         (rand(12, 5), torch.cat([ROUTES[:, e].nonzero()[:, 0] for e in range(4)]).int(), [6, 5]),
         lambda r, i, s: torch.zeros(6, 5).index_add(0, i.long(), r), grad=(0,)),
    *[Case("npu_moe_gating_top_k_backward", (score(LOGITS), rand(6, 2), CHOICES), lambda s, g, e, score=score, **o: grads(
        lambda x: gate(score(x).gather(-1, e.long()), **o), (LOGITS,), g), options, label=label)
      for label, score, options in (("sigmoid", torch.sigmoid, {"norm_type": 1, "routed_scaling_factor": 2.5}),
                                    ("softmax", lambda x: torch.softmax(x, -1), {}),
                                    ("renormed", lambda x: torch.softmax(x, -1), {"renorm": 1}))],
    Case("npu_moe_token_permute_grad", (TOKENS, rand(12, 5), CHOICES, permute(TOKENS, CHOICES)[1]),
         lambda t, g, i, p: grads(lambda x: permute(x, i)[0], (t,), g)),
    Case("npu_moe_token_unpermute_grad", (rand(12, 5), TOKENS, permute(TOKENS, CHOICES)[1], TOP.values),
         lambda r, g, i, p: grads(lambda a, b: (a[i.long()].view(6, 2, 5) * b.unsqueeze(-1)).sum(1), (r, p), g)),
    Case("npu_moe_re_routing", (TOKENS, torch.tensor([[1, 2], [2, 1]])), lambda t, c, per_token_scales: (
        t[[0, 3, 4, 1, 2, 5]], per_token_scales[[0, 3, 4, 1, 2, 5]], torch.tensor([0, 3, 4, 1, 2, 5], dtype=torch.int32),
        torch.tensor([3, 3])), {"per_token_scales": rand(6)}, grad=(0,)),
]

CAST = [
    Case("npu_dtype_cast", (X, 5), lambda x, d: x.half(), grad=(0,)),
    Case("npu_dtype_cast_", (X.half(), X), lambda a, b: b.half()),
    Case("npu_dtype_cast_backward", (X.half(), torch.float32), lambda g, d: g.float()),
    Case("npu_format_cast", (X, 29), lambda x, f: x, grad=(0,)),
    Case("npu_format_cast.Tensor", (X, X), lambda x, y: x, grad=(0,)),
    Case("npu_format_cast_", (X, X + 1), lambda x, y: y),
    Case("npu_format_cast_.acl_format", (X, 2), lambda x, f: x),
    Case("get_npu_format", (Q4,), lambda x: 0),
    Case("get_storage_size", (X,), lambda x: x.numel()),
    Case("copy_memory_", (X, X + 1), lambda x, y: y),
    Case("one_", (X,), torch.ones_like),
    Case("npu_alloc_float_status", (X,), lambda x: torch.zeros(8)),
    Case("npu_get_float_status", (torch.ones(8),), lambda x: torch.zeros(8)),
    Case("npu_clear_float_status", (torch.ones(8),), lambda x: torch.zeros(8)),
]

LAYOUT = [
    Case("npu_confusion_transpose", (X, [0, 2, 1], [8, 24], True), lambda x, p, s, f: x.permute(p).reshape(s), grad=(0,)),
    Case("npu_confusion_transpose", (X, [1, 0], [8, 24], False), lambda x, p, s, f: x.reshape(s).permute(p), grad=(0,), label="after"),
    Case("npu_confusion_transpose_backward", (rand(8, 24), [0, 2, 1], [4, 6, 8], True),
         lambda g, p, s, f: grads(lambda x: x.permute(p).reshape(8, 24), (X,), g)),
    Case("npu_transpose", (X, [2, 0, 1]), lambda x, p: x.permute(p), grad=(0,)),
    Case("npu_reshape", (X, [24, 8]), lambda x, s: x.reshape(s), grad=(0,)),
    Case("npu_slice", (X, [1, 0, 2], [2, -1, 3]), lambda x, o, s: x[1:3, :, 2:5], grad=(0,)),
    Case("npu_broadcast", (W, [2, 8]), lambda x, s: x.expand(s), grad=(0,)),
    Case("npu_pad", (rand(2, 3), [1, 0, 2, 1]), lambda x, p: F.pad(x, [2, 1, 1, 0]), grad=(0,)),
    Case("npu_one_hot", (torch.tensor([0, 2]), -1, 3), lambda x, n, d: F.one_hot(x, 3).float()),
    Case("npu_linear", (X, rand(3, 8), rand(3)), F.linear, grad=(0, 1, 2)),
    Case("npu_bmmV2", (X, rand(4, 8, 3), []), lambda a, b, s: a @ b, grad=(0, 1)),
    Case("npu_max.dim", (X, 1), lambda x, d: (x.max(d).values, x.max(d).indices.int()), grad=(0,)),
    Case("npu_min.dim", (X, 1, True), lambda x, d, k: (x.min(d, k).values, x.min(d, k).indices.int()), grad=(0,)),
    Case("npu_sort_v2", (X, 1, True), lambda x, d, r: x.sort(d, r).values, grad=(0,)),
    Case("npu_scatter", (rand(3, 4), torch.tensor([1, 0, 3]), rand(3), 1),
         lambda x, i, u, d: x.scatter(1, i[:, None], u[:, None]), grad=(0, 2)),
    Case("npu_scatter_nd_update", (rand(3, 4), torch.tensor([[0], [2]]), rand(2, 4)), lambda x, i, u: x.index_copy(0, i[:, 0], u),
         grad=(0, 2)),
    Case("npu_scatter_nd_update_", (rand(3, 4), torch.tensor([[0], [2]]), rand(2, 4)), lambda x, i, u: x.index_copy(0, i[:, 0], u)),
    Case("npu_stride_copy", (X, [2, 3], [8, 1], 4), lambda x, s, t, o: x.as_strided(s, t, o)),
    Case("npu_conv2d", (rand(1, 2, 5, 5), rand(3, 2, 3, 3), rand(3), [1, 1], [1, 1], [1, 1], 1), F.conv2d, grad=(0, 1, 2)),
    Case("npu_convolution", (rand(1, 2, 5, 5), rand(3, 2, 3, 3), None, [2, 2], [1, 1], [1, 1], 1), F.conv2d, grad=(0, 1)),
    Case("npu_conv3d", (rand(1, 2, 4, 4, 4), rand(3, 2, 3, 3, 3), None, [1] * 3, [1] * 3, [1] * 3, 1), F.conv3d, grad=(0, 1)),
    Case("npu_conv_transpose2d", (rand(1, 2, 4, 4), rand(2, 3, 3, 3), None, [1, 1], [0, 0], [2, 2], [1, 1], 1),
         lambda x, w, b, p, o, s, d, g: F.conv_transpose2d(x, w, b, s, p, o, g, d), grad=(0, 1)),
    Case("npu_indexing", (X, [1, 0, 2], [3, 0, 7], [1, 2, 3], 0, 2, 0, 0, 1), lambda x, *_: x[1, ::2, 2:7:3], grad=(0,)),
    Case("npu_indexing.out", (X, [1, 0, 2], [3, 3, 7], [1, 1, 2]), lambda x, *_, out: x[1:3, :3, 2:7:2], {"out": rand(1)}),
    Case("npu_slice.out", (X, [1, 0, 2], [2, -1, 3]), lambda x, o, s, out: x[1:3, :, 2:5], {"out": rand(2, 6, 3)}),
    Case("npu_transpose.out", (X, [2, 0, 1]), lambda x, p, out: x.permute(p), {"out": rand(8, 4, 6)}),
    Case("npu_reshape.out", (X, [24, 8]), lambda x, s, out: x.reshape(s), {"out": rand(24, 8)}),
    Case("npu_broadcast.out", (W, [2, 8]), lambda x, s, out: x.expand(s), {"out": rand(2, 8)}),
    Case("npu_stride_copy.out", (X, [2, 3], [8, 1], 4), lambda x, s, t, o, out: x.as_strided(s, t, o), {"out": rand(2, 3)}),
    Case("npu_sort_v2.out", (X, 1, True), lambda x, d, r, out: x.sort(d, r).values, {"out": rand(4, 6, 8)}),
    Case("npu_conv2d.out", (rand(1, 2, 5, 5), rand(3, 2, 3, 3), rand(3), [1, 1], [1, 1], [1, 1], 1),
         lambda *args, out: F.conv2d(*args), {"out": rand(1, 3, 5, 5)}),
    Case("npu_conv3d.out", (rand(1, 2, 4, 4, 4), rand(3, 2, 3, 3, 3), None, [1] * 3, [1] * 3, [1] * 3, 1),
         lambda *args, out: F.conv3d(*args), {"out": rand(1, 3, 4, 4, 4)}),
    Case("npu_gather_sparse_index", (rand(5, 4), torch.tensor([[4, 0], [1, 1]], dtype=torch.int32)), lambda x, i: x[i.long()], grad=(0,)),
    Case("npu_view_copy", (X, X + 1, False), lambda x, y, n: y),
    Case("npu_convolution_transpose", (rand(1, 2, 4, 4), rand(2, 3, 3, 3), rand(3), [1, 1], [1, 1], [2, 2], [1, 1], 1),
         lambda x, w, b, p, o, s, d, g: F.conv_transpose2d(x, w, b, s, p, o, g, d), grad=(0, 1, 2)),
    Case("npu_convolution_transpose", (rand(1, 2, 3, 3, 3), rand(2, 3, 2, 2, 2), None, [0] * 3, [0] * 3, [2] * 3, [1] * 3, 1),
         lambda x, w, b, p, o, s, d, g: F.conv_transpose3d(x, w, b, s, p, o, g, d), label="3d"),
    Case("npu_linear_backward", (rand(4, 6, 3), X, rand(3, 8)), lambda g, x, w: grads(F.linear, (x, w), g)),
    Case("npu_attn_softmax_", (X,), lambda x: torch.softmax(x, -1)),
    Case("npu_prefetch", (X, None, 100), lambda *_: ()),
    # The numbers of these two are those of the operators' documented examples.
    Case("npu_sign_bits_pack", (torch.tensor([5.0, 4, 3, 2, 0, -1, -2, 4, 3, 2, 1, 0, -1, -2]), 2),
         lambda x, s: torch.tensor([[159], [15]], dtype=torch.uint8)),
    Case("npu_sign_bits_unpack", (torch.tensor([159, 15], dtype=torch.uint8), 2, torch.float32),
         lambda x, s, d: torch.tensor([[1.0, 1, 1, 1, 1, -1, -1, 1], [1, 1, 1, 1, -1, -1, -1, -1]])),
]

I8A, I8B = (rand(4, 6) * 40).round().clamp(-127, 127).to(torch.int8), (rand(6, 5) * 40).round().clamp(-127, 127).to(torch.int8)
SCALE = rand(5).abs() / 100
PRODUCT = I8A.long() @ I8B.long()
QUANT = [
    Case("npu_quantize", (rand(3, 4), torch.tensor([0.1]), torch.tensor([3.0]), torch.qint8, 1),
         lambda x, s, z, d, a: (x / 0.1 + 3).round().clamp(-128, 127).to(torch.int8)),
    Case("npu_anti_quant", (I8A, rand(6)), lambda x, s: (x * s).half()),
    Case("npu_trans_quant_param", (torch.tensor([1.0, 0.5]),), lambda s: torch.tensor([0x3F800000, 0x3F000000])),
    Case("npu_quant_matmul", (I8A, I8B, SCALE), lambda a, b, s, output_dtype, pertoken_scale: (
        PRODUCT * s * pertoken_scale[:, None]).half(), {"output_dtype": torch.float16, "pertoken_scale": rand(4)}),
    Case("npu_quant_matmul", (I8A, I8B, SCALE), lambda a, b, s, bias, offset: (
        (PRODUCT + bias) * s + offset).round().clamp(-128, 127).to(torch.int8),
        {"bias": torch.arange(5, dtype=torch.int32) * 1000, "offset": torch.ones(5)}, label="int8"),
    Case("npu_dynamic_quant", (rand(3, 8),), lambda x: (
        (x / x.abs().amax(-1, keepdim=True) * 127).round().to(torch.int8), x.abs().amax(-1) / 127)),
    Case("npu_weight_quant_batchmatmul", (rand(4, 6), I8B, SCALE[None], rand(1, 5)),
         lambda x, w, s, o: x @ ((w + o) * s), grad=(0,)),
    Case("npu_weight_quant_batchmatmul", (rand(4, 6), I8B, rand(2, 5), None, None, None, rand(5), 3),
         lambda x, w, s, o, qs, qo, b, g: x @ (w * s.repeat_interleave(3, 0)) + b, label="groups"),
    Case("npu_quant_conv2d", ((rand(1, 2, 5, 5) * 40).to(torch.int8), (rand(3, 2, 3, 3) * 40).to(torch.int8), rand(3).abs() / 1000),
         lambda x, w, s, output_dtype: (F.conv2d(x.float(), w.float()) * s[:, None, None]).half(), {"output_dtype": torch.float16}),
    Case("npu_dynamic_quant_asymmetric", (torch.tensor([[0.0, 1.0, 2.55], [-1.0, 0.5, 1.55]]),), lambda x: (
        torch.tensor([[-128, -28, 127], [-128, 22, 127]], dtype=torch.int8), torch.tensor([0.01, 0.01]), torch.tensor([-128.0, -28.0]))),
    Case("npu_dequant_bias", (PRODUCT.int(), SCALE, rand(4), torch.arange(5, dtype=torch.int32)),
         lambda x, s, a, b, output_dtype: (x + b) * s * a[:, None], {"output_dtype": torch.float32}),
    Case("npu_dequant_bias", (PRODUCT.int(), SCALE / 100, None, rand(5)), lambda x, s, a, b: (x * s + b).half(), label="floating"),
    Case("npu_group_quant", (rand(4, 5) * 20, rand(3, 5), torch.tensor([1, 1, 4])),
         lambda x, s, g: torch.cat([x[:1] * s[0], x[1:] * s[2]]).round().clamp(-128, 127).to(torch.int8)),
    Case("npu_add_rms_norm_quant", (X, X, W, torch.full((8,), 0.02), torch.full((8,), 3.0)),
         lambda a, b, w, s, z: ((rms(a + b, w)[0] / 0.02 + 3).round().clamp(-128, 127).to(torch.int8), torch.empty(0, dtype=torch.int8),
                                a + b)),
    Case("npu_add_rms_norm_dynamic_quant", (X, X, W), lambda a, b, w, smooth_scale1, smooth_scale2: (
        *[(lambda y: (y / y.abs().amax(-1, keepdim=True) * 127).round().to(torch.int8))(rms(a + b, w)[0] * s)
          for s in (smooth_scale1, smooth_scale2)], a + b,
        *[(rms(a + b, w)[0] * s).abs().amax(-1) / 127 for s in (smooth_scale1, smooth_scale2)]),
        {"smooth_scale1": rand(8).abs() + 1, "smooth_scale2": rand(8, seed=4).abs() + 1}),
    Case("npu_convert_weight_to_int4pack", (torch.tensor([[1, 2, 3, 4, 5, 6, 7, -8], [-1] * 8], dtype=torch.int32),),
         lambda w: torch.tensor([[0x87654321 - (1 << 32)], [-1]], dtype=torch.int32)),
]

CACHE = [
    Case("scatter_update", (rand(2, 3, 6, 4), torch.tensor([1, 4]), rand(2, 3, 2, 4), -2), lambda *a: updated(*a), grad=(0, 2)),
    Case("scatter_update_", (rand(2, 3, 6, 4), torch.tensor([1, 4]), rand(2, 3, 2, 4), 2), lambda *a: updated(*a)),
]


def updated(cache, indices, updates, axis):
    result = cache.clone()
    for i, place in enumerate(indices.tolist()):
        result[i, :, place : place + 2] = updates[i]
    return result


def attention(q, k, v):
    """(result, row maxima, row sums) of [T, N, D] tensors."""
    scores = torch.einsum("tnd,snd->tns", q, k)
    largest = scores.amax(-1, keepdim=True)
    total = (scores - largest).exp().sum(-1, keepdim=True)
    return torch.einsum("tns,snd->tnd", torch.softmax(scores, -1), v), largest, total


QUERY, KEYS, VALUES = rand(4, 2, 8), rand(6, 2, 8), rand(6, 2, 8, seed=1)
PARTS = [attention(QUERY, KEYS[part], VALUES[part]) for part in (slice(0, 2), slice(2, 6))]
EIGHT = [(out, largest.expand(-1, -1, 8).contiguous(), total.expand(-1, -1, 8).contiguous()) for out, largest, total in PARTS]
BATCHED = [(out.flatten(1).unsqueeze(1), *(t.permute(1, 0, 2).unsqueeze(0).contiguous() for t in rest)) for out, *rest in EIGHT]
LOGS = [(largest + total.log()).flatten() for _, largest, total in PARTS]
MERGING = [
    Case("npu_ring_attention_update", (*EIGHT[0], *EIGHT[1]), lambda *_, input_layout: (
        attention(QUERY, KEYS, VALUES)[0], *(t.expand(-1, -1, 8) for t in attention(QUERY, KEYS, VALUES)[1:])), {"input_layout": "TND"}),
    Case("npu_ring_attention_update", (*BATCHED[0], *BATCHED[1]),
         lambda *_: (attention(QUERY, KEYS, VALUES)[0].flatten(1).unsqueeze(1),), label="batches"),
    Case("npu_attention_update", (LOGS, [out.flatten(0, 1) for out, _, _ in PARTS], 1), lambda *_: (
        attention(QUERY, KEYS, VALUES)[0].flatten(0, 1),
        (lambda o, m, s: (m + s.log()).flatten())(*attention(QUERY, KEYS, VALUES)))),
    Case("npu_top_k_top_p", (rand(3, 9), torch.tensor([0.5, 0.9, 0.01]), torch.tensor([3, 9, 5])), lambda x, p, k: narrowed(x, p, k)),
    Case("npu_top_k_top_p", (rand(3, 9), None, torch.tensor([1, 2, 9])), lambda x, p, k: narrowed(x, torch.ones(3), k), label="k"),
]


def narrowed(logits, p, k):
    result = torch.full_like(logits, -torch.inf)
    for row, (values, most, count) in enumerate(zip(logits, p.tolist(), k.tolist())):
        order = values.argsort(descending=True)[:count]
        probs, sofar = torch.softmax(values[order], 0), 0.0
        for place, prob in zip(order.tolist(), probs.tolist()):
            if sofar < most or sofar == 0.0:
                result[row, place] = values[place]
            sofar += prob
    return result
