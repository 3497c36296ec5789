"""What plain torch makes of sparse attention: the oracles of cases_sparse_attention.py, one sequence and row at a time."""

import torch
from cases import rand

NEVER = float("-inf")


def lengths(t, layout, given, batch=None):
    """(begin, length) of each sequence, or lengths alone of what has no beginning."""
    if layout == "TND":
        ends = [int(e) for e in given]
        return list(zip([0, *ends], [e - b for b, e in zip([0, *ends], ends)]))
    return [(0, int(n)) for n in given] if given is not None else [(0, t.shape[1])] * t.shape[0]


def sequence(t, layout, s, place, table=None):
    """(length, heads, ...) of sequence `s`."""
    begin, length = place
    if layout == "TND":
        return t[begin : begin + length]
    if layout == "PA_BSND":
        return torch.cat([t[b] for b in table[s].tolist()])[:length]
    return t[s, :length]


def seen(mode, row, rows, keys):
    return max(0, min(keys, keys - rows + row + 1)) if mode == 3 else keys


# ---- the indexer


def index_scores(q, k, w):
    return torch.einsum("ng,ngl->nl", w, torch.einsum("ngd,ld->ngl", q, k).relu())


def indexer(
    query,
    key,
    weights,
    *,
    actual_seq_lengths_query=None,
    actual_seq_lengths_key=None,
    block_table=None,
    layout_query="BSND",
    layout_key="BSND",
    sparse_count=2048,
    sparse_mode=3,
    return_value=False,
    key_scale=None,
):
    heads = key.shape[-2]
    group = query.shape[-2] // heads
    indices = torch.full((*query.shape[:-2], heads, sparse_count), -1, dtype=torch.int32)
    values = torch.full(indices.shape, NEVER)
    places, kv_places = lengths(query, layout_query, actual_seq_lengths_query), lengths(key, layout_key, actual_seq_lengths_key)
    for s, (place, kv_place) in enumerate(zip(places, kv_places)):
        q, w = (sequence(t, layout_query, s, place).float() for t in (query, weights))
        k = sequence(key, layout_key, s, kv_place, block_table).float()
        rows, chosen = sequence(indices, layout_query, s, place), sequence(values, layout_query, s, place)
        for h in range(heads):
            scores = index_scores(q[:, h * group : (h + 1) * group], k[:, h], w[:, h * group : (h + 1) * group])
            if key_scale is not None:
                scores = scores * sequence(key_scale, layout_key, s, kv_place, block_table).float()[:, h]
            for i in range(len(q)):
                own = scores[i, : seen(sparse_mode, i, len(q), len(k))]
                best, at = own.sort(descending=True, stable=True)
                n = min(sparse_count, len(own))
                rows[i, h, :n] = at[:n].int()
                chosen[i, h, :n] = best[:n]
    return (indices, values.to(query.dtype)) if return_value else (indices,)


def quant_indexer(query, key, weights, query_dequant_scale, key_dequant_scale, query_mode, key_mode, **kwargs):
    return indexer(query.float(), key.float(), weights.float() * query_dequant_scale.float(), key_scale=key_dequant_scale, **kwargs)[0]


def indexer_gradients(query, key, dy, indices, weights, q_lengths=None, k_lengths=None, layout="BSND", mode=3):
    """autograd's, of the scores at the indices."""
    leaves = [t.detach().float().requires_grad_() for t in (query, key, weights)]
    q_all, k_all, w_all = leaves
    with torch.enable_grad():
        total = 0
        for s, (place, kv_place) in enumerate(zip(lengths(query, layout, q_lengths), lengths(key, layout, k_lengths))):
            q, w = sequence(q_all, layout, s, place), sequence(w_all, layout, s, place)
            scores = index_scores(q, sequence(k_all, layout, s, kv_place)[:, 0], w)
            at, slope = (sequence(t.reshape(*weights.shape[:-1], -1), layout, s, place) for t in (indices, dy))
            kept = at >= 0
            total = total + (scores.gather(1, at.clamp(min=0).long()) * slope.float())[kept].sum()
    grads = torch.autograd.grad(total, leaves)
    return tuple(g.to(t.dtype) for g, t in zip(grads, (query, key, weights)))


def softmax_lse(query_index, key_index, weights, *, actual_seq_qlen=None, actual_seq_klen=None, layout="BSND", sparse_mode=3):
    sizes = (1, len(query_index)) if layout == "TND" else (query_index.shape[0], 1, query_index.shape[1])
    top, total = torch.zeros(sizes), torch.zeros(sizes)
    for s, (place, kv) in enumerate(zip(lengths(query_index, layout, actual_seq_qlen), lengths(key_index, layout, actual_seq_klen))):
        q, w = (sequence(t, layout, s, place).float() for t in (query_index, weights))
        k = sequence(key_index, layout, s, kv).float()
        scores = index_scores(q, k[:, 0], w)
        for i in range(len(q)):
            own = scores[i, : seen(sparse_mode, i, len(q), len(k))]
            at = (0, place[0] + i) if layout == "TND" else (s, 0, i)
            top[at], total[at] = own.max(), (own - own.max()).exp().sum()
    return top, total


def align(
    query,
    key,
    query_index,
    key_index,
    weights,
    indices,
    softmax_max,
    softmax_sum,
    scale,
    *,
    query_rope=None,
    key_rope=None,
    actual_seq_qlen=None,
    actual_seq_klen=None,
    layout="BSND",
    sparse_mode=3,
    sinks=None,
    max_index=None,
    sum_index=None,
    **_,
):
    """The loss as a function of the indexer's tensors, and autograd's gradients of it."""
    if query_rope is not None:
        query, key = torch.cat([query, query_rope], -1), torch.cat([key, key_rope], -1)
    leaves = [t.detach().float().requires_grad_() for t in (query_index, key_index, weights)]
    heads, group = key.shape[-2], query.shape[-2] // key.shape[-2]
    loss = torch.zeros(())
    with torch.enable_grad():
        for s, (place, kv_place) in enumerate(zip(lengths(query, layout, actual_seq_qlen), lengths(key, layout, actual_seq_klen))):
            q, qi, w = (sequence(t, layout, s, place).float() for t in (query, leaves[0], leaves[2]))
            k, ki = (sequence(t, layout, s, kv_place).float() for t in (key, leaves[1]))
            scores = index_scores(qi, ki[:, 0], w)
            for i in range(len(q)):
                at = torch.arange(seen(sparse_mode, i, len(q), len(k)))
                if indices is not None:
                    own = sequence(indices, layout, s, place)[i, 0].long()
                    at = own[(own >= 0) & (own < len(at))]
                row = (slice(None), place[0] + i) if layout == "TND" else (s, slice(None), i)
                top, total = softmax_max[row].float(), softmax_sum[row].float()  # (heads, group)
                p = (torch.einsum("hgd,lhd->hgl", q[i].view(heads, group, -1), k[at]) * scale - top[..., None]).exp() / total[..., None]
                share = heads * group
                if sinks is not None:
                    share = share - ((sinks.view(heads, group) - top).exp() / total).sum()
                p = p.sum((0, 1)) / share
                # A softmax with given statistics has the same gradient as one with its own.
                learned = scores[i, at].softmax(0)
                loss = loss + (p * (p.clamp(min=1e-8).log() - learned.clamp(min=1e-8).log())).sum()
    grads = torch.autograd.grad(loss, leaves)
    return (*(g.to(t.dtype) for g, t in zip(grads, (query_index, key_index, weights))), loss.detach().reshape(1))


def dense_align(query, key, query_index, key_index, weights, softmax_max, softmax_sum, max_index, sum_index, scale, **kwargs):
    return align(query, key, query_index, key_index, weights, None, softmax_max, softmax_sum, scale, **kwargs)


# ---- attention


def attention(
    query,
    key,
    value,
    indices,
    scale,
    *,
    block_table=None,
    actual_seq_lengths_query=None,
    actual_seq_lengths_kv=None,
    query_rope=None,
    key_rope=None,
    sparse_block_size=1,
    layout_query="BSND",
    layout_kv="BSND",
    sparse_mode=3,
    return_softmax_lse=False,
    sinks=None,
    **_,
):
    value = key if value is None else value
    if query_rope is not None:
        query, key = torch.cat([query, query_rope], -1), torch.cat([key, key_rope], -1)
    heads = key.shape[-2]
    group = query.shape[-2] // heads
    out = []
    sizes = (heads, len(query), group) if layout_query == "TND" else (query.shape[0], heads, query.shape[1], group)
    top, total = torch.zeros(sizes), torch.zeros(sizes)
    places, kv_places = lengths(query, layout_query, actual_seq_lengths_query), lengths(key, layout_kv, actual_seq_lengths_kv)
    for s, (place, kv_place) in enumerate(zip(places, kv_places)):
        q, chosen = sequence(query, layout_query, s, place), sequence(indices, layout_query, s, place)
        k, v = (sequence(t, layout_kv, s, kv_place, block_table) for t in (key, value))
        rows = []
        for i in range(len(q)):
            parts = []
            for h in range(heads):
                end = seen(sparse_mode, i, len(q), len(k))
                blocks = [b for b in chosen[i, h].tolist() if b >= 0]
                at = [p for b in blocks for p in range(b * sparse_block_size, (b + 1) * sparse_block_size) if p < end]
                scores = q[i, h * group : (h + 1) * group].float() @ k[at, h].float().T * scale
                if sinks is not None:
                    scores = torch.cat([scores, sinks[h * group : (h + 1) * group, None].float()], 1)
                weights = scores.softmax(1)[:, : len(at)]
                parts.append(weights @ v[at, h].float())
                row = (h, place[0] + i) if layout_query == "TND" else (s, h, i)
                top[row] = scores.detach().amax(1)
                total[row] = (scores.detach() - scores.detach().amax(1, keepdim=True)).exp().sum(1)
            rows.append(torch.cat(parts))
        own = torch.stack(rows)
        if layout_query == "BSND":
            own = torch.cat([own, own.new_zeros(query.shape[1] - len(own), *own.shape[1:])])
        out.append(own)
    out = (torch.cat(out) if layout_query == "TND" else torch.stack(out)).to(query.dtype)
    return (out, top, total) if return_softmax_lse else (out,)


def attention_gradients(
    query,
    key,
    value,
    indices,
    dy,
    out,
    top,
    total,
    scale,
    block,
    query_rope=None,
    key_rope=None,
    q_lengths=None,
    kv_lengths=None,
    layout="BSND",
    mode=3,
    **_,
):
    given = [query, key, value, query_rope, key_rope]
    leaves = [None if t is None else t.detach().float().requires_grad_() for t in given]
    with torch.enable_grad():
        result = attention(
            *leaves[:3],
            indices,
            scale,
            actual_seq_lengths_query=q_lengths,
            actual_seq_lengths_kv=kv_lengths,
            query_rope=leaves[3],
            key_rope=leaves[4],
            sparse_block_size=block,
            layout_query=layout,
            layout_kv=layout,
            sparse_mode=mode,
        )[0]
    grads = iter(torch.autograd.grad(result, [t for t in leaves if t is not None], dy.float()))
    return tuple(next(grads).to(t.dtype) if t is not None else torch.zeros(0) for t in given)


SIZE, ROPE, TILE = 16, 4, 8  # of a head in a packed cache: its numbers, the rotated ones, those of a scale


def packed(*shape, seed):
    """A cache of bytes: int8 numbers, a rotated part in bfloat16, a float32 scale of each tile."""
    numbers = torch.randint(-127, 128, (*shape, 1, SIZE), generator=torch.Generator().manual_seed(seed), dtype=torch.int8)
    rope = rand(*shape, 1, ROPE, seed=seed).bfloat16()
    scale = rand(*shape, 1, SIZE // TILE, seed=seed + 1).abs() / 64
    return torch.cat([numbers, rope.view(torch.int8), scale.view(torch.int8)], -1)


def packed_attention(query, key, value, indices, scale, key_mode, value_mode, **kwargs):
    numbers, rope, scales = key.split([SIZE, 2 * ROPE, 4 * SIZE // TILE], -1)
    numbers = numbers.float() * scales.contiguous().view(torch.float32).repeat_interleave(TILE, -1)
    whole = torch.cat([numbers, rope.contiguous().view(torch.bfloat16).float()], -1)
    out = attention(query.float(), whole, numbers, indices, scale, **kwargs)[0]
    return out.to(query.dtype)


def block_attention(
    query,
    key,
    value,
    mask,
    shape,
    *,
    q_input_layout="TND",
    kv_input_layout="TND",
    num_key_value_heads=1,
    scale_value=0.0,
    inner_precise=1,
    actual_seq_lengths=None,
    actual_seq_lengths_kv=None,
    softmax_lse_flag=0,
):
    def apart(t, given):  # (heads, rows, size) of each sequence
        if q_input_layout == "TND":
            return [part.transpose(0, 1) for part in t.split(given)]
        return [part[:, :n] for part, n in zip(t, given or [t.shape[2]] * len(t))]

    outs, sums = [], []
    group = mask.shape[1] // num_key_value_heads
    for s, (q, k, v) in enumerate(
        zip(apart(query, actual_seq_lengths), apart(key, actual_seq_lengths_kv), apart(value, actual_seq_lengths_kv))
    ):
        hidden = mask[s].repeat_interleave(shape[0], 1).repeat_interleave(shape[1], 2)[:, : q.shape[1], : k.shape[1]] == 0
        k, v = k.repeat_interleave(group, 0).float(), v.repeat_interleave(group, 0).float()
        scores = (q.float() @ k.transpose(1, 2) * scale_value).masked_fill(hidden, NEVER)
        outs.append(scores.softmax(-1) @ v)
        sums.append(scores.logsumexp(-1, keepdim=True))
    if q_input_layout == "TND":
        outs, sums = (torch.cat([t.transpose(0, 1) for t in part]) for part in (outs, sums))
    else:
        outs, sums = (
            torch.stack([torch.cat([t, t.new_zeros(len(t), query.shape[2] - t.shape[1], t.shape[2])], 1) for t in part])
            for part in (outs, sums)
        )
    out = outs.to(query.dtype)
    return (out, sums.detach()) if softmax_lse_flag else (out,)


def block_gradients(dy, query, key, value, out, lse, mask, shape, q_lengths, kv_lengths, layout, kv_layout, heads, scale):
    leaves = [t.detach().float().requires_grad_() for t in (query, key, value)]
    with torch.enable_grad():
        result = block_attention(
            *leaves,
            mask,
            shape,
            q_input_layout=layout,
            kv_input_layout=layout,
            num_key_value_heads=heads,
            scale_value=scale,
            actual_seq_lengths=q_lengths,
            actual_seq_lengths_kv=kv_lengths,
        )[0]
    return tuple(g.to(t.dtype) for g, t in zip(torch.autograd.grad(result, leaves, dy.float()), (query, key, value)))
