"""Attention of older models: operators without an aclnn name, composed."""

import torch


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
