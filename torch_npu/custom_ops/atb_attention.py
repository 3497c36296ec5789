"""Masked attention of torch.ops.atb.*: each is torch.ops.npu.npu_fused_infer_attention_score over sequences in a row.

Tokens are [tokens, heads, size] or [tokens, heads * size]. What a mask holds depends on the operator:

- over keys in a row (_npu_flash_attention, _v3), float16 is added to the scores; another type holds 1 where a key is hidden, and
  -3e38 times it is added. (_v2 with ALiBi adds every type.)
- over pages (_npu_paged_attention_splitfuse), every type is added: -10000 or -inf hides.
- a triangle over pages (_qlens, _prefix_v2, _splitfuse_v2) stands for causal attention up to the last token, whatever its size; as in
  npu_fused_infer_attention_score, its numbers are not read.

A mask may lie in blocks of 16 columns, (1, columns / 16, rows, 16), as may caches: (blocks, heads * size / 16, tokens of a block, 16).
"""

from itertools import accumulate, groupby

import torch

from torch_npu.custom_ops import refuse

npu = torch.ops.npu
_HIDES = -3e38
_PATTERN = (2048, 2048)  # of npu_fused_infer_attention_score's sparse modes


def _lengths(operator, name, given, sequences=None):
    """One number for each sequence. A tensor of the device is waited for."""
    if isinstance(given, torch.Tensor):
        if given.dim() != 1:
            raise ValueError(f"{operator}: {name} has {given.dim()} dimensions, expected one length for each sequence")
        given = given.tolist()
    found = [int(length) for length in given]
    if min(found, default=0) < 0:
        raise ValueError(f"{operator}: {name} has the negative length {min(found)}")
    if sequences is not None and len(found) != sequences:
        raise ValueError(f"{operator}: {name} has {len(found)} lengths, expected {sequences}, one for each sequence")
    return found


def _of_rows(operator, seq_len, query):
    lengths = _lengths(operator, "seq_len", seq_len)
    if sum(lengths) > len(query):
        raise ValueError(f"{operator}: seq_len adds up to {sum(lengths)} tokens, more than the {len(query)} of query")
    return lengths


def _apart(operator, name, tokens, heads):
    if tokens.dim() == 3 and tokens.shape[1] == heads:
        return tokens
    if tokens.dim() == 2 and heads > 0 and tokens.shape[1] % heads == 0:
        return tokens.unflatten(1, (heads, -1))
    raise ValueError(f"{operator}: {name} has the shape {tuple(tokens.shape)}, expected (tokens, {heads} heads, size)")


def _pages(operator, name, cache, heads, size):
    """A cache as npu_fused_infer_attention_score takes it, and the number of tokens of a block."""
    shape = tuple(cache.shape)
    if len(shape) == 3 and shape[2] == heads * size:
        return cache, shape[1]
    if len(shape) == 4 and shape[2:] == (heads, size):
        return cache.flatten(2), shape[1]
    if len(shape) == 4 and shape[3] == 16 and shape[1] * 16 == heads * size and size % 16 == 0:
        return cache.unflatten(1, (heads, -1)), shape[2]
    raise ValueError(f"{operator}: {name} has the shape {shape}, expected (blocks, tokens of a block, {heads} heads, {size})")


def _unblocked(operator, mask):
    """[rows, columns], or more dimensions before them."""
    if mask.dim() == 4:
        if mask.shape[0] != 1 or mask.shape[3] != 16:
            raise ValueError(f"{operator}: mask has the shape {tuple(mask.shape)}, expected (rows, columns) or (1, columns / 16, rows, 16)")
        return mask[0].transpose(0, 1).flatten(1)
    return mask


def _check_mask(operator, mask, query, rows, columns, dims):
    if mask.dtype != query.dtype:
        raise ValueError(f"{operator}: mask is {mask.dtype}, expected the type of query, {query.dtype}")
    if mask.dim() not in dims or mask.shape[-2] < rows or mask.shape[-1] < columns:
        raise ValueError(f"{operator}: mask has the shape {tuple(mask.shape)}, expected at least {rows} rows and {columns} columns")


def attend(query, key, value, num_heads, num_kv_heads, scale_value, ends, kv_lengths, out, **options):
    """Queries in a row, which end at `ends`, into out."""
    npu.npu_fused_infer_attention_score.out(
        query,
        key,
        value,
        num_heads=num_heads,
        num_key_value_heads=num_kv_heads,
        scale=scale_value,
        input_layout="TND",
        actual_seq_lengths=ends,
        actual_seq_lengths_kv=kv_lengths,
        out=[out, query.new_empty(0, dtype=torch.float32)],
        **options,
    )


def attend_one_token(query, key, value, num_heads, num_kv_heads, scale_value, block_table, block_size, kv_lengths, out):
    """Of each sequence, [tokens, heads, size], against paged caches."""
    npu.npu_fused_infer_attention_score.out(
        query.unsqueeze(2),
        key,
        value,
        num_heads=num_heads,
        num_key_value_heads=num_kv_heads,
        scale=scale_value,
        input_layout="BNSD",
        block_table=block_table,
        block_size=block_size,
        actual_seq_lengths_kv=kv_lengths,
        out=[out.unsqueeze(2), query.new_empty(0, dtype=torch.float32)],
    )


def _in_a_row(operator, query, key, value, lengths, bias, scale_value, num_heads, num_kv_heads, out):
    """Sequences that each see themselves; bias is (sequences or 1, heads or 1, rows, columns)."""
    if bias.shape[0] not in (1, len(lengths)):
        raise ValueError(f"{operator}: mask is of {bias.shape[0]} sequences, expected 1 or {len(lengths)}")
    ends = list(accumulate(lengths))
    query, out = _apart(operator, "query", query, num_heads), _apart(operator, "out", out, num_heads)
    key, value = _apart(operator, "key", key, num_kv_heads), _apart(operator, "value", value, num_kv_heads)
    attend(query, key, value, num_heads, num_kv_heads, scale_value, ends, ends, out, pse_shift=bias)


def _added(mask, longest):
    return mask if mask.dtype == torch.float16 else mask[..., :longest, :longest] * _HIDES


def _npu_flash_attention(query, key, value, mask, seq_len, scale_value, num_heads, num_kv_heads, out):
    """The mask is (rows, columns), or has one of them for each sequence."""
    operator, lengths = "_npu_flash_attention", _of_rows("_npu_flash_attention", seq_len, query)
    if not sum(lengths):
        return
    longest, mask = max(lengths), _unblocked(operator, mask)
    _check_mask(operator, mask, query, longest, longest, (2, 3))
    bias = _added(mask if mask.dim() == 3 else mask.unsqueeze(0), longest).unsqueeze(1)
    _in_a_row(operator, query, key, value, lengths, bias, scale_value, num_heads, num_kv_heads, out)


def _npu_flash_attention_v2_out(
    query, key, value, seq_len, *, mask=None, slopes=None, kernel_type=0, mask_type=2, scale_value=1.0, num_heads=0, num_kv_heads=0, out
):
    """Positions by ALiBi: the mask holds them, (heads, rows, columns) or (sequences, heads, rows, columns), and is added."""
    operator = "_npu_flash_attention_v2"
    refuse(operator, mask_None=mask is None, slopes=slopes is not None, kernel_type=kernel_type not in (0, 1), mask_type=mask_type != 2)
    lengths = _of_rows(operator, seq_len, query)
    if sum(lengths):
        _check_mask(operator, mask, query, max(lengths), max(lengths), (3, 4))
        bias = mask if mask.dim() == 4 else mask.unsqueeze(0)
        _in_a_row(operator, query, key, value, lengths, bias, scale_value, num_heads, num_kv_heads, out)
    return out


def _stretched(tile, length):
    """A pattern for more tokens than it has: what two tokens get depends on their distance, beyond the tile on its outermost."""
    size = len(tile)
    if length <= size:
        return tile
    before, after = tile[:, 0].flip(0), tile[0, 1:]
    ends = (before[:1].expand(length - size), before, after, tile[0, -1:].expand(length - size))
    return torch.cat(ends).unfold(0, length, 1).flip(0)


def _npu_flash_attention_v3(query, key, value, mask, seq_len, scale_value, num_heads, num_kv_heads, *, mask_type=3, out):
    """The mask is the pattern of the first tokens, which longer sequences continue: a triangle, or zeros to see every key."""
    operator = "_npu_flash_attention_v3"
    refuse(operator, mask_type=mask_type not in (None, 3))
    lengths = _of_rows(operator, seq_len, query)
    if not sum(lengths):
        return
    tile = _unblocked(operator, mask)
    _check_mask(operator, tile, query, 1, 1, (2,))
    if tile.shape[0] != tile.shape[1]:
        raise ValueError(f"{operator}: mask has {tile.shape[0]} rows and {tile.shape[1]} columns, expected as many of both")
    bias = _added(_stretched(tile, max(lengths)), max(lengths))[None, None]
    _in_a_row(operator, query, key, value, lengths, bias, scale_value, num_heads, num_kv_heads, out)


def _over_pages(operator, query, key_cache, value_cache, block_table, context_lens, seq_len, num_heads, num_kv_heads, out):
    """Query, result and caches as they are launched, options of the caches, lengths of queries and keys."""
    lengths = _of_rows(operator, seq_len, query)
    context = _lengths(operator, "context_lens", context_lens, len(lengths))
    query, out = _apart(operator, "query", query, num_heads), _apart(operator, "out", out, num_heads)
    key, size = _pages(operator, "key_cache", key_cache, num_kv_heads, query.shape[2])
    value, _ = _pages(operator, "value_cache", value_cache, num_kv_heads, out.shape[2])
    return query, out, key, value, {"block_table": block_table, "block_size": size}, lengths, context


def _causal(operator, pattern, scale_value, query, key_cache, value_cache, block_table, context_lens, seq_len, heads, kv_heads, out):
    """pattern() is made if there is something to compute."""
    query, out, key, value, pages, lengths, context = _over_pages(
        operator, query, key_cache, value_cache, block_table, context_lens, seq_len, heads, kv_heads, out
    )
    if sum(lengths):
        options = {**pages, "atten_mask": pattern(), "sparse_mode": 3}
        attend(query, key, value, heads, kv_heads, scale_value, list(accumulate(lengths)), context, out, **options)


def _triangle(query):
    """Made at each call: what is kept would have to outlive the memory of captures and pools that it was made in."""
    return query.new_ones(_PATTERN, dtype=torch.bool).triu_(1)


def _npu_flash_attention_qlens(
    query, key_cache, value_cache, block_table, mask, seq_len, context_lens, num_kv_heads, num_heads, scale_value, out
):
    """The last seq_len tokens of context_lens, whose keys are all in the caches."""
    tokens = (query, key_cache, value_cache, block_table, context_lens, seq_len, num_heads, num_kv_heads, out)
    _causal("_npu_flash_attention_qlens", lambda: _triangle(query), scale_value, *tokens)


def _npu_flash_attention_prefix_v2_out(
    query,
    key_cache,
    value_cache,
    block_table,
    mask,
    seq_len,
    context_lens,
    *,
    slopes=None,
    kernel_type=1,
    mask_type=3,
    num_kv_heads=0,
    num_heads=0,
    scale_value=1.0,
    out,
):
    operator = "_npu_flash_attention_prefix_v2"
    refuse(operator, slopes=slopes is not None, kernel_type=kernel_type not in (0, 1), mask_type=mask_type != 3)
    tokens = (query, key_cache, value_cache, block_table, context_lens, seq_len, num_heads, num_kv_heads, out)
    _causal(operator, lambda: _triangle(query), scale_value, *tokens)
    return out


def _npu_paged_attention_splitfuse(
    query, key_cache, value_cache, block_table, context_lens, mask, seq_len, num_kv_heads, num_heads, scale_value, out
):
    """The mask has a row for each token of the query. Neighbours with as many tokens are one launch: all, if they are equal."""
    operator = "_npu_paged_attention_splitfuse"
    query, out, key, value, pages, lengths, context = _over_pages(
        operator, query, key_cache, value_cache, block_table, context_lens, seq_len, num_heads, num_kv_heads, out
    )
    if not sum(lengths):
        return
    mask = _unblocked(operator, mask)
    _check_mask(operator, mask, query, sum(lengths), max(context), (2,))
    sequence = token = 0
    for length, group in groupby(lengths):
        count = len(list(group))
        rows, mine = slice(token, token + count * length), slice(sequence, sequence + count)
        if length:
            options = {**pages, "block_table": block_table[mine], "pse_shift": mask[rows].unflatten(0, (count, length)).unsqueeze(1)}
            ends = list(range(length, count * length + 1, length))
            attend(query[rows], key, value, num_heads, num_kv_heads, scale_value, ends, context[mine], out[rows], **options)
        sequence, token = mine.stop, rows.stop


def _npu_paged_attention_splitfuse_v2(
    query, key_cache, value_cache, block_table, context_lens, mask, seq_len, num_kv_heads, num_heads, scale_value, *, mask_type=5, out
):
    operator = "_npu_paged_attention_splitfuse_v2"
    refuse(operator, mask_type=mask_type not in (None, 5))
    if tuple(mask.shape) != _PATTERN:
        raise ValueError(f"{operator}: mask has the shape {tuple(mask.shape)}, expected {_PATTERN}")
    tokens = (query, key_cache, value_cache, block_table, context_lens, seq_len, num_heads, num_kv_heads, out)
    _causal(operator, lambda: mask.ne(0), scale_value, *tokens)


def _npu_paged_attention_mla(
    query, key_cache, num_kv_heads, num_heads, scale_value, block_table, context_lens, mla_vheadsize, out
):
    """One token of each sequence. The first mla_vheadsize numbers of a key, [blocks, tokens of a block, heads, size], are its value."""
    operator = "_npu_paged_attention_mla"
    if key_cache.dim() != 4 or key_cache.shape[2] != num_kv_heads:
        shape = tuple(key_cache.shape)
        raise ValueError(f"{operator}: key_cache has the shape {shape}, expected (blocks, tokens of a block, {num_kv_heads} heads, size)")
    if not 0 < mla_vheadsize <= key_cache.shape[3]:
        raise ValueError(f"{operator}: mla_vheadsize is {mla_vheadsize}, expected 1 to the {key_cache.shape[3]} numbers of a key")
    query, out = _apart(operator, "query", query, num_heads), _apart(operator, "out", out, num_heads)
    lengths = _lengths(operator, "context_lens", context_lens, len(query))
    if not lengths:
        return
    keys = key_cache.transpose(1, 2)
    attend_one_token(
        query, keys, keys[..., :mla_vheadsize], num_heads, num_kv_heads, scale_value, block_table, key_cache.shape[1], lengths, out
    )
