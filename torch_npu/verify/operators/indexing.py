"""Operators that read or write where a tensor of indices or a mask says."""

import torch
from torch.nn import functional as F

from torch_npu.verify.samples import FLOAT32, FLOATS, INTEGERS, NUMBERS, Operator, f, index, mask, order

X, ROWS = f(33, 64), index(12, high=33)
FREE = order(33)  # each row once: what is written has one answer
PLACES = index(33, 5, high=64)
SPARSE, PART = f(6, 20), f(6, 20, low=-1)
PERMUTED = order(6, 20)
SORTED = f(10, low=0, high=4)


OPERATORS = [
    Operator("gather", lambda x, i: x.gather(1, i), (X, PLACES), NUMBERS),
    Operator("scatter", lambda x, i, y: x.scatter(1, i, y), (SPARSE, PERMUTED, PART), NUMBERS),
    Operator("scatter_value", lambda x, i: x.scatter(1, i[:, :5], 3), (SPARSE, PERMUTED), NUMBERS),
    Operator("scatter_add", lambda x, i, y: x.scatter_add(1, i, y), (X, PLACES, f(33, 5)), (torch.float32, *INTEGERS), loose=4),
    *[Operator(f"scatter_reduce_{kind}", lambda x, i, y, kind=kind: x.scatter_reduce(1, i, y, kind), (X, PLACES, f(33, 5)), FLOAT32,
               gradient=kind == "sum", loose=4) for kind in ("sum", "amax", "amin", "mean")],
    Operator("index_select", lambda x, i: x.index_select(0, i), (X, ROWS), NUMBERS),
    Operator("index_select_last", lambda x, i: x.index_select(1, i), (X, ROWS), NUMBERS),
    Operator("index_add", lambda x, i, y: x.index_add(0, i, y), (X, ROWS, f(12, 64)), (torch.float32, *INTEGERS), loose=4),
    Operator("index_copy", lambda x, i, y: x.index_copy(0, i, y), (X, FREE, X), NUMBERS),
    Operator("index_fill", lambda x, i: x.index_fill(0, i, 2), (X, ROWS), NUMBERS),
    Operator("index", lambda x, i: x[i], (X, ROWS), NUMBERS),
    Operator("index_two", lambda x, i, j: x[i, j], (X, ROWS, index(12, high=64)), NUMBERS),
    Operator("index_column", lambda x, i: x[:, i], (X, ROWS), NUMBERS),
    Operator("index_mask", lambda x, m: x[m], (X, mask(33, 64)), NUMBERS),
    Operator("index_mask_rows", lambda x, m: x[m], (X, mask(33)), NUMBERS),
    Operator("index_put", lambda x, i, y: x.index_put((i,), y), (X, FREE, X), NUMBERS),
    Operator("index_put_accumulate", lambda x, i, y: x.index_put((i,), y, accumulate=True), (X, ROWS, f(12, 64)), FLOAT32, loose=4),
    Operator("index_put_mask", lambda x, m: x.index_put((m,), torch.ones((), dtype=x.dtype, device=x.device)), (X, mask(33, 64)), NUMBERS),
    Operator("masked_fill", lambda x, m: x.masked_fill(m, 3), (X, mask(33, 64)), NUMBERS),
    Operator("masked_select", torch.masked_select, (X, mask(33, 64)), NUMBERS),
    Operator("masked_scatter", lambda x, m, y: x.masked_scatter(m, y), (X, mask(33, 64), X), NUMBERS),
    Operator("take", torch.take, (X, index(4, 9, high=33 * 64)), NUMBERS),
    Operator("take_along_dim", lambda x, i: x.take_along_dim(i, 1), (X, PLACES), NUMBERS),
    Operator("put", lambda x, i, y: x.put(i, y), (f(33), FREE, f(33)), FLOATS),
    Operator("nonzero", lambda m: m.nonzero(), (mask(33, 64),), FLOAT32, gradient=False),
    Operator("where_indices", lambda m: torch.where(m), (mask(33, 64),), FLOAT32, gradient=False),
    Operator("searchsorted", lambda s, x: torch.searchsorted(s.sort().values, x), (SORTED, X), FLOAT32, gradient=False),
    Operator("bucketize", lambda x, s: torch.bucketize(x, s.sort().values), (X, SORTED), FLOAT32, gradient=False),
    Operator("isin", torch.isin, (f(33, 64, low=0, high=30), f(8, low=0, high=30)), INTEGERS, gradient=False),
    Operator("F.one_hot", lambda i: F.one_hot(i, 64), (PLACES,), FLOAT32, gradient=False),
    Operator("F.embedding", lambda i, w: F.embedding(i, w), (PLACES, f(64, 16)), loose=4),
    Operator("F.embedding_padding", lambda i, w: F.embedding(i, w, padding_idx=3), (PLACES, f(64, 16)), loose=4),
    Operator("F.embedding_bag", lambda i, w: F.embedding_bag(i, w, mode="sum"), (PLACES, f(64, 16)), FLOAT32, loose=4),
    Operator("F.embedding_bag_mean", lambda i, w: F.embedding_bag(i, w, mode="mean"), (PLACES, f(64, 16)), FLOAT32, loose=4),
]
