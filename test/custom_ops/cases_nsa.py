"""Cases of native sparse attention, and of attention over triangles."""

import math

import torch
from cases import Case, grads, rand
from cases_sparse_attention import ints, some

BLOCK, STRIDE, SELECT = 4, 2, 8


def between(ends):
    return list(zip([0, *ends], ends))


def compress(x, weight, block, stride, *, actual_seq_len):
    out = [
        (x[at : at + block].float() * weight.float()[..., None]).sum(0)
        for begin, end in between(actual_seq_len)
        for at in range(begin, end - block + 1, stride)
    ]
    return torch.stack(out).to(x.dtype) if out else x.new_zeros(0, *x.shape[1:])


def compress_gradients(grad, x, weight, block, stride, *, actual_seq_len):
    found = grads(lambda a, b: compress(a, b, block, stride, actual_seq_len=actual_seq_len), (x.float(), weight.float()), grad.float())
    return tuple(g.to(x.dtype) for g in found)


def compress_last(x, weight, slots, block, stride, page, *, block_table, actual_seq_len, cache):
    for s, length in enumerate(actual_seq_len):
        if length >= block and (length - block) % stride == 0:
            tokens = torch.cat([x[b] for b in block_table[s].tolist()])[length - block : length]
            cache[slots[s]] = (tokens.float() * weight.float()[..., None]).sum(0).to(cache.dtype)
    return cache


def blocks_of(weights, blocks, block, stride, select):
    """Each compressed key counts for a block as often as their tokens meet, in steps of `stride`."""
    m, n = select // stride, block // stride
    out = torch.zeros(*weights.shape[:-1], blocks)
    for i in range(1, blocks + 1):
        for a in range(m):
            for b in range(n):
                if 0 <= m * i - a - b < weights.shape[-1]:
                    out[..., i - 1] += weights[..., m * i - a - b]
    return out


def compressed_attention(
    query,
    key,
    value,
    scale,
    heads,
    block,
    stride,
    select,
    count,
    *,
    topk_mask=None,
    atten_mask=None,
    actual_seq_qlen,
    actual_cmp_seq_kvlen,
    actual_sel_seq_kvlen,
):
    group = heads // key.shape[1]
    outs, indices, tops, totals = [], [], [], []
    for (q0, q1), (k0, k1), (b0, b1) in zip(*map(between, (actual_seq_qlen, actual_cmp_seq_kvlen, actual_sel_seq_kvlen))):
        q, k, v = query[q0:q1].float(), key[k0:k1].float().repeat_interleave(group, 1), value[k0:k1].float().repeat_interleave(group, 1)
        scores = torch.einsum("qhd,khd->hqk", q, k) * scale
        if atten_mask is not None:
            scores = scores.masked_fill(atten_mask[: q1 - q0, : k1 - k0].bool(), float("-inf"))
        weights = scores.softmax(-1)
        outs.append(torch.einsum("hqk,khd->qhd", weights, v))
        important = blocks_of(weights.detach().unflatten(0, (-1, group)).sum(1), b1 - b0, block, stride, select)
        if topk_mask is not None:
            important = important.masked_fill(topk_mask[: q1 - q0, : b1 - b0].bool(), float("inf"))
        indices.append(important.sort(dim=-1, descending=True, stable=True)[1][..., :count].transpose(0, 1).int())
        top = scores.detach().amax(-1, keepdim=True)
        tops.append(top.expand(-1, -1, 8).flatten())
        totals.append((scores.detach() - top).exp().sum(-1, keepdim=True).expand(-1, -1, 8).flatten())
    size = (len(query), heads, 8)
    return torch.cat(outs).to(query.dtype), torch.cat(indices), torch.cat(tops).view(size), torch.cat(totals).view(size)


def selected_attention(query, key, value, indices, scale, heads, block, count, *, actual_seq_qlen, actual_seq_kvlen):
    group = heads // key.shape[1]
    out, top = [], torch.zeros(len(query), heads, 8)
    total = torch.zeros_like(top)
    for (q0, q1), (k0, k1) in zip(between(actual_seq_qlen), between(actual_seq_kvlen)):
        for i in range(q0, q1):
            for h in range(key.shape[1]):
                at = [p for b in indices[i, h].tolist() if b >= 0 for p in range(b * block, (b + 1) * block) if p < k1 - k0]
                scores = query[i, h * group : (h + 1) * group].float() @ key[k0:k1][at, h].float().T * scale
                out.append(scores.softmax(-1) @ value[k0:k1][at, h].float())
                high = scores.detach().amax(-1, keepdim=True)
                top[i, h * group : (h + 1) * group] = high
                total[i, h * group : (h + 1) * group] = (scores.detach() - high).exp().sum(-1, keepdim=True)
    return torch.cat(out).view(len(query), heads, -1).to(query.dtype), top, total


def selected_gradients(grad, query, key, value, out, top, total, indices, scale, heads, block, count, **ends):
    found = grads(
        lambda *t: selected_attention(*t, indices, scale, heads, block, count, **ends)[0],
        (query.float(), key.float(), value.float()),
        grad.float(),
    )
    return tuple(g.to(query.dtype) for g in found)


def paged(cache, table, length, heads):
    return torch.cat([cache[b] for b in table.tolist()])[:length].reshape(length, heads, -1).float()


def selected_step(query, key, value, indices, scale, heads, kv_heads, block, count, page, *, layout="BSND", block_table, actual_seq_kvlen):
    q, group = query.reshape(len(query), heads, -1).float(), heads // kv_heads
    rows = []
    for s, length in enumerate(actual_seq_kvlen):
        k, v = (paged(t, block_table[s], length, kv_heads) for t in (key, value))
        for h in range(kv_heads):
            at = [p for b in indices[s, h].tolist() if b >= 0 for p in range(b * block, (b + 1) * block) if p < length]
            rows.append((q[s, h * group : (h + 1) * group] @ k[at, h].T * scale).softmax(-1) @ v[at, h])
    out = torch.cat(rows).view(len(q), heads, -1).to(query.dtype)
    return {"BSH": out.flatten(1).unsqueeze(1), "BSND": out.unsqueeze(1), "TND": out}[layout]


def compressed_step(
    query, key, value, scale, heads, kv_heads, select, count, page, block, stride, *, layout="TND", block_table, actual_cmp_seq_kvlen
):
    q, group = query.reshape(len(query), heads, -1).float(), heads // kv_heads
    rows, indices = [], []
    for s, length in enumerate(actual_cmp_seq_kvlen):
        k, v = (paged(t, block_table[s], length, kv_heads) for t in (key, value))
        blocks = math.ceil(((length - 1) * stride + block) / select)
        for h in range(kv_heads):
            weights = (q[s, h * group : (h + 1) * group] @ k[:, h].T * scale).softmax(-1)
            rows.append(weights @ v[:, h])
            important = blocks_of(weights.sum(0), blocks, block, stride, select)
            rest = important[1:-2].sort(descending=True, stable=True)[1] + 1
            indices.append(torch.cat([torch.tensor([0, blocks - 2, blocks - 1]), rest])[:count].int())
    out = torch.cat(rows).view(len(q), heads, -1).to(query.dtype)
    chosen = torch.stack(indices).view(len(q), kv_heads, count)
    return (out.unsqueeze(1), chosen.unsqueeze(1)) if layout == "BSND" else (out, chosen)


def floyd(q, k_ij, v_ij, k_jk, v_jk, *, atten_mask=None, scale_value=1.0):
    wide = [t.float() for t in (q, k_ij, v_ij, k_jk, v_jk)]
    scores = torch.einsum("bhikc,bhijc->bhikj", wide[0], wide[1]) + torch.einsum("bhikc,bhjkc->bhikj", wide[0], wide[3])
    scores = scores * scale_value
    if atten_mask is not None:
        scores = scores.masked_fill(atten_mask.bool(), float("-inf"))
    weights = scores.softmax(-1)
    out = torch.einsum("bhikj,bhijc->bhikc", weights, wide[2]) + torch.einsum("bhikj,bhjkc->bhikc", weights, wide[4])
    top = scores.detach().amax(-1, keepdim=True)
    return top.expand(*top.shape[:-1], 8), (scores.detach() - top).exp().sum(-1, keepdim=True).expand(*top.shape[:-1], 8), out.to(q.dtype)


def floyd_gradients(dy, q, k_ij, v_ij, k_jk, v_jk, out, top, total, **kwargs):
    found = grads(lambda *t: floyd(*t, **kwargs)[2], tuple(t.float() for t in (q, k_ij, v_ij, k_jk, v_jk)), dy.float())
    return tuple(g.to(q.dtype) for g in found)


ENDS = {"actual_seq_len": [7, 9, 20]}
TOKENS, WEIGHT = rand(20, 3, 5), rand(BLOCK, 3)
Q, K, V = rand(10, 4, 6), rand(17, 2, 6), rand(17, 2, 5)
LENGTHS = {"actual_seq_qlen": [4, 10], "actual_cmp_seq_kvlen": [9, 17], "actual_sel_seq_kvlen": [3, 5]}
SIZES = (0.4, 4, BLOCK, STRIDE, SELECT, 2)
MASK = torch.ones(6, 9).triu(3).bool()
ALWAYS = torch.eye(6, 3).bool()
CHOSEN = some(10, 2, 2, keys=4)
PARTS = {"actual_seq_qlen": [4, 10], "actual_seq_kvlen": [9, 17]}
WHOLE = {"actual_seq_qlen": [10], "actual_seq_kvlen": [17]}
CACHE_K, CACHE_V, TABLE = rand(5, 8, 12), rand(5, 8, 10), ints(4, 1, 0, 2).view(2, 2)
STEP = {"block_table": TABLE, "actual_seq_kvlen": [13, 16]}
STEPS = {"block_table": TABLE, "actual_cmp_seq_kvlen": [13, 16]}
PICKED = torch.cat([some(2, 2, 2, keys=4), torch.full((2, 2, 1), -1, dtype=torch.int32)], -1)
EDGES = (rand(2, 2, 3, 4, 6), rand(2, 2, 3, 5, 6), rand(2, 2, 3, 5, 6, seed=1), rand(2, 2, 5, 4, 6), rand(2, 2, 5, 4, 6, seed=1))
ONE_HEAD = tuple(t[:1, :1] for t in EDGES)
HIDDEN = {"atten_mask": torch.rand(2, 1, 3, 1, 5, generator=torch.Generator().manual_seed(1)) > 0.6, "scale_value": 0.4}
HIDDEN["atten_mask"][..., 0] = False


def select_backward(*args, **kwargs):
    q, k, v, indices, *rest = args
    return (rand(len(q), q.shape[1], v.shape[2], seed=3), q, k, v, *selected_attention(*args, **kwargs), indices, *rest)


def floyd_backward(edges=EDGES, **kwargs):
    top, total, out = floyd(*edges, **kwargs)
    return (rand(*out.shape, seed=3), *edges, out, top.contiguous(), total.contiguous())


CASES = [
    Case("npu_nsa_compress", (TOKENS, WEIGHT, BLOCK, STRIDE), compress, ENDS, grad=(0, 1)),
    Case("npu_nsa_compress", (TOKENS, WEIGHT, BLOCK, BLOCK), compress, {"actual_seq_len": [20]}, grad=(0, 1), label="side by side"),
    Case("npu_nsa_compress", (TOKENS, WEIGHT, BLOCK, 3), compress, {"actual_seq_len": [0, 3, 6]}, label="too short"),
    Case("npu_nsa_compress_grad", (rand(6, 3, 5), TOKENS, WEIGHT, BLOCK, STRIDE), compress_gradients, ENDS),
    Case(
        "npu_nsa_compress_grad",
        (rand(5, 3, 5), TOKENS, WEIGHT, BLOCK, BLOCK),
        compress_gradients,
        {"actual_seq_len": [20]},
        label="side by side",
    ),
    Case(
        "npu_nsa_compress_infer.cache",
        (rand(5, 8, 3, 5), WEIGHT, ints(2, 0), BLOCK, STRIDE, 8),
        compress_last,
        {"block_table": TABLE, "actual_seq_len": [10, 13], "cache": rand(4, 3, 5)},
    ),
    Case(
        "npu_nsa_compress_infer.cache",
        (rand(5, 8, 3, 5), WEIGHT, ints(1, 3), BLOCK, 1, 8),
        compress_last,
        {"block_table": TABLE, "actual_seq_len": [3, 16], "cache": rand(4, 3, 5)},
        label="too short",
    ),
    Case(
        "npu_nsa_compress_infer.cache",
        (rand(5, 8, 3, 5), WEIGHT, ints(1, 3), BLOCK, 2, 8),
        compress_last,
        {"block_table": TABLE, "actual_seq_len": [4, 8], "cache": rand(4, 3, 5)},
        label="one block",
    ),
    Case("npu_nsa_compress_attention", (Q, K, V, *SIZES), compressed_attention, LENGTHS),
    Case(
        "npu_nsa_compress_attention",
        (Q, K, V, *SIZES),
        compressed_attention,
        {**LENGTHS, "atten_mask": MASK, "topk_mask": ALWAYS},
        label="masks",
    ),
    Case(
        "npu_nsa_compress_attention",
        (Q, K[:, :1].expand(-1, 4, -1).clone(), V[:, :1].expand(-1, 4, -1).clone(), *SIZES),
        compressed_attention,
        LENGTHS,
        grad=(0, 1, 2),
        label="gradient",
    ),
    Case(
        "npu_nsa_compress_attention",
        (Q, K, V, *SIZES),
        compressed_attention,
        {**LENGTHS, "atten_mask": MASK},
        grad=(0, 1, 2),
        label="gradient, mask",
    ),
    Case(
        "npu_nsa_compress_attention_infer",
        (rand(2, 4, 6), CACHE_K, CACHE_V, 0.4, 4, 2, SELECT, 4, 8, BLOCK, STRIDE),
        compressed_step,
        STEPS,
    ),
    Case(
        "npu_nsa_compress_attention_infer",
        (rand(2, 1, 4, 6), CACHE_K, CACHE_V, 0.4, 4, 2, 4, 5, 8, BLOCK, STRIDE),
        compressed_step,
        {**STEPS, "layout": "BSND"},
        label="BSND",
    ),
    Case(
        "npu_nsa_compress_attention_infer",
        (rand(2, 2, 12), CACHE_K, CACHE_V, 0.4, 2, 1, SELECT, 4, 8, STRIDE, STRIDE),
        compressed_step,
        STEPS,
        label="one head",
    ),
    Case("npu_nsa_select_attention", (Q, K, V, CHOSEN, 0.4, 4, 2, 2), selected_attention, PARTS, grad=(0, 1, 2)),
    Case(
        "npu_nsa_select_attention",
        (Q, K, V, some(10, 2, 3, keys=8), 0.4, 4, 1, 3),
        selected_attention,
        PARTS,
        grad=(0, 1, 2),
        label="tokens",
    ),
    Case(
        "npu_nsa_select_attention",
        (Q[:, :2], K, V, CHOSEN, 0.4, 2, 4, 2),
        selected_attention,
        WHOLE,
        label="one sequence",
    ),
    Case("npu_nsa_select_attention_grad", select_backward(Q, K, V, CHOSEN, 0.4, 4, 2, 2, **PARTS), selected_gradients, PARTS),
    Case(
        "npu_nsa_select_attention_grad",
        select_backward(Q, K, V, some(10, 2, 3, keys=8), 0.4, 4, 1, 3, **PARTS),
        selected_gradients,
        PARTS,
        label="tokens",
    ),
    Case(
        "npu_nsa_select_attention_infer",
        (rand(2, 1, 4, 6), CACHE_K.view(5, 8, 2, 6), CACHE_V.view(5, 8, 2, 5), PICKED, 0.4, 4, 2, 4, 3, 8),
        selected_step,
        STEP,
    ),
    Case(
        "npu_nsa_select_attention_infer",
        (rand(2, 1, 24), CACHE_K, CACHE_V, PICKED, 0.4, 4, 2, 4, 3, 8),
        selected_step,
        {**STEP, "layout": "BSH"},
        label="BSH",
    ),
    Case(
        "npu_nsa_select_attention_infer",
        (rand(2, 4, 6), CACHE_K, CACHE_V, PICKED, 0.4, 4, 2, 4, 3, 8),
        selected_step,
        {**STEP, "layout": "TND"},
        label="TND",
    ),
    Case("npu_fused_floyd_attention", EDGES, floyd, {"scale_value": 0.4}, grad=(0, 1, 2, 3, 4), through=2),
    Case("npu_fused_floyd_attention", EDGES, floyd, HIDDEN, grad=(0, 1, 2, 3, 4), through=2, label="mask"),
    Case("npu_fused_floyd_attention", ONE_HEAD, floyd, {}, label="one head"),
    Case("npu_fused_floyd_attention_backward", floyd_backward(scale_value=0.4), floyd_gradients, {"scale_value": 0.4}),
    Case("npu_fused_floyd_attention_backward", floyd_backward(**HIDDEN), floyd_gradients, HIDDEN, label="mask"),
    Case(
        "npu_fused_floyd_attention_backward",
        floyd_backward(ONE_HEAD, scale_value=0.4),
        floyd_gradients,
        {"scale_value": 0.4},
        label="one head",
    ),
    Case(
        "npu_nsa_compress_grad",
        (rand(2, 3, 5), TOKENS, WEIGHT, BLOCK, 3),
        compress_gradients,
        {"actual_seq_len": [0, 3, 10]},
        label="too short",
    ),
    Case(
        "npu_nsa_select_attention_grad",
        select_backward(Q[:, :2], K, V, CHOSEN, 0.4, 2, 4, 2, **WHOLE),
        selected_gradients,
        WHOLE,
        label="one sequence",
    ),
]
# Cases that the official wheel refuses: see test/official/custom_ops.py.
NOT_OFFICIAL = {"npu_nsa_compress_attention-gradient gradient": "it asks for attention of sparse mode 1 without its mask"}
