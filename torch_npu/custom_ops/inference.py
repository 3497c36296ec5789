"""Attention for inference: a prompt at once, one new token against a cache, and the two under one name."""

import torch

from torch_npu.custom_ops import refuse
from torch_npu.custom_ops.attention_core import NO_LIMIT, attend, from_bnsd, kv_heads, sparse_mask, to_bnsd


def _lengths_mask(lengths, batch: int, size: int, device):
    """[batch, size], True past the length of each; one length stands for all."""
    ends = torch.tensor(list(lengths) * (batch if len(lengths) == 1 else 1), device=device)
    return torch.arange(size, device=device) >= ends.unsqueeze(1)


def _infer(query, key, value, layout, heads, key_value_heads, scale, atten_mask, pse, sparse_mode, before, after, q_lengths,
           kv_lengths):
    """(result, logsumexp of the scores). Rows past a query's length are zeros, keys past their length are not seen."""
    q_layout, out_layout = (layout.split("_") * 2)[:2]
    few = key_value_heads or kv_heads(query, key, q_layout, heads)
    q = to_bnsd(query, q_layout, heads)
    k, v = to_bnsd(key, q_layout, few), to_bnsd(value, q_layout, few)
    batch, _, rows, _ = q.shape
    mask = sparse_mask(sparse_mode, rows, k.shape[2], before, after, atten_mask, None, batch, q.device)
    if kv_lengths:
        past = _lengths_mask(kv_lengths, batch, k.shape[2], q.device)[:, None, None, :]
        mask = past if mask is None else mask | past
    if q_lengths:
        past = _lengths_mask(q_lengths, batch, rows, q.device)[:, None, :, None]
        mask = past if mask is None else mask | past
    out, top, total = attend(q, k, v, scale, mask=mask, bias=pse)
    return from_bnsd(out, out_layout), top + total.log()


def npu_prompt_flash_attention(query, key, value, *, padding_mask=None, atten_mask=None, pse_shift=None, actual_seq_lengths=None,
                               deq_scale1=None, quant_scale1=None, deq_scale2=None, quant_scale2=None, quant_offset2=None,
                               num_heads=1, scale_value=1.0, pre_tokens=NO_LIMIT, next_tokens=0, input_layout="BSH",
                               num_key_value_heads=0, actual_seq_lengths_kv=None, sparse_mode=0):
    """softmax(mask(scale * q k' + pse_shift)) v."""
    refuse("npu_prompt_flash_attention", padding_mask=padding_mask is not None, deq_scale1=deq_scale1 is not None,
           quant_scale1=quant_scale1 is not None, deq_scale2=deq_scale2 is not None, quant_scale2=quant_scale2 is not None,
           quant_offset2=quant_offset2 is not None)
    return _infer(query, key, value, input_layout, num_heads, num_key_value_heads, scale_value, atten_mask, pse_shift, sparse_mode,
                  pre_tokens, next_tokens, actual_seq_lengths, actual_seq_lengths_kv)[0]


def _from_pages(cache, block_table):
    """[batch, length, hidden] of a paged cache [blocks, block size, hidden]; -1 stands for a block that is not there."""
    return cache[block_table.clamp(min=0).long()].flatten(1, 2)


def npu_incre_flash_attention(query, key, value, *, padding_mask=None, atten_mask=None, pse_shift=None, actual_seq_lengths=None,
                              antiquant_scale=None, antiquant_offset=None, block_table=None, dequant_scale1=None,
                              quant_scale1=None, dequant_scale2=None, quant_scale2=None, quant_offset2=None,
                              kv_padding_size=None, num_heads=1, scale_value=1.0, input_layout="BSH", num_key_value_heads=0,
                              block_size=0, inner_precise=1):
    """One query against a cache whose filled lengths are actual_seq_lengths; block_table makes the cache a paged one."""
    refuse("npu_incre_flash_attention", padding_mask=padding_mask is not None, antiquant_scale=antiquant_scale is not None,
           antiquant_offset=antiquant_offset is not None, dequant_scale1=dequant_scale1 is not None,
           quant_scale1=quant_scale1 is not None, dequant_scale2=dequant_scale2 is not None,
           quant_scale2=quant_scale2 is not None, quant_offset2=quant_offset2 is not None,
           kv_padding_size=kv_padding_size is not None)
    if block_table is not None:
        if input_layout != "BSH":
            raise ValueError("a paged cache needs input_layout BSH")
        key, value = _from_pages(key, block_table), _from_pages(value, block_table)
    return _infer(query, key, value, input_layout, num_heads, num_key_value_heads, scale_value, atten_mask, pse_shift, 0, NO_LIMIT,
                  NO_LIMIT, None, actual_seq_lengths)[0]


# What npu_fused_infer_attention_score takes beyond these is quantisation, shared prefixes and rotary parts: refused by name.
_SUPPORTED = {"pse_shift", "atten_mask", "actual_seq_lengths", "actual_seq_lengths_kv", "block_table", "num_heads", "scale",
              "pre_tokens", "next_tokens", "input_layout", "num_key_value_heads", "sparse_mode", "inner_precise", "block_size",
              "antiquant_mode", "key_antiquant_mode", "value_antiquant_mode", "softmax_lse_flag"}


def npu_fused_infer_attention_score(query, key, value, **options):
    """(result, logsumexp); the second is empty unless softmax_lse_flag."""
    refuse("npu_fused_infer_attention_score",
           **{name: value is not None for name, value in options.items() if name not in _SUPPORTED})
    layout = options.get("input_layout", "BSH")
    table = options.get("block_table")
    if table is not None:
        if layout != "BSH":
            raise ValueError("a paged cache needs input_layout BSH")
        key, value = _from_pages(key, table), _from_pages(value, table)
    out, lse = _infer(query, key, value, layout, options.get("num_heads", 1), options.get("num_key_value_heads", 0),
                      options.get("scale", 1.0), options.get("atten_mask"), options.get("pse_shift"), options.get("sparse_mode", 0),
                      options.get("pre_tokens", NO_LIMIT), options.get("next_tokens", NO_LIMIT),
                      options.get("actual_seq_lengths"), options.get("actual_seq_lengths_kv"))
    return out, lse if options.get("softmax_lse_flag") else lse.new_zeros(1)
