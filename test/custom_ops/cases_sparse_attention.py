"""Cases of sparse attention: the lightning indexer, attention to the keys it chose, attention to chosen blocks of keys."""

import torch
from cases import Case, rand
from sparse_attention_reference import (
    ROPE,
    SIZE,
    TILE,
    align,
    attention,
    attention_gradients,
    block_attention,
    block_gradients,
    dense_align,
    indexer,
    indexer_gradients,
    packed,
    packed_attention,
    quant_indexer,
    softmax_lse,
)


def ints(*numbers):
    return torch.tensor(numbers, dtype=torch.int32)


def some(*shape, keys, seed=0, padded=0):
    """Different numbers below `keys` in each row, the last `padded` of them -1."""
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randperm(keys, generator=generator)[: shape[-1]] for _ in range(torch.Size(shape[:-1]).numel())]
    out = torch.stack(rows).int().reshape(shape)
    if padded:
        out[..., -padded:] = -1
    return out


def separate(*shape, seed=0, dtype=torch.float32):
    """Whole numbers, exact in every type, of many different sizes: no two scores are nearly equal."""
    return torch.randint(-3, 4, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


TABLE = ints(2, 0, 1, 3).view(2, 2)
Q, K, W = (
    separate(2, 3, 4, 8, seed=1),
    separate(2, 7, 1, 8, seed=2),
    torch.tensor([1.0, 2.0, -0.5, 4.0]).expand(2, 3, 4) + separate(2, 3, 4, seed=3),
)
TND_Q, TND_K, TND_W = separate(5, 4, 8, seed=4), separate(9, 1, 8, seed=5), separate(5, 4, seed=6)
ENDS, KEY_ENDS = ints(2, 5), ints(4, 9)
BYTES = torch.randint(-9, 10, (4, 4, 1, 8), generator=torch.Generator().manual_seed(7), dtype=torch.int8)
BYTE_Q = torch.randint(-9, 10, (2, 3, 4, 8), generator=torch.Generator().manual_seed(8), dtype=torch.int8)

INDEXER = [
    Case("npu_lightning_indexer", (Q, K, W), indexer, {"sparse_count": 9, "sparse_mode": 0, "return_value": True}),
    Case("npu_lightning_indexer", (Q, K, W), indexer, {"sparse_count": 4, "return_value": True}, grad=(0, 1, 2), through=1, label="causal"),
    Case(
        "npu_lightning_indexer",
        (Q, K, W),
        indexer,
        {"sparse_count": 5, "actual_seq_lengths_query": ints(3, 2), "actual_seq_lengths_key": ints(4, 6)},
        label="lengths",
    ),
    Case(
        "npu_lightning_indexer",
        (TND_Q, TND_K, TND_W),
        indexer,
        {
            "sparse_count": 4,
            "actual_seq_lengths_query": ENDS,
            "actual_seq_lengths_key": KEY_ENDS,
            "layout_query": "TND",
            "layout_key": "TND",
            "return_value": True,
        },
        label="in a row",
    ),
    Case(
        "npu_lightning_indexer",
        (Q, separate(4, 4, 1, 8, seed=9), W),
        indexer,
        {"sparse_count": 3, "actual_seq_lengths_key": ints(7, 5), "layout_key": "PA_BSND", "block_table": TABLE},
        label="cache",
    ),
    Case(
        "npu_lightning_indexer",
        (TND_Q, separate(4, 4, 1, 8, seed=9), TND_W),
        indexer,
        {
            "sparse_count": 8,
            "actual_seq_lengths_query": ENDS,
            "actual_seq_lengths_key": ints(7, 5),
            "layout_query": "TND",
            "layout_key": "PA_BSND",
            "block_table": TABLE,
        },
        label="in a row, cache",
    ),
    Case("npu_lightning_indexer_grad", (Q, K, rand(2, 3, 1, 4), some(2, 3, 1, 4, keys=5, padded=1), W), indexer_gradients),
    Case("npu_lightning_indexer_grad", (Q, K, rand(2, 3, 3), some(2, 3, 3, keys=5), W), indexer_gradients, label="without heads"),
    Case(
        "npu_lightning_indexer_grad",
        (TND_Q, TND_K, rand(5, 1, 2), some(5, 1, 2, keys=3), TND_W, ENDS, KEY_ENDS, "TND"),
        indexer_gradients,
        label="in a row",
    ),
    Case(
        "npu_quant_lightning_indexer",
        (BYTE_Q, BYTES, W.half(), rand(2, 3, 4).abs().half(), rand(4, 4, 1).abs().half(), 0, 0),
        quant_indexer,
        {"sparse_count": 4, "actual_seq_lengths_key": ints(7, 5), "layout_key": "PA_BSND", "block_table": TABLE},
    ),
    Case(
        "npu_quant_lightning_indexer",
        (BYTE_Q, BYTES[:2].reshape(2, 4, 1, 8), W.half(), rand(2, 3, 4).abs().half(), rand(2, 4, 1).abs().half(), 0, 0),
        quant_indexer,
        {"sparse_count": 6, "sparse_mode": 0},
        label="batch",
    ),
    Case(
        "npu_quant_lightning_indexer",
        (BYTE_Q[0], BYTES[0], TND_W[:3].half(), rand(3, 4).abs().half(), rand(4, 1).abs().half(), 0, 0),
        quant_indexer,
        {
            "sparse_count": 2,
            "actual_seq_lengths_query": ints(1, 3),
            "actual_seq_lengths_key": ints(2, 4),
            "layout_query": "TND",
            "layout_key": "TND",
        },
        label="in a row",
    ),
    Case("npu_dense_lightning_indexer_softmax_lse", (Q, K, W), softmax_lse),
    Case(
        "npu_dense_lightning_indexer_softmax_lse",
        (rand(2, 3, 4, 8), rand(2, 7, 1, 8), rand(2, 3, 4)),
        softmax_lse,
        {"sparse_mode": 0},
        label="all keys",
    ),
    Case(
        "npu_dense_lightning_indexer_softmax_lse",
        (TND_Q, TND_K, TND_W),
        softmax_lse,
        {"actual_seq_qlen": [2, 5], "actual_seq_klen": [4, 9], "layout": "TND"},
        label="in a row",
    ),
]

A = (rand(2, 3, 4, 8), rand(2, 7, 1, 8), rand(2, 7, 1, 8, seed=1))
ROPES = {"query_rope": rand(2, 3, 4, 2), "key_rope": rand(2, 7, 1, 2)}
T = (rand(5, 4, 8), rand(9, 2, 8), rand(9, 2, 8, seed=1))
IN_A_ROW = {"actual_seq_lengths_query": ENDS, "actual_seq_lengths_kv": KEY_ENDS, "layout_query": "TND", "layout_kv": "TND"}
CHOSEN = some(2, 3, 1, 4, keys=7, padded=1)  # the last rows see seven keys, the first ones fewer
STATED = {"attention_mode": 2, "return_softmax_lse": True}


def backward(query, key, value, indices, **kwargs):
    """Arguments of the gradient, with the forward pass' results."""
    scale, block = 0.3, kwargs.get("sparse_block_size", 1)
    out, top, total = attention(query, key, value, indices, scale, return_softmax_lse=True, **kwargs)
    more = (kwargs.get("query_rope"), kwargs.get("key_rope"), kwargs.get("actual_seq_lengths_query"), kwargs.get("actual_seq_lengths_kv"))
    return (query, key, value, indices, rand(*out.shape, seed=9), out, top, total, scale, block, *more, kwargs.get("layout_query", "BSND"))


def block_backward(query, key, value, mask, shape, **kwargs):
    out, lse = block_attention(query, key, value, mask, shape, softmax_lse_flag=1, **kwargs)
    layout = kwargs["q_input_layout"]
    return (
        rand(*out.shape, seed=9),
        query,
        key,
        value,
        out,
        lse,
        mask,
        shape,
        kwargs.get("actual_seq_lengths"),
        kwargs.get("actual_seq_lengths_kv"),
        layout,
        layout,
        kwargs["num_key_value_heads"],
        kwargs["scale_value"],
    )


def blocks(*shape, seed=0):
    mask = torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(seed)).to(torch.int8)
    mask[..., 0] = 1
    return mask


BNSD = (rand(2, 4, 20, 8), rand(2, 2, 200, 8), rand(2, 2, 200, 8, seed=1), blocks(2, 4, 3, 2), [8, 128])
SHORTER = {"actual_seq_lengths": [20, 13], "actual_seq_lengths_kv": [200, 140]}
BNSD_ARGS = {"q_input_layout": "BNSD", "kv_input_layout": "BNSD", "num_key_value_heads": 2, "scale_value": 0.3}
ROW = (rand(30, 2, 8), rand(300, 1, 8), rand(300, 1, 8, seed=1), blocks(2, 2, 3, 2, seed=1), [8, 128])
ROW_ARGS = {
    "q_input_layout": "TND",
    "kv_input_layout": "TND",
    "num_key_value_heads": 1,
    "scale_value": 0.3,
    "actual_seq_lengths": [20, 10],
    "actual_seq_lengths_kv": [170, 130],
}
PRECISE = {"softmax_lse_flag": 1, "inner_precise": 0}

ATTENTION = [
    Case("npu_sparse_flash_attention", (*A, CHOSEN, 0.3), attention, {**ROPES, **STATED}, grad=(0, 1, 2)),
    Case(
        "npu_sparse_flash_attention",
        (*A, some(2, 3, 1, 3, keys=3), 0.3),
        attention,
        {"sparse_block_size": 2, "sparse_mode": 0, "return_softmax_lse": True},
        grad=(0, 1, 2),
        label="blocks",
    ),
    Case(
        "npu_sparse_flash_attention",
        (*T, some(5, 2, 3, keys=4), 0.3),
        attention,
        {**IN_A_ROW, "return_softmax_lse": True},
        grad=(0, 1, 2),
        label="in a row",
    ),
    Case(
        "npu_sparse_flash_attention", (A[0], A[1], None, CHOSEN, 0.3), attention, {**ROPES, **STATED}, grad=(0, 1), label="keys are values"
    ),
    Case(
        "npu_sparse_flash_attention",
        (*A, CHOSEN, 0.3),
        attention,
        {**ROPES, "actual_seq_lengths_query": ints(3, 2), "actual_seq_lengths_kv": ints(7, 6)},
        label="lengths",
    ),
    Case("npu_sparse_flash_attention", (*A, CHOSEN, 0.3), attention, {**ROPES, **STATED, "sinks": rand(4)}, label="sinks"),
    Case(
        "npu_sparse_flash_attention",
        (A[0], rand(4, 4, 1, 8), rand(4, 4, 1, 8, seed=1), some(2, 3, 1, 3, keys=3), 0.3),
        attention,
        {"actual_seq_lengths_kv": ints(7, 5), "layout_kv": "PA_BSND", "block_table": TABLE},
        label="cache",
    ),
    Case("npu_sparse_flash_attention_grad", backward(*A, CHOSEN, **ROPES), attention_gradients),
    Case("npu_sparse_flash_attention_grad", backward(*T, some(5, 2, 3, keys=4), **IN_A_ROW), attention_gradients, label="in a row"),
    Case(
        "npu_sparse_flash_attention_grad", backward(*A, some(2, 3, 1, 2, keys=3), sparse_block_size=2), attention_gradients, label="blocks"
    ),
    Case(
        "npu_kv_quant_sparse_flash_attention",
        (rand(2, 3, 4, SIZE + ROPE).bfloat16(), packed(4, 4, seed=1), packed(4, 4, seed=1), CHOSEN, 0.05, 2, 2),
        packed_attention,
        {
            "actual_seq_lengths_kv": ints(7, 6),
            "layout_kv": "PA_BSND",
            "block_table": TABLE,
            "tile_size": TILE,
            "rope_head_dim": ROPE,
            "attention_mode": 2,
        },
    ),
    Case(
        "npu_kv_quant_sparse_flash_attention",
        (rand(2, 3, 4, SIZE + ROPE).bfloat16(), packed(2, 7, seed=2), packed(2, 7, seed=2), CHOSEN, 0.05, 2, 2),
        packed_attention,
        {"sparse_mode": 0, "tile_size": TILE, "rope_head_dim": ROPE},
        label="batch",
    ),
    Case(
        "npu_kv_quant_sparse_flash_attention",
        (rand(5, 4, SIZE + ROPE).bfloat16(), packed(9, seed=3), packed(9, seed=3), some(5, 1, 3, keys=4), 0.05, 2, 2),
        packed_attention,
        {**IN_A_ROW, "tile_size": TILE, "rope_head_dim": ROPE},
        label="in a row",
    ),
    Case("npu_block_sparse_attention", BNSD, block_attention, {**BNSD_ARGS, **PRECISE}, grad=(0, 1, 2)),
    Case("npu_block_sparse_attention", ROW, block_attention, {**ROW_ARGS, **PRECISE}, grad=(0, 1, 2), label="in a row"),
    Case(
        "npu_block_sparse_attention",
        BNSD,
        block_attention,
        {**BNSD_ARGS, **PRECISE, **SHORTER},
        label="lengths",
    ),
    Case("npu_block_sparse_attention_backward", block_backward(*BNSD, **BNSD_ARGS, **SHORTER), block_gradients, label="lengths"),
    Case("npu_block_sparse_attention_backward", block_backward(*BNSD, **BNSD_ARGS), block_gradients),
    Case("npu_block_sparse_attention_backward", block_backward(*ROW, **ROW_ARGS), block_gradients, label="in a row"),
]


def taught(query, key, query_index, key_index, weights, indices, scale=0.3, **kwargs):
    """Arguments of the alignment, with statistics that belong to the attention."""
    length = key.shape[0] if kwargs.get("layout") == "TND" else key.shape[1]
    every = torch.arange(length, dtype=torch.int32).expand(*query.shape[:-2], key.shape[-2], length)
    layout = kwargs.get("layout", "BSND")
    ends = {"actual_seq_lengths_query": kwargs.get("actual_seq_qlen"), "actual_seq_lengths_kv": kwargs.get("actual_seq_klen")}
    _, top, total = attention(
        query,
        key,
        None,
        every if indices is None else indices,
        scale,
        query_rope=kwargs.get("query_rope"),
        key_rope=kwargs.get("key_rope"),
        layout_query=layout,
        layout_kv=layout,
        sinks=kwargs.get("sinks"),
        sparse_mode=kwargs.get("sparse_mode", 3),
        return_softmax_lse=True,
        **ends,
    )
    if indices is not None:
        return query, key, query_index, key_index, weights, indices, top, total, scale
    mine = {k: v for k, v in kwargs.items() if k in ("actual_seq_qlen", "actual_seq_klen", "layout", "sparse_mode")}
    return query, key, query_index, key_index, weights, top, total, *softmax_lse(query_index, key_index, weights, **mine), scale


I = (rand(2, 3, 2, 6), rand(2, 7, 1, 6), rand(2, 3, 2))  # noqa: E741 - the indexer's
R = (rand(5, 2, 6), rand(9, 1, 6), rand(5, 2))
IN_LISTS = {"actual_seq_qlen": [2, 5], "actual_seq_klen": [4, 9], "layout": "TND"}
MANY = (rand(2, 3, 4, 8), rand(2, 7, 2, 8))
ALIGN = [
    Case("npu_sparse_lightning_indexer_grad_kl_loss", taught(*A[:2], *I, CHOSEN, **ROPES), align, ROPES),
    Case(
        "npu_sparse_lightning_indexer_grad_kl_loss",
        taught(rand(5, 4, 8), rand(9, 1, 8), *R, some(5, 1, 3, keys=4), **IN_LISTS),
        align,
        IN_LISTS,
        label="in a row",
    ),
    Case("npu_sparse_lightning_indexer_grad_kl_loss", taught(*A[:2], *I, CHOSEN, sinks=rand(4)), align, {"sinks": rand(4)}, label="sinks"),
    Case("npu_dense_lightning_indexer_grad_kl_loss", taught(*MANY, *I, None), dense_align),
    Case(
        "npu_dense_lightning_indexer_grad_kl_loss",
        taught(*A[:2], *I, None, **ROPES, sparse_mode=0),
        dense_align,
        {**ROPES, "sparse_mode": 0},
        label="all keys",
    ),
    Case(
        "npu_dense_lightning_indexer_grad_kl_loss",
        taught(rand(5, 4, 8), rand(9, 2, 8), *R, None, **IN_LISTS),
        dense_align,
        IN_LISTS,
        label="in a row",
    ),
]

CASES = [*INDEXER, *ATTENTION, *ALIGN]
