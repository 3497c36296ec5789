"""Attention for training: npu_fusion_attention over all layouts and sparse modes, and two older forms."""

import torch

from torch_npu.custom_ops import refuse
from torch_npu.custom_ops.attention_core import NO_LIMIT, attend, from_bnsd, kv_heads, sparse_mask, to_bnsd

_STATISTICS = 8  # row maxima and sums are repeated to the width of a hardware block


def npu_fusion_attention(query, key, value, head_num, input_layout, pse=None, padding_mask=None, atten_mask=None, scale=1.0,
                         keep_prob=1.0, pre_tockens=NO_LIMIT, next_tockens=NO_LIMIT, inner_precise=0, prefix=None,
                         actual_seq_qlen=None, actual_seq_kvlen=None, sparse_mode=0, gen_mask_parallel=True, sync=False,
                         softmax_layout="", sink=None, dropout_mask=None, seed=0, offset=0):
    """dropout(softmax(mask(scale * (q k' + pse)))) v -> (result, row maxima, row sums, empty, seed, offset, mask elements).

    TND: all sequences in one row; actual_seq_qlen and actual_seq_kvlen are the ends of each.
    """
    refuse("npu_fusion_attention", padding_mask=padding_mask is not None)
    options = {"scale": scale, "keep_prob": keep_prob, "sink": sink, "bias_before_scale": True}
    limits = (sparse_mode, pre_tockens, next_tockens, prefix)
    if input_layout == "TND":
        out, top, total = _attend_rows(query, key, value, pse, atten_mask, dropout_mask, limits, options,
                                       actual_seq_qlen, actual_seq_kvlen)
    else:
        heads = head_num
        q = to_bnsd(query, input_layout, heads)
        few = kv_heads(query, key, input_layout, heads)
        k, v = to_bnsd(key, input_layout, few), to_bnsd(value, input_layout, few)
        mode, before, after, lengths = limits
        mask = sparse_mask(mode, q.shape[2], k.shape[2], before, after, atten_mask, lengths, q.shape[0], q.device)
        out, top, total = attend(q, k, v, mask=mask, bias=pse, keep=dropout_mask, **options)
        out = from_bnsd(out, input_layout)
    width = [-1] * (top.dim() - 1) + [_STATISTICS]
    numels = 0 if keep_prob == 1.0 else query.shape[0] * head_num * top.shape[-2] * key.shape[0]
    return out, top.expand(width), total.expand(width), query.new_empty(0), seed, offset, numels


def _attend_rows(query, key, value, pse, atten_mask, keep, limits, options, q_ends, kv_ends):
    if not q_ends or not kv_ends or len(q_ends) != len(kv_ends):
        raise ValueError("layout TND needs actual_seq_qlen and actual_seq_kvlen: the ends of the sequences, one each per sequence")
    if keep is not None:
        refuse("npu_fusion_attention", dropout_mask_with_TND=True)
    mode, before, after, prefix = limits
    outs, tops, totals = [], [], []
    q_begin = kv_begin = 0
    for index, (q_end, kv_end) in enumerate(zip(q_ends, kv_ends)):
        q = query[q_begin:q_end].transpose(0, 1).unsqueeze(0)
        k, v = (t[kv_begin:kv_end].transpose(0, 1).unsqueeze(0) for t in (key, value))
        rows, columns = q.shape[2], k.shape[2]
        own = None if atten_mask is None else atten_mask[..., :rows, :columns]
        mask = sparse_mask(mode, rows, columns, before, after, own, None if prefix is None else prefix[index : index + 1], 1,
                           q.device, first=index == 0, last=index == len(q_ends) - 1)
        bias = None if pse is None else pse[index if pse.shape[0] > 1 else 0, :, :rows, :columns].unsqueeze(0)
        out, top, total = attend(q, k, v, mask=mask, bias=bias, **options)
        outs.append(out[0].transpose(0, 1))
        tops.append(top[0].transpose(0, 1))
        totals.append(total[0].transpose(0, 1))
        q_begin, kv_begin = q_end, kv_end
    return torch.cat(outs), torch.cat(tops), torch.cat(totals)


def npu_fusion_attention_v2(query, key, value, head_num, input_layout, *, pse=None, padding_mask=None, atten_mask=None,
                            query_rope=None, key_rope=None, scale=1.0, keep_prob=1.0, pre_tokens=NO_LIMIT,
                            next_tokens=NO_LIMIT, inner_precise=0, prefix=None, actual_seq_qlen=None, actual_seq_kvlen=None,
                            sparse_mode=0, gen_mask_parallel=True, sync=False, pse_type=1, q_start_idx=None, kv_start_idx=None,
                            softmax_layout="", sink=None, dropout_mask=None, seed=0, offset=0):
    """npu_fusion_attention with a rotary part beside the heads; pse_type 0 adds pse after scaling, 1 before."""
    refuse("npu_fusion_attention_v2", pse_type=pse_type not in (0, 1), q_start_idx=q_start_idx, kv_start_idx=kv_start_idx)
    if query_rope is not None:
        if input_layout in ("BSH", "SBH"):
            raise ValueError("query_rope needs a layout with a dimension for heads: BSND, BNSD or TND")
        query, key = torch.cat([query, query_rope], -1), torch.cat([key, key_rope], -1)
    if pse is not None and pse_type == 0:
        pse = pse / scale
    return npu_fusion_attention(query, key, value, head_num, input_layout, pse, padding_mask, atten_mask, scale, keep_prob,
                                pre_tokens, next_tokens, inner_precise, prefix, actual_seq_qlen, actual_seq_kvlen, sparse_mode,
                                gen_mask_parallel, sync, softmax_layout, sink, dropout_mask, seed, offset)


def npu_fusion_attention_grad(query, key, value, dy, head_num, input_layout, *, pse=None, padding_mask=None, atten_mask=None,
                              softmax_max=None, softmax_sum=None, softmax_in=None, attention_in=None, scale_value=1.0,
                              keep_prob=1.0, pre_tockens=NO_LIMIT, next_tockens=NO_LIMIT, inner_precise=0, seed=0, offset=0,
                              numels=0, prefix=None, actual_seq_qlen=None, actual_seq_kvlen=None, sparse_mode=0,
                              gen_mask_parallel=True, sync=False, softmax_layout="", sink=None):
    """(dq, dk, dv, dpse, dsink), by going forward again; the saved row statistics are not needed for that."""
    refuse("npu_fusion_attention_grad", keep_prob=keep_prob != 1.0)
    inputs = {"query": query, "key": key, "value": value, "pse": pse, "sink": sink}
    present = [name for name, tensor in inputs.items() if tensor is not None]

    def forward(*tensors):
        given = {**inputs, **dict(zip(present, tensors))}
        return npu_fusion_attention(given["query"], given["key"], given["value"], head_num, input_layout, given["pse"], padding_mask,
                                    atten_mask, scale_value, 1.0, pre_tockens, next_tockens, inner_precise, prefix,
                                    actual_seq_qlen, actual_seq_kvlen, sparse_mode, sink=given["sink"])[0]

    _, pull_back = torch.func.vjp(forward, *(inputs[name] for name in present))
    grads = dict(zip(present, pull_back(dy)))
    return tuple(grads.get(name, query.new_empty(0)) for name in inputs)


def npu_fused_attention_score(query_layer, key_layer, value_layer, attention_mask, scale, keep_prob, query_transpose=False,
                              key_transpose=False, bmm_score_transpose_a=False, bmm_score_transpose_b=False,
                              value_transpose=False, dx_transpose=False):
    """BERT's attention: the mask is added; heads are joined in the result, [batch * sequence, hidden]."""
    scores = query_layer @ key_layer.transpose(-1, -2) * scale + attention_mask
    probs = torch.dropout(torch.softmax(scores, -1), 1.0 - keep_prob, keep_prob < 1.0)
    return (probs @ value_layer).transpose(1, 2).flatten(2).flatten(0, 1)


def npu_multi_head_attention(query, key, value, query_weight, key_weight, value_weight, attn_mask, out_proj_weight, query_bias,
                             key_bias, value_bias, out_proj_bias, dropout_mask, attn_head_num, attn_dim_per_head, src_len,
                             tgt_len, dropout_prob, softmax_use_float):
    """Projections, attention with an added mask, output projection.

    Returns (y, dropout mask, projected query, key, value, scores, dropped probabilities, context).
    """
    linear = torch.nn.functional.linear

    def split(x, weight, bias, length):
        return linear(x, weight, bias).view(-1, length, attn_head_num, attn_dim_per_head).transpose(1, 2)

    q = split(query, query_weight, query_bias, tgt_len)
    k = split(key, key_weight, key_bias, src_len)
    v = split(value, value_weight, value_bias, src_len)
    scores = q @ k.transpose(-1, -2) / attn_dim_per_head**0.5 + attn_mask
    wide = softmax_use_float and scores.element_size() < 4
    probs = torch.softmax(scores.float() if wide else scores, -1).to(scores.dtype)
    if dropout_mask is None:
        dropout_mask = torch.dropout(torch.ones_like(probs), dropout_prob, dropout_prob > 0) != 0
    dropped = probs * dropout_mask.view_as(probs).to(probs.dtype) / (1.0 - dropout_prob)
    context = (dropped @ v).transpose(1, 2).flatten(2).flatten(0, 1)
    return linear(context, out_proj_weight, out_proj_bias), dropout_mask.to(torch.uint8), q, k, v, scores, dropped, context
