"""Attention for training against attention written out: layouts, masks, biases, grouped heads, parts of the keys."""

import torch
from cases import Case, rand

MASK = torch.rand(4, 6, generator=torch.Generator().manual_seed(0)) > 0.7
MASK[:, 0] = False


def split(x, layout, size):
    """[batch, heads, rows, size]."""
    if layout in ("BSH", "SBH"):
        x = x.unflatten(-1, (-1, size))
        return x.transpose(1, 2) if layout == "BSH" else x.permute(1, 2, 0, 3)
    return x.transpose(1, 2) if layout == "BSND" else x


def join(x, layout):
    if layout in ("BSH", "SBH"):
        return (x.transpose(1, 2) if layout == "BSH" else x.permute(2, 0, 1, 3)).flatten(2)
    return x.transpose(1, 2) if layout == "BSND" else x


def causal(rows, columns):
    """Hidden to the right of the diagonal that ends in the lower right corner."""
    return torch.ones(rows, columns, dtype=torch.bool).triu(columns - rows + 1)


def attend(q, k, v, scale=1.0, hidden=None, bias=None, sink=None):
    """(result, row maxima, row sums) of [batch, heads, rows, size]; the bias is scaled as well."""
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = (q @ k.transpose(-1, -2) + (0 if bias is None else bias)) * scale
    if hidden is not None:
        scores = scores.masked_fill(hidden, -torch.inf)
    if sink is not None:
        scores = torch.cat([scores, sink.view(1, -1, 1, 1).expand(*scores.shape[:3], 1)], -1)
    top = scores.amax(-1, keepdim=True)
    weights = torch.exp(scores - top)
    total = weights.sum(-1, keepdim=True)
    return (weights / total)[..., : k.shape[2]] @ v, top, total


def fused(q, k, v, heads, layout, pse=None, _=None, mask=None, scale=1.0, sparse_mode=0, sink=None, size=8, **ends):
    if layout == "TND":
        return in_a_row(q, k, v, scale, sparse_mode, sink, **ends)
    parts = [split(t, layout, size) for t in (q, k, v)]
    hidden = causal(parts[0].shape[2], parts[1].shape[2]) if sparse_mode == 3 else mask if sparse_mode < 2 else None
    return join(attend(*parts, scale, hidden, pse, sink)[0], layout)


def in_a_row(q, k, v, scale, sparse_mode, sink, actual_seq_qlen, actual_seq_kvlen, softmax_layout=""):
    outs, begin, kv_begin = [], 0, 0
    for end, kv_end in zip(actual_seq_qlen, actual_seq_kvlen):
        part = [t.transpose(0, 1).unsqueeze(0) for t in (q[begin:end], k[kv_begin:kv_end], v[kv_begin:kv_end])]
        hidden = causal(end - begin, kv_end - kv_begin) if sparse_mode == 3 else None
        outs.append(attend(*part, scale, hidden, sink=sink)[0][0].transpose(0, 1))
        begin, kv_begin = end, kv_end
    return torch.cat(outs)


def gradient(q, k, v, dy, heads, layout, scale_value=1.0, sink=None, pse=None, **options):
    given = [t.detach().requires_grad_() for t in (q, k, v, pse, sink) if t is not None]
    q, k, v, *rest = given
    pse = rest.pop(0) if pse is not None else None
    out = fused(q, k, v, heads, layout, pse, scale=scale_value, sink=rest[0] if sink is not None else None, **options)
    grads = iter(torch.autograd.grad(out, given, dy))
    dq, dk, dv = (next(grads) for _ in range(3))
    return dq, dk, dv, next(grads) if pse is not None else torch.empty(0), next(grads) if sink is not None else torch.empty(0)


def v2(q, k, v, heads, layout, *, pse=None, scale=1.0, pse_type=1, query_rope=None, key_rope=None, **options):
    if query_rope is not None:
        q, k = torch.cat([q, query_rope], -1), torch.cat([k, key_rope], -1)
    return fused(q, k, v, heads, layout, pse if pse is None or pse_type == 1 else pse / scale, scale=scale, **options)


def gradient_v2(q, k, v, dy, heads, layout, *, pse, scale_value, pse_type):
    dq, dk, dv, dpse, _ = gradient(q, k, v, dy, heads, layout, scale_value, pse=pse if pse_type == 1 else pse / scale_value)
    return dq, dk, dv, dpse if pse_type == 1 else dpse / scale_value


ENDS = {"actual_seq_qlen": [3, 8], "actual_seq_kvlen": [4, 11]}
ROWS = (rand(8, 4, 8), rand(11, 2, 8), rand(11, 2, 8, seed=1))
BNSD = (rand(2, 4, 4, 8), rand(2, 2, 6, 8), rand(2, 2, 6, 8, seed=1))
BSND = tuple(t.transpose(1, 2).contiguous() for t in BNSD)
BSH = tuple(t.flatten(2) for t in BSND)
SBH = tuple(t.transpose(0, 1).contiguous() for t in BSH)
SCALE = {"scale": 0.3}
PSE = rand(2, 4, 4, 6, seed=3)
SINK = rand(4, seed=4)
TRAINING = [
    Case("npu_fusion_attention", (*BNSD, 4, "BNSD"), fused, SCALE, grad=(0, 1, 2), label="grouped"),
    Case("npu_fusion_attention", (*BSH, 4, "BSH"), fused, {**SCALE, "sparse_mode": 3}, grad=(0, 1, 2), label="causal"),
    Case("npu_fusion_attention", (*SBH, 4, "SBH", None, None, MASK), fused, {**SCALE, "sparse_mode": 1}, grad=(0, 1, 2), label="mask"),
    Case("npu_fusion_attention", (*BSND, 4, "BSND", PSE), fused, SCALE, grad=(0, 1, 2, 5), label="bias"),
    Case("npu_fusion_attention", (*BSND, 4, "BSND", rand(1, 4, 1, 6, seed=3)), fused, SCALE, grad=(0, 1, 2, 5), label="broadcast bias"),
    Case("npu_fusion_attention", (*ROWS, 4, "TND"), fused, {**SCALE, **ENDS}, grad=(0, 1, 2), label="rows"),
    Case("npu_fusion_attention", (*ROWS, 4, "TND"), fused, {**SCALE, **ENDS, "sparse_mode": 3, "softmax_layout": "TND"},
         grad=(0, 1, 2), label="causal rows"),
    Case("npu_fusion_attention", (*BNSD, 4, "BNSD"), fused, {**SCALE, "sink": SINK}, grad=(0, 1, 2), label="sink"),
    Case("npu_fusion_attention", (*ROWS, 4, "TND"), fused, {**SCALE, **ENDS, "sink": SINK}, grad=(0, 1, 2), label="sink of rows"),
    Case("npu_fusion_attention_grad", (*BNSD, rand(2, 4, 4, 8, seed=2), 4, "BNSD"), gradient, {"scale_value": 0.3}),
    Case("npu_fusion_attention_grad", (*BSND, rand(2, 4, 4, 8, seed=2), 4, "BSND"), gradient,
         {"scale_value": 0.3, "pse": PSE, "sink": SINK}, label="bias and sink"),
    Case("npu_fusion_attention_grad", (*ROWS, rand(8, 4, 8, seed=2), 4, "TND"), gradient,
         {"scale_value": 0.3, **ENDS, "sparse_mode": 3}, label="rows"),
    Case("npu_fusion_attention_v2", (*BNSD, 4, "BNSD"), v2, {**SCALE, "pse": PSE, "pse_type": 0}, grad=(0, 1, 2), label="bias after"),
    Case("npu_fusion_attention_v2", (*BSH, 4, "BSH"), v2, {**SCALE, "pse": PSE}, grad=(0, 1, 2), label="bias"),
    Case("npu_fusion_attention_v2", (*ROWS, 4, "TND"), v2,
         {**SCALE, **ENDS, "query_rope": rand(8, 4, 3), "key_rope": rand(11, 2, 3)}, grad=(0, 1, 2), label="rotary parts"),
    Case("npu_fusion_attention_v2", (*ROWS, 4, "TND"), v2, {**SCALE, **ENDS}, grad=(0, 1, 2), label="rows"),
    Case("npu_fusion_attention_v2", (*ROWS, 4, "TND"), v2, {**SCALE, **ENDS, "softmax_layout": "TND"},
         grad=(0, 1, 2), label="rows in order"),
    Case("npu_fusion_attention_v2", (*ROWS, 4, "TND"), v2, {**SCALE, **ENDS, "sink": SINK}, grad=(0, 1, 2), label="sink of rows"),
    Case("npu_fusion_attention_v2", (*BNSD, 4, "BNSD"), v2, {**SCALE, "sink": SINK}, grad=(0, 1, 2), label="sink"),
    Case("npu_fusion_attention_v3", (*BNSD, 4, "BNSD"), fused, {**SCALE, "sparse_mode": 3}, grad=(0, 1, 2), label="causal"),
    Case("npu_fusion_attention_v3", (*BSH, 4, "BSH", PSE), fused, {**SCALE, "sink": SINK}, grad=(0, 1, 2, 5), label="bias"),
    Case("npu_fusion_attention_grad_v3", (*BSND, rand(2, 4, 4, 8, seed=2), 4, "BSND"), gradient,
         {"scale_value": 0.3, "pse": PSE, "sink": SINK}),
    Case("npu_fusion_attention_grad_v2", (*BNSD, rand(2, 4, 4, 8, seed=2), 4, "BNSD"), gradient_v2,
         {"scale_value": 0.3, "pse": PSE, "pse_type": 0}),
]

QUERY, KEYS, VALUES = rand(1, 2, 4, 8), rand(1, 2, 6, 8), rand(1, 2, 6, 8, seed=1)  # one sequence of 1 row, one of 3
WHOLE = attend(QUERY, KEYS, VALUES)
PARTS = [attend(QUERY, KEYS[:, :, part], VALUES[:, :, part]) for part in (slice(0, 2), slice(2, 6))]


def eight(t):
    return t.expand(*t.shape[:-1], 8).contiguous()


def turned(part):
    """A part's (attention, maxima, sums) in rows: [T, N, D] and [T, N, 8]."""
    return part[0][0].transpose(0, 1).contiguous(), *(eight(t[0].transpose(0, 1)) for t in part[1:])


def of_each_sequence(statistic):
    """From [T, N, 8] to what the operators have by default: [N, S, 8] of each sequence, one after the other."""
    return torch.cat([s.transpose(0, 1).reshape(-1, 8) for s in statistic.split([1, 3])]).view_as(statistic)


def default_order(part):
    return part[0], *(of_each_sequence(t) for t in part[1:])


def batched(part):
    """[S, B, H] and [B, N, S, 8]."""
    return join(part[0], "SBH").contiguous(), *(eight(t) for t in part[1:])


LSE = [(top + total.log()).flatten() for _, top, total in PARTS]
MERGING = [
    Case("npu_ring_attention_update", (*turned(PARTS[0]), *turned(PARTS[1])), lambda *_, **__: turned(WHOLE),
         {"input_layout": "TND", "input_softmax_layout": "TND", "actual_seq_qlen": torch.tensor([0, 1, 4])}, label="rows"),
    Case("npu_ring_attention_update", (*default_order(turned(PARTS[0])), *default_order(turned(PARTS[1]))),
         lambda *_, **__: default_order(turned(WHOLE)), {"input_layout": "TND", "actual_seq_qlen": torch.tensor([0, 1, 4])},
         label="sequences"),
    Case("npu_ring_attention_update", (*batched(PARTS[0]), *batched(PARTS[1])), lambda *_: batched(WHOLE), label="batches"),
    *(Case("npu_attention_update", (LSE, [out.flatten(0, 2) for out, _, _ in PARTS], kind), lambda lse, outs, kind: (
        WHOLE[0].flatten(0, 2), (WHOLE[1] + WHOLE[2].log()).flatten() if kind else None), label=str(kind)) for kind in (0, 1)),
]
CASES = [*TRAINING, *MERGING]
