"""Operators torch.ops.atb.*, which the official plugin runs on a library of its own (ATB): here each is one of torch.ops.npu.

Lengths of sequences come as CPU tensors or lists: the launch needs their numbers.
"""

from itertools import accumulate

import torch

from torch_npu.custom_ops import refuse
from torch_npu.custom_ops.atb_attention import _apart, attend, attend_one_token

npu = torch.ops.npu


def _npu_reshape_and_cache(key, value, key_cache, value_cache, slot_indices):
    """Writes each token's key and value at its slot of caches [blocks, tokens of a block, heads, size]."""
    npu.npu_scatter_pa_kv_cache(key, value, key_cache, value_cache, slot_indices, cache_mode="Norm")


def _npu_reshape_and_cache_siso(key, key_cache, slot_indices):
    npu.npu_scatter_pa_cache(key, slot_indices, key_cache=key_cache)


def npu_paged_cache_load_out(key_cache, value_cache, block_table, context_lens, *, seq_starts=None, cumsum=False, key, value):
    """The tokens of each sequence in a row, from the block of seq_starts on."""
    npu.npu_gather_pa_kv_cache(
        key_cache, value_cache, block_table, context_lens, key, value, seq_offset=seq_starts, is_seq_lens_cumsum=cumsum
    )
    return key, value


def npu_paged_cache_load(key_cache, value_cache, block_table, context_lens, *, seq_starts=None, cumsum=False):
    """Waits for the device: the number of tokens is the sum of context_lens."""
    tokens = int(context_lens[-1] if cumsum else context_lens.sum()) if context_lens.numel() else 0
    key, value = (cache.new_empty(tokens, *cache.shape[2:]) for cache in (key_cache, value_cache))
    return npu_paged_cache_load_out(
        key_cache, value_cache, block_table, context_lens, seq_starts=seq_starts, cumsum=cumsum, key=key, value=value
    )


def _paged_attention(query, key_cache, value_cache, num_kv_heads, num_heads, scale_value, block_table, lengths, out):
    """One token of each sequence, [tokens, heads, size] or in a row, against caches [blocks, tokens of a block, heads, size]."""
    query, out = (_apart("_npu_paged_attention", name, t, num_heads) for name, t in (("query", query), ("out", out)))
    caches = (key_cache.flatten(2), value_cache.flatten(2))
    attend_one_token(query, *caches, num_heads, num_kv_heads, scale_value, block_table, key_cache.shape[1], lengths, out)


def _npu_paged_attention(
    query, key_cache, value_cache, num_kv_heads, num_heads, scale_value, block_table, context_lens, out, *, workspace=None
):
    _paged_attention(query, key_cache, value_cache, num_kv_heads, num_heads, scale_value, block_table, context_lens.tolist(), out)


def _npu_paged_attention_v2_out(
    query,
    key_cache,
    block_table,
    context_lens,
    *,
    value_cache=None,
    mask=None,
    num_kv_heads=0,
    num_heads=0,
    scale_value=1.0,
    mask_type=0,
    workspace=None,
    out,
):
    refuse("_npu_paged_attention_v2", value_cache_None=value_cache is None, mask=mask is not None, mask_type=mask_type != 0)
    _paged_attention(query, key_cache, value_cache, num_kv_heads, num_heads, scale_value, block_table, list(context_lens), out)
    return out


def _npu_paged_attention_get_workspace(query, *_):
    """Empty: a launch takes its workspace from the caching allocator."""
    return query.new_empty(0, dtype=torch.uint8)


def _npu_paged_attention_v2_get_workspace(query, *_, **__):
    return query.new_empty(0, dtype=torch.uint8)


def _npu_flash_attention_unpad(query, key, value, seq_len, scale_value, num_heads, num_kv_heads, out):
    """Sequences in a row, [tokens, heads, size], each against itself."""
    ends = list(accumulate(seq_len.tolist()))
    attend(query, key, value, num_heads, num_kv_heads, scale_value, ends, ends, out)


def _npu_flash_attention_unpad_v2(query, key, value, seq_len, scale_value, num_heads, num_kv_heads, *, kernel_type=0, out):
    """kernel_type asks for more precision than the device's default (1) or for less (2); sums are float32 in any case."""
    refuse("_npu_flash_attention_unpad_v2", kernel_type=kernel_type not in (None, 0, 1, 2))
    _npu_flash_attention_unpad(query, key, value, seq_len, scale_value, num_heads, num_kv_heads, out)


def _npu_rotary_embedding(positions, query, key, head_size, cos_sin_cache, is_neox_style):
    """Rotates [tokens, heads * head_size] in place, by halves or by pairs."""
    mode = "half" if is_neox_style else "interleave"
    turned = npu.npu_mrope(positions.flatten(), query.flatten(1), key.flatten(1), cos_sin_cache, head_size, rotary_mode=mode)
    for tensor, result in zip((query, key), turned):
        tensor.copy_(result.view_as(tensor))
