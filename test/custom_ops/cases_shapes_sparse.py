"""Sparse attention, its indexer, native sparse attention, attention over triangles, and merged parts of attention: other heads, lengths,
blocks and sequences."""

import torch
from cases import Case, rand
from cases_attention import WHOLE, attend, eight, join
from cases_nsa import (
    BLOCK,
    CACHE_K,
    CACHE_V,
    PICKED,
    SELECT,
    STRIDE,
    TABLE,
    compress,
    compress_gradients,
    compress_last,
    compressed_attention,
    compressed_step,
    floyd,
    floyd_backward,
    floyd_gradients,
    select_backward,
    selected_attention,
    selected_gradients,
    selected_step,
)
from cases_sparse_attention import (
    backward,
    block_backward,
    blocks,
    ints,
    separate,
    some,
    taught,
)
from sparse_attention_reference import (
    ROPE,
    SIZE,
    TILE,
    align,
    attention_gradients,
    block_attention,
    block_gradients,
    dense_align,
    indexer_gradients,
    packed,
    packed_attention,
    quant_indexer,
    softmax_lse,
)

ONE = (separate(1, 1, 2, 8, seed=1), separate(1, 5, 1, 8, seed=2), separate(1, 1, 2, seed=3) + 5)
MANY = (separate(3, 4, 1, 6, seed=1), separate(3, 9, 1, 6, seed=2), separate(3, 4, 1, seed=3))
ROW = (separate(7, 3, 8, seed=4), separate(11, 1, 8, seed=5), separate(7, 3, seed=6))
ROW_ENDS = {"actual_seq_qlen": [1, 3, 7], "actual_seq_klen": [2, 5, 11], "layout": "TND"}


def bytes_(*shape, seed=0):
    return torch.randint(-9, 10, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.int8)


def half(*shape, seed=0):
    return rand(*shape, seed=seed).abs().half()


INDEXER = [
    *[Case("npu_lightning_indexer_grad", args, indexer_gradients, label=label) for label, args in {
        "one token": (*ONE[:2], rand(1, 1, 1, 3), some(1, 1, 1, 3, keys=5), ONE[2]),
        "all keys": (*MANY[:2], rand(3, 4, 1, 5), some(3, 4, 1, 5, keys=9, padded=2), MANY[2], None, None, "BSND", 0),
        "three in a row": (*ROW[:2], rand(7, 1, 2), some(7, 1, 2, keys=2), ROW[2], ints(1, 3, 7), ints(2, 5, 11), "TND")}.items()],
    *[Case("npu_quant_lightning_indexer", (q, k, w.half(), half(*w.shape), half(*k.shape[:-1]), 0, 0), quant_indexer, options, label=label)
      for label, q, k, w, options in (
          ("one token", bytes_(1, 1, 2, 8), bytes_(1, 5, 1, 8, seed=1), ONE[2], {"sparse_count": 2}),
          ("all keys", bytes_(3, 4, 1, 6), bytes_(3, 9, 1, 6, seed=1), MANY[2], {"sparse_count": 12, "sparse_mode": 0}),
          ("lengths", bytes_(3, 4, 1, 6), bytes_(3, 9, 1, 6, seed=1), MANY[2], {"sparse_count": 4, "actual_seq_lengths_query": ints(4, 1,
              2),
                                                                               "actual_seq_lengths_key": ints(9, 3, 5)}))],
    *[Case("npu_dense_lightning_indexer_softmax_lse", args, softmax_lse, options, label=label)
      for label, args, options in (("one token", ONE, {}), ("many", MANY, {"sparse_mode": 3}), ("three in a row", ROW, ROW_ENDS))],
]

A = (rand(1, 2, 6, 8), rand(1, 5, 2, 8), rand(1, 5, 2, 8, seed=1))
T = (rand(7, 2, 8), rand(11, 1, 8), rand(11, 1, 8, seed=1))
IN_A_ROW = {"actual_seq_lengths_query": ints(1, 3, 7), "actual_seq_lengths_kv": ints(2, 5, 11), "layout_query": "TND", "layout_kv": "TND"}
BNSD = {"q_input_layout": "BNSD", "kv_input_layout": "BNSD"}
BLOCKED = {
    "one head": ((rand(1, 1, 9, 8), rand(1, 1, 140, 8), rand(1, 1, 140, 8, seed=1), blocks(1, 1, 2, 2), [8, 128]),
                 {**BNSD, "num_key_value_heads": 1, "scale_value": 0.5}),
    "short blocks": ((rand(1, 2, 20, 8), rand(1, 2, 130, 8), rand(1, 2, 130, 8, seed=1), blocks(1, 2, 2, 2, seed=3), [16, 128]),
                     {**BNSD, "num_key_value_heads": 2, "scale_value": 1.0}),
    "three in a row": ((rand(12, 2, 8), rand(160, 1, 8), rand(160, 1, 8, seed=1), blocks(3, 2, 1, 1), [8, 128]),
                       {"q_input_layout": "TND", "kv_input_layout": "TND", "num_key_value_heads": 1, "scale_value": 0.2,
                        "actual_seq_lengths": [1, 3, 8], "actual_seq_lengths_kv": [10, 50, 100]})}
I = (rand(1, 2, 3, 4), rand(1, 5, 1, 4), rand(1, 2, 3))  # noqa: E741 - the indexer's
R = (rand(7, 2, 4), rand(11, 1, 4), rand(7, 2))
ROPES = {"query_rope": rand(1, 2, 6, 2), "key_rope": rand(1, 5, 1, 2)}
ATTENTION = [
    *[Case("npu_sparse_flash_attention_grad", backward(q, k, v, at, **options), attention_gradients, label=label)
      for label, (q, k, v), at, options in (
          ("two key heads", A, some(1, 2, 2, 3, keys=5), {}), ("three in a row", T, some(7, 1, 2, keys=2), IN_A_ROW),
          ("one token", (rand(1, 1, 2, 8), rand(1, 5, 1, 8), rand(1, 5, 1, 8, seed=1)), some(1, 1, 1, 4, keys=5, padded=1), {}))],
    *[Case("npu_kv_quant_sparse_flash_attention", (rand(*q, SIZE + ROPE).bfloat16(), cache, cache, at, 0.05, 2, 2), packed_attention,
           {"tile_size": TILE, "rope_head_dim": ROPE, **options}, label=label)
      for label, q, cache, at, options in (
          ("one token", (1, 1, 2), packed(1, 5, seed=4), some(1, 1, 1, 3, keys=5), {"attention_mode": 2}),
          ("blocks", (2, 3, 4), packed(2, 7, seed=5), some(2, 3, 1, 2, keys=3), {"sparse_block_size": 2, "sparse_mode": 0}),
          ("three in a row", (7, 2), packed(11, seed=6), some(7, 1, 2, keys=2), IN_A_ROW))],
    *[case for label, (args, options) in BLOCKED.items() for case in (
        Case("npu_block_sparse_attention", args, block_attention, {**options, "softmax_lse_flag": 1, "inner_precise": 0}, grad=(0, 1, 2),
             label=label),
        Case("npu_block_sparse_attention_backward", block_backward(*args, **options), block_gradients, label=label))],
    *[Case("npu_sparse_lightning_indexer_grad_kl_loss", taught(*args, **options), align, options, label=label)
      for label, args, options in (("six heads", (A[0], A[1][:, :, :1], *I, some(1, 2, 1, 3, keys=5)), {}),
                                   ("rotary parts", (A[0], A[1][:, :, :1], *I, some(1, 2, 1, 2, keys=4)), ROPES),
                                   ("three in a row", (rand(7, 2, 8), rand(11, 1, 8), *R, some(7, 1, 2, keys=2)), ROW_ENDS))],
    *[Case("npu_dense_lightning_indexer_grad_kl_loss", taught(*args, None, **options), dense_align, options, label=label)
      for label, args, options in (("six heads", (*A[:2], *I), {}), ("rotary parts", (A[0], A[1][:, :, :1], *I), ROPES),
                                   ("three in a row", (rand(7, 2, 8), rand(11, 1, 8), *R), ROW_ENDS))],
]

TOKENS, WEIGHT = rand(30, 2, 3), rand(6, 2)
ENDS = {"one window": {"actual_seq_len": [6]}, "every token": {"actual_seq_len": [9, 30]}, "four sequences": {"actual_seq_len": [7, 8, 15,
    30]}}
STRIDES = {"one window": 3, "every token": 1, "four sequences": 3}
COMPRESS = []
for label, ends in ENDS.items():
    windows = compress(TOKENS, WEIGHT, 6, STRIDES[label], **ends)
    COMPRESS.append(Case("npu_nsa_compress", (TOKENS, WEIGHT, 6, STRIDES[label]), compress, ends, grad=(0, 1), label=label))
    COMPRESS.append(Case("npu_nsa_compress_grad", (rand(*windows.shape, seed=4), TOKENS, WEIGHT, 6, STRIDES[label]), compress_gradients,
        ends,
                         label=label))
Q, K, V = rand(9, 2, 4), rand(14, 1, 4), rand(14, 1, 3)
CMP = {"actual_seq_qlen": [2, 9], "actual_cmp_seq_kvlen": [5, 14], "actual_sel_seq_kvlen": [2, 6]}
SEL = {"actual_seq_qlen": [2, 9], "actual_seq_kvlen": [5, 14]}
SELECTED = {"one key head": ((Q, K, V, some(9, 1, 2, keys=2), 0.5, 2, 2, 2), SEL),
            "a sequence each": ((Q[:3], K[:6], V[:6], some(3, 1, 1, keys=2), 0.5, 2, 1, 1), {"actual_seq_qlen": [1, 2, 3],
                                                                                            "actual_seq_kvlen": [2, 4, 6]}),
            "large blocks": ((Q, K, V, some(9, 1, 1, keys=1), -0.5, 2, 8, 1), SEL)}


def heads_of(layout, few):
    """The dimensions of a cache's row: heads of their own in BSND."""
    return (few, -1) if layout == "BSND" else (-1,)


NSA = [
    *COMPRESS,
    *[Case("npu_nsa_compress_infer.cache", (rand(5, 8, 2, 3), rand(b, 2), ints(*slots), b, s, 8), compress_last,
           {"block_table": TABLE, "actual_seq_len": lengths, "cache": rand(4, 2, 3)}, label=label)
      for label, b, s, slots, lengths in (("large window", 8, 4, (0, 3), [12, 16]), ("one number", 1, 1, (1, 2), [1, 5]),
                                          ("nothing written", 4, 2, (0, 1), [5, 7]))],
    *[Case("npu_nsa_compress_attention", (Q, K, V, 0.5, 2, BLOCK, STRIDE, SELECT, 2), compressed_attention, {**CMP, **options}, grad=grad,
           label=label) for label, options, grad in (("one key head", {}, ()), ("mask of one key head", {
               "atten_mask": torch.ones(7, 9).triu(4).bool()}, (0, 1, 2)))],
    *[Case("npu_nsa_compress_attention_infer", (rand(2, heads, size), CACHE_K, CACHE_V, scale, heads, few, select, count, 8, block, STRIDE),
           compressed_step, {"block_table": TABLE, "actual_cmp_seq_kvlen": lengths}, label=label)
      for label, heads, few, size, scale, select, count, block, lengths in (
          ("eight heads", 8, 2, 6, 0.3, SELECT, 4, BLOCK, [12, 15]), ("small blocks", 4, 2, 6, 1.0, 4, 6, BLOCK, [14, 16]),
          ("as many heads", 2, 2, 6, 0.5, SELECT, 4, STRIDE, [16, 14]))],
    *[Case("npu_nsa_select_attention", args, selected_attention, ends, grad=(0, 1, 2), label=label) for label, (args,
        ends) in SELECTED.items()],
    *[Case("npu_nsa_select_attention_grad", select_backward(*args, **ends), selected_gradients, ends, label=label)
      for label, (args, ends) in SELECTED.items()],
    *[Case("npu_nsa_select_attention_infer", (q, CACHE_K.view(5, 8, *heads_of(layout, few)), CACHE_V.view(5, 8, *heads_of(layout, few)),
        at, 0.3, heads, few, 4, at.shape[-1], 8), selected_step,
           {"block_table": TABLE, "actual_seq_kvlen": lengths, "layout": layout}, label=label)
      for label, q, at, heads, few, lengths, layout in (
          ("eight heads", rand(2, 1, 48), PICKED, 8, 2, [13, 16], "BSH"), ("one key head", rand(2, 2, 12), PICKED[:, :1], 2, 1, [16, 16],
              "TND"),
          ("short", rand(2, 1, 2, 6), torch.zeros(2, 2, 1, dtype=torch.int32), 2, 2, [1, 3], "BSND"))],
]


def edges(b, h, i, j, k, c):
    return (rand(b, h, i, k, c), rand(b, h, i, j, c), rand(b, h, i, j, c, seed=1), rand(b, h, j, k, c), rand(b, h, j, k, c, seed=1))


HIDDEN = torch.rand(1, 1, 4, 1, 3, generator=torch.Generator().manual_seed(1)) > 0.5
HIDDEN[..., 0] = False
TRIANGLES = {"one edge": (edges(1, 2, 1, 1, 1, 4), {"scale_value": 0.5}), "long": (edges(1, 1, 2, 20, 3, 4), {"scale_value": -0.3}),
             "one mask for all": (edges(2, 1, 4, 3, 2, 5), {"atten_mask": HIDDEN.expand(2, 1, 4, 1, 3).contiguous(), "scale_value": 1.0})}
FLOYD = [case for label, (tensors, options) in TRIANGLES.items() for case in (
    Case("npu_fused_floyd_attention", tensors, floyd, options, grad=(0, 1, 2, 3, 4), through=2, label=label),
    Case("npu_fused_floyd_attention_backward", floyd_backward(tensors, **options), floyd_gradients, options, label=label))]


def parts(q, k, v, cut):
    """Attention to all keys, and to those before and behind a place."""
    return attend(q, k, v), [attend(q, k[:, :, part], v[:, :, part]) for part in (slice(0, cut), slice(cut, None))]


def sbh(part):
    return join(part[0], "SBH").contiguous(), *(eight(t) for t in part[1:])


def tnd(part):
    return part[0][0].transpose(0, 1).contiguous(), *(eight(t[0].transpose(0, 1)) for t in part[1:])


def flat(part):
    return (part[1] + part[2].log()).flatten(), part[0].flatten(0, 2)


BATCHED = parts(rand(3, 2, 5, 8), rand(3, 2, 7, 8), rand(3, 2, 7, 8, seed=1), 1)
SINGLE = parts(rand(1, 4, 1, 8), rand(1, 4, 6, 8), rand(1, 4, 6, 8, seed=1), 5)
RAGGED = parts(rand(1, 3, 6, 16), rand(1, 3, 4, 16), rand(1, 3, 4, 16, seed=1), 2)
MERGING = [
    Case("npu_ring_attention_update", (*sbh(BATCHED[1][0]), *sbh(BATCHED[1][1])), lambda *_: sbh(BATCHED[0]), label="three batches"),
    Case("npu_ring_attention_update", (*sbh(SINGLE[1][1]), *sbh(SINGLE[1][0])), lambda *_: sbh(SINGLE[0]),
        label="one row, the later part first"),
    Case("npu_ring_attention_update", (*tnd(RAGGED[1][0]), *tnd(RAGGED[1][1])), lambda *_, **__: tnd(RAGGED[0]),
         {"input_layout": "TND", "input_softmax_layout": "TND", "actual_seq_qlen": torch.tensor([0, 1, 3, 6])}, label="three sequences"),
    *[Case("npu_attention_update", ([flat(p)[0] for p in cut], [flat(p)[1] for p in cut], kind), lambda lse, outs, kind, whole=whole: (
        whole[0].flatten(0, 2), (whole[1] + whole[2].log()).flatten() if kind else None), label=label)
      for label, (whole, cut), kind in (("three batches", BATCHED, 1), ("one row", SINGLE, 0), ("sixteen", RAGGED, 1))],
    Case("npu_attention_update", ([flat(WHOLE)[0]], [flat(WHOLE)[1]], 1), lambda lse, outs, kind: (outs[0], lse[0]), label="one part"),
]
CASES = [*INDEXER, *ATTENTION, *NSA, *FLOYD, *MERGING]
# Why the official client cannot be asked, or does not agree.
NOT_OFFICIAL = {"npu_nsa_compress_attention-one key head gradient": "it asks for attention of sparse mode 1 without its mask"}
