"""Attention for inference and caches of keys and values: cases, and what plain torch makes of them, one sequence and head at a time."""

import torch
from cases import Case, rand

INT32 = torch.int32
# The pattern that sparse modes 2 to 4 want; the device reads no number of it.
TRIANGLE = torch.ones(2048, 2048, dtype=torch.bool).triu(1)


def attend(q, k, v, scale, visible, bias=None, sink=None):
    """(result, log of the sums) of [heads, length, size] tensors; a row that sees nothing gives zeros."""
    group = q.shape[0] // k.shape[0]
    out, sums = torch.zeros(*q.shape[:2], v.shape[2]), torch.full((*q.shape[:2], 1), -torch.inf)
    for h in range(q.shape[0]):
        for i in range(q.shape[1]):
            seen = visible[i].nonzero().flatten()
            if len(seen) == 0 and sink is None:
                continue
            scores = k[h // group, seen] @ q[h, i] * scale
            if bias is not None:
                scores = scores + bias[h, i, seen]
            every = scores if sink is None else torch.cat([scores, sink[h : h + 1]])
            sums[h, i] = every.logsumexp(0)
            out[h, i] = (scores - sums[h, i]).exp() @ v[h // group, seen]
    return out, sums


def visible(mode, rows, columns, mask, before, after):
    i, j = torch.arange(rows)[:, None], torch.arange(columns)
    right = columns - rows
    if mode == 0:
        return torch.ones(rows, columns, dtype=bool) if mask is None else ~mask.bool() & (j <= i + after) & (j >= i - before)
    if mode == 1:
        return ~mask.bool()
    if mode in (2, 3):
        return j <= i + (right if mode == 3 else 0)
    return (j <= i + right + after) & (j >= i + right - before)


def apart(t, layout, heads):
    """[batch, heads, length, size]."""
    return {
        "BSH": lambda: t.unflatten(-1, (heads, -1)).transpose(1, 2),
        "BSND": lambda: t.transpose(1, 2),
        "BNSD": lambda: t,
        "TND": lambda: t.transpose(0, 1)[None],
        "NTD": lambda: t[None],
        "NSD": lambda: t[None],
    }[layout]()


def together(t, layout):
    return {
        "BSH": lambda: t.transpose(1, 2).flatten(2),
        "BSND": lambda: t.transpose(1, 2),
        "BNSD": lambda: t,
        "NBSD": lambda: t.transpose(0, 1),
        "TND": lambda: t[0].transpose(0, 1),
        "NTD": lambda: t[0],
        "NSD": lambda: t[0],
    }[layout]()


def unpaged(cache, table, length, heads):
    """[heads, length, size] of one sequence."""
    if cache.dim() == 3:
        cache = cache.unflatten(-1, (heads, -1)).transpose(1, 2)
    if cache.dim() == 5:
        cache = cache.transpose(2, 3).flatten(3)
    return torch.cat([cache[i] for i in table.tolist() if i >= 0], 1)[:, :length] if length else cache[0][:, :0]


def fused(
    query,
    key,
    value,
    *,
    pse_shift=None,
    atten_mask=None,
    actual_seq_lengths=None,
    actual_seq_lengths_kv=None,
    antiquant=(None, None),
    quant_scale2=None,
    quant_offset2=None,
    block_table=None,
    key_shared_prefix=None,
    value_shared_prefix=None,
    actual_shared_prefix_len=None,
    query_rope=None,
    key_rope=None,
    sink=None,
    num_heads=1,
    scale=1.0,
    pre_tokens=2**31 - 1,
    next_tokens=2**31 - 1,
    input_layout="BSH",
    num_key_value_heads=0,
    sparse_mode=0,
    softmax_lse_flag=False,
    **_,
):
    query, key, value = (t.float() for t in (query, key, value))
    few = num_key_value_heads or num_heads
    inside, outside = (input_layout.split("_") * 2)[:2]
    ragged = "T" in inside
    q = apart(query, inside, num_heads)
    if query_rope is not None:
        q = torch.cat([q, apart(query_rope.float(), inside, num_heads)], -1)
    batch = len(actual_seq_lengths) if ragged else len(q)
    out, sums = None, torch.full((*q.shape[:3], 1), -torch.inf)
    for b in range(batch):
        row = 0 if ragged else b
        begin = actual_seq_lengths[b - 1] if ragged and b else 0
        end = actual_seq_lengths[b] if actual_seq_lengths else q.shape[2]
        if block_table is not None:
            length = actual_seq_lengths_kv[b]
            k, v = (unpaged(t, block_table[b], length, few) for t in (key, value))
            if key_rope is not None:
                k = torch.cat([k, unpaged(key_rope.float(), block_table[b], length, few)], -1)
        else:
            first = actual_seq_lengths_kv[b - 1] if ragged and b else 0
            last = actual_seq_lengths_kv[b] if actual_seq_lengths_kv else None
            k, v = (apart(t, inside, few)[row, :, first:last] for t in (key, value))
            if key_rope is not None:
                k = torch.cat([k, apart(key_rope.float(), inside, few)[row, :, first:last]], -1)
        k, v = (t if f is None else f(t, b) for t, f in zip((k, v), antiquant))
        if key_shared_prefix is not None:
            n = (actual_shared_prefix_len or [None])[0]
            k, v = (
                torch.cat([apart(p.float(), inside, few)[0, :, :n], t], 1) for p, t in ((key_shared_prefix, k), (value_shared_prefix, v))
            )
        rows, columns = end - begin, k.shape[1]
        mask = atten_mask
        if mask is not None and sparse_mode < 2:
            mask = mask[b][None] if mask.dim() == 2 and q.shape[2] == 1 else mask.reshape(-1, *mask.shape[-2:])
            mask = mask[b if mask.dim() == 3 and len(mask) > 1 else 0] if mask.dim() == 3 else mask
            mask = mask[:rows, :columns]
        bias = None if pse_shift is None else pse_shift.float()[b % len(pse_shift), :, :rows, :columns]
        o, s = attend(q[row, :, begin:end], k, v, scale, visible(sparse_mode, rows, columns, mask, pre_tokens, next_tokens), bias, sink)
        out = torch.zeros(*q.shape[:3], v.shape[2]) if out is None else out
        out[row, :, begin:end], sums[row, :, begin:end] = o, s
    out = together(out, outside)
    if quant_scale2 is not None:
        out = (out * quant_scale2 + (0 if quant_offset2 is None else quant_offset2)).round().clamp(-128, 127).to(torch.int8)
    return (out, together(sums, "TND") if ragged else sums) if softmax_lse_flag else (out,)


def by(op, args, label, reference=fused, **kwargs):
    return Case(op, args, reference, kwargs, label=label)


FIA = "npu_fused_infer_attention_score"
B, N, M, S, D = 2, 4, 2, 5, 8
Q, K, V = rand(B, N, S, D), rand(B, M, 7, D, seed=1), rand(B, M, 7, D, seed=2)
HEADS = {"num_heads": N, "num_key_value_heads": M, "scale": 0.3}
MASK = torch.rand(B, 1, S, 7, generator=torch.Generator().manual_seed(5)) > 0.6
# Three sequences in a row, of 2, 0 and 3 tokens, which see 3, 1 and 5.
ROWS, ROW_K, ROW_V = rand(5, N, D), rand(9, M, D, seed=1), rand(9, M, D, seed=2)
ENDS, KV_ENDS, KV_LENGTHS = [2, 2, 5], [3, 4, 9], [3, 1, 5]
TABLE = torch.tensor([[2, -1], [0, -1], [3, 1]], dtype=INT32)
PAGES, PAGES_V = rand(4, 4, M * D, seed=1), rand(4, 4, M * D, seed=2)  # blocks of four tokens


def heads_first(pages):
    return pages.unflatten(-1, (M, -1)).transpose(1, 2).contiguous()


LAYOUTS = [
    by(
        FIA,
        tuple(together(t, layout.split("_")[0]).contiguous() for t in (Q, K, V)),
        layout,
        input_layout=layout,
        softmax_lse_flag=True,
        **HEADS,
    )
    for layout in ("BSH", "BSND", "BNSD", "BNSD_BSND", "BSH_BNSD", "BSND_BNSD", "BSH_NBSD", "BSND_NBSD", "BNSD_NBSD")
]
ROW_LAYOUTS = [
    by(
        FIA,
        tuple(t if layout[0] == "T" else t.transpose(0, 1).contiguous() for t in (ROWS, ROW_K, ROW_V)),
        layout,
        input_layout=layout,
        softmax_lse_flag=True,
        actual_seq_lengths=ENDS,
        actual_seq_lengths_kv=KV_ENDS,
        **HEADS,
    )
    for layout in ("TND", "NTD", "TND_NTD", "NTD_TND")
]
PAGED = {"block_table": TABLE, "block_size": 4, "actual_seq_lengths_kv": KV_LENGTHS, **HEADS}
ONE = {"pages": (PAGES, PAGES_V), "heads first": (heads_first(PAGES), heads_first(PAGES_V))}
SIXTEEN = [rand(4, M, 2, 4, 16, seed=s) for s in (1, 2)]  # heads of 32 numbers, sixteen side by side
FUSED = [
    *LAYOUTS,
    *ROW_LAYOUTS,
    by(FIA, (Q[0], K[0], V[0]), "NSD", input_layout="NSD", **HEADS),
    by(FIA, (Q, K, V), "mask", input_layout="BNSD", atten_mask=MASK, softmax_lse_flag=True, **HEADS),
    by(FIA, (Q, K, V), "mask in a band", input_layout="BNSD", atten_mask=MASK[:1, 0], pre_tokens=2, next_tokens=1, **HEADS),
    by(FIA, (Q, K, V), "mask alone", input_layout="BNSD", atten_mask=MASK[0, 0], pre_tokens=2, next_tokens=1, sparse_mode=1, **HEADS),
    *[
        by(
            FIA,
            (Q, K, V),
            f"sparse {mode}",
            input_layout="BNSD",
            atten_mask=TRIANGLE,
            sparse_mode=mode,
            pre_tokens=3,
            next_tokens=1,
            softmax_lse_flag=True,
            **HEADS,
        )
        for mode in (2, 3, 4)
    ],
    by(
        FIA,
        (Q, K, V),
        "lengths",
        input_layout="BNSD",
        actual_seq_lengths=[3, 5],
        actual_seq_lengths_kv=[7, 2],
        atten_mask=TRIANGLE,
        sparse_mode=3,
        softmax_lse_flag=True,
        **HEADS,
    ),
    by(FIA, (Q, K, V), "bias", input_layout="BNSD", pse_shift=rand(1, N, S, 7), **HEADS),
    by(FIA, (Q[:, :, :1], K, V), "one token", input_layout="BNSD", actual_seq_lengths_kv=[3, 6], softmax_lse_flag=True, **HEADS),
    by(FIA, (Q[:, :, :1], K, V), "one token, mask", input_layout="BNSD", atten_mask=MASK[:, 0, 0], **HEADS),
    by(
        FIA,
        (Q, K, V),
        "shared prefix",
        input_layout="BNSD",
        key_shared_prefix=rand(1, M, 3, D, seed=6),
        value_shared_prefix=rand(1, M, 3, D, seed=7),
        actual_shared_prefix_len=[2],
        actual_seq_lengths_kv=[4, 7],
        **HEADS,
    ),
    by(
        FIA,
        (ROWS, ROW_K, ROW_V),
        "rows, causal",
        input_layout="TND",
        actual_seq_lengths=ENDS,
        actual_seq_lengths_kv=KV_ENDS,
        atten_mask=TRIANGLE,
        sparse_mode=3,
        **HEADS,
    ),
    by(
        FIA,
        (ROWS, ROW_K, ROW_V),
        "rows, mask",
        input_layout="TND",
        actual_seq_lengths=ENDS,
        actual_seq_lengths_kv=KV_ENDS,
        atten_mask=MASK[0, 0],
        sparse_mode=1,
        **HEADS,
    ),
    by(
        FIA,
        (ROWS, ROW_K, ROW_V),
        "rows, window",
        input_layout="TND",
        actual_seq_lengths=ENDS,
        actual_seq_lengths_kv=KV_ENDS,
        atten_mask=TRIANGLE,
        sparse_mode=4,
        pre_tokens=1,
        next_tokens=0,
        **HEADS,
    ),
    *[
        by(
            FIA,
            (ROWS, *caches),
            f"rows, {label}",
            input_layout="TND",
            actual_seq_lengths=ENDS,
            atten_mask=TRIANGLE,
            sparse_mode=3,
            softmax_lse_flag=True,
            **PAGED,
        )
        for label, caches in ONE.items()
    ],
    *[
        by(
            FIA,
            (together(rand(3, N, rows, D), layout).contiguous(), PAGES, PAGES_V),
            f"{layout}, pages, {rows}",
            input_layout=layout,
            **PAGED,
        )
        for layout in ("BSH", "BSND", "BNSD")
        for rows in (1, 3)
    ],
    by(FIA, (rand(3, N, 1, 32), *SIXTEEN), "pages of sixteen", input_layout="BNSD", **PAGED),
    # The latent form: one key head, whose values are the keys without their rotary part.
    by(
        FIA,
        (rand(3, N, 1, D), PAGES[..., :D], PAGES[..., :D]),
        "rotary parts in pages",
        input_layout="BNSD",
        query_rope=rand(3, N, 1, 4),
        key_rope=rand(4, 4, 4, seed=3),
        **{**PAGED, "num_key_value_heads": 1},
    ),
    by(
        FIA,
        (ROWS, ROW_K, ROW_V[..., :6]),
        "rotary parts in rows",
        input_layout="TND",
        query_rope=rand(5, N, 4),
        key_rope=rand(9, M, 4, seed=3),
        actual_seq_lengths=ENDS,
        actual_seq_lengths_kv=KV_ENDS,
        softmax_lse_flag=True,
        **HEADS,
    ),
]

CASES = FUSED
