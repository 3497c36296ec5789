"""Attention of older models: operators without an aclnn name, composed."""

import torch

from torch_npu.custom_ops import refuse
from torch_npu.custom_ops.dropout import bits_of, packed


def _refuse_transposes(operator, query_transpose, key_transpose, value_transpose, dx_transpose, score_a=False, score_b=False):
    refuse(operator, query_transpose=query_transpose, key_transpose=key_transpose, bmm_score_transpose_a=score_a,
           bmm_score_transpose_b=score_b, value_transpose=value_transpose, dx_transpose=dx_transpose)


def _joined_heads(x):
    """[batch, heads, sequence, size] as [batch * sequence, hidden]."""
    return x.transpose(1, 2).flatten(2).flatten(0, 1)


def npu_fused_attention_score_fwd(query_layer, key_layer, value_layer, attention_mask, scale, keep_prob, query_transpose=False,
                                  key_transpose=False, bmm_score_transpose_a=False, bmm_score_transpose_b=False,
                                  value_transpose=False, dx_transpose=False):
    """BERT's attention: the mask is added; heads are joined in the result, [batch * sequence, hidden]. Also softmax and dropout mask."""
    _refuse_transposes("npu_fused_attention_score", query_transpose, key_transpose, value_transpose, dx_transpose, bmm_score_transpose_a,
                       bmm_score_transpose_b)
    probs = torch.softmax(query_layer @ key_layer.transpose(-1, -2) * scale + attention_mask, -1)
    kept = torch.rand(probs.shape, device=probs.device) < keep_prob if keep_prob < 1 else torch.ones_like(probs, dtype=torch.bool)
    dropped = probs * kept / keep_prob if keep_prob > 0 else probs * 0.0
    return _joined_heads(dropped @ value_layer), probs, kept.flatten().to(torch.uint8)


def npu_fused_attention_score(query_layer, key_layer, value_layer, attention_mask, scale, keep_prob, query_transpose=False,
                              key_transpose=False, bmm_score_transpose_a=False, bmm_score_transpose_b=False,
                              value_transpose=False, dx_transpose=False):
    return npu_fused_attention_score_fwd(query_layer, key_layer, value_layer, attention_mask, scale, keep_prob, query_transpose,
                                         key_transpose, bmm_score_transpose_a, bmm_score_transpose_b, value_transpose, dx_transpose)[0]


def npu_fused_attention_score_backward(grad_output, softmax_output, query_layer, key_layer, value_layer, mask, scale, keep_prob,
                                       query_transpose=False, key_transpose=False, value_transpose=False, dx_transpose=False):
    """(query, key, value), in their shapes."""
    _refuse_transposes("npu_fused_attention_score_backward", query_transpose, key_transpose, value_transpose, dx_transpose)
    batch, heads, length, size = query_layer.shape
    grad = grad_output.reshape(batch, length, heads, size).transpose(1, 2)
    kept = mask.flatten()[: softmax_output.numel()].view_as(softmax_output).to(softmax_output.dtype)
    kept = kept / keep_prob if keep_prob > 0 else kept * 0.0
    d_probs = grad @ value_layer.transpose(-1, -2) * kept
    d_scores = torch.ops.aten._softmax_backward_data(d_probs, softmax_output, -1, softmax_output.dtype) * scale
    return d_scores @ key_layer, d_scores.transpose(-1, -2) @ query_layer, (softmax_output * kept).transpose(-1, -2) @ grad


def npu_fused_attention_score_grad(grad_output, softmax_output, query_layer, key_layer, value_layer, mask, scale, keep_prob,
                                   query_transpose=False, key_transpose=False, value_transpose=False, dx_transpose=False):
    """The same with joined heads, [batch * sequence, hidden]."""
    grads = npu_fused_attention_score_backward(grad_output, softmax_output, query_layer, key_layer, value_layer, mask, scale, keep_prob,
                                               query_transpose, key_transpose, value_transpose, dx_transpose)
    return tuple(_joined_heads(grad) for grad in grads)


def npu_fused_attention_qkv_grad(grad_output_query, grad_output_key, grad_output_value, query_kernel, key_kernel, value_kernel,
                                 hidden_states, grad_output_ln):
    """[hidden states, three kernels, three biases] of hidden_states @ kernel + bias; grad_output_ln comes to the first."""
    grads, kernels = (grad_output_query, grad_output_key, grad_output_value), (query_kernel, key_kernel, value_kernel)
    d_hidden = grad_output_ln + sum(grad @ kernel.t() for grad, kernel in zip(grads, kernels))
    return [d_hidden, *(hidden_states.t() @ grad for grad in grads), *(grad.sum(0) for grad in grads)]


def npu_multi_head_attention(query, key, value, query_weight, key_weight, value_weight, attn_mask, out_proj_weight, query_bias,
                             key_bias, value_bias, out_proj_bias, dropout_mask, attn_head_num, attn_dim_per_head, src_len,
                             tgt_len, dropout_prob, softmax_use_float):
    """Projections, attention with an added mask, output projection.

    Returns (y, packed dropout mask, projected and scaled query, key, value, softmax, dropped softmax, context). A mask that is given is
    packed, or has a number for each score.
    """
    linear = torch.nn.functional.linear

    def split(x, weight, bias, length):
        return linear(x, weight, bias).view(-1, length, attn_head_num, attn_dim_per_head).transpose(1, 2)

    q = split(query, query_weight, query_bias, tgt_len) * attn_dim_per_head**-0.5
    k = split(key, key_weight, key_bias, src_len)
    v = split(value, value_weight, value_bias, src_len)
    scores = q @ k.transpose(-1, -2) + attn_mask
    probs = torch.softmax(scores.float() if softmax_use_float and scores.element_size() < 4 else scores, -1)
    if dropout_mask is None:
        kept = torch.rand(probs.shape, device=probs.device) >= dropout_prob
    else:
        kept = _kept(dropout_mask, probs)
    dropped = (probs * kept / (1.0 - dropout_prob) if dropout_prob < 1 else probs * 0.0).to(query.dtype)
    context = _joined_heads(dropped @ v)
    return linear(context, out_proj_weight, out_proj_bias), packed(kept), q, k, v, probs, dropped, context


def _kept(mask, probs):
    if mask.numel() == probs.numel():
        return mask.view_as(probs) != 0
    if mask.dtype != torch.uint8 or mask.numel() * 8 < probs.numel():
        raise ValueError(f"npu_multi_head_attention: dropout_mask has {mask.numel()} numbers, expected {probs.numel()}, or as many bits")
    return bits_of(mask, probs.shape)


def npu_multi_head_attention_backward(query, key, value, query_weight, key_weight, value_weight, out_proj_weight, query_bias, key_bias,
                                      value_bias, out_proj_bias, query_res, key_res, value_res, attn_scores, attn_res, context, y_grad,
                                      dropout_mask, attn_head_num, attn_dim_per_head, src_len, tgt_len, dropout_prob, softmax_use_float):
    """Gradients of the weights (query, key, value, output), of query, key, value, and of the four biases, [1, hidden].

    query_bias, key_bias, value_bias, out_proj_bias, src_len and softmax_use_float are not needed: the saved results have their effect.
    """
    d_context = (y_grad @ out_proj_weight).view(-1, tgt_len, attn_head_num, attn_dim_per_head).transpose(1, 2)
    d_value = attn_res.transpose(-1, -2) @ d_context
    kept = _kept(dropout_mask, attn_scores).to(attn_scores.dtype)
    d_probs = (d_context @ value_res.transpose(-1, -2)).to(attn_scores.dtype) * kept / (1.0 - dropout_prob)
    d_scores = torch.ops.aten._softmax_backward_data(d_probs, attn_scores, -1, attn_scores.dtype).to(query.dtype)
    d_query, d_key = d_scores @ key_res * attn_dim_per_head**-0.5, d_scores.transpose(-1, -2) @ query_res
    projections = [(_joined_heads(d_query), query, query_weight), (_joined_heads(d_key), key, key_weight),
                   (_joined_heads(d_value), value, value_weight)]
    return (*(grad.t() @ x for grad, x, _ in projections), y_grad.t() @ context, *(grad @ weight for grad, _, weight in projections),
            *(grad.sum(0, keepdim=True) for grad, _, _ in projections), y_grad.sum(0, keepdim=True))
