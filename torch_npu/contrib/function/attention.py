"""Pieces of attention blocks."""

import math

import torch

__all__ = [
    "dropout_with_byte_mask",
    "fuse_add_softmax_dropout",
    "matmul_transpose",
    "npu_fused_attention",
    "npu_fused_attention_with_layernorm",
]


def matmul_transpose(tensor1: torch.Tensor, tensor2: torch.Tensor) -> torch.Tensor:
    """tensor1 @ tensor2 with its last two dimensions exchanged."""
    return torch.matmul(tensor1, tensor2.transpose(-2, -1))


def fuse_add_softmax_dropout(training, dropout, attn_mask, attn_scores, attn_head_size, p=0.5, dim=-1):
    """dropout(softmax(attn_scores / sqrt(attn_head_size) + attn_mask)); `dropout` is the module that the model uses."""
    probs = torch.softmax(attn_scores / math.sqrt(attn_head_size) + attn_mask, dim)
    return dropout(probs) if dropout is not None else torch.nn.functional.dropout(probs, p, training)


def dropout_with_byte_mask(input1, p=0.5, training=True, inplace=False):
    """torch.nn.functional.dropout."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    result = torch.ops.npu.dropout_with_byte_mask(input1, p, training)
    return input1.copy_(result) if inplace else result


def npu_fused_attention(hidden_states, attention_mask, query_kernel, key_kernel, value_kernel, query_bias, key_bias, value_bias,
                        scale=1, keep_prob=0):
    """Self attention with projections: dropout(softmax(scale * q k' + mask)) v, [batch * sequence, hidden].

    Heads and sequence length are those of attention_mask [batch, heads, sequence, sequence]; keep_prob 0 means no dropout.
    """
    heads, length = attention_mask.shape[1], attention_mask.shape[-1]
    projections = ((query_kernel, query_bias), (key_kernel, key_bias), (value_kernel, value_bias))
    q, k, v = (
        torch.nn.functional.linear(hidden_states, kernel, bias).view(-1, length, heads, kernel.shape[0] // heads).transpose(1, 2)
        for kernel, bias in projections
    )
    return torch.ops.npu.npu_fused_attention_score(q, k, v, attention_mask, scale, keep_prob or 1.0)


def npu_fused_attention_with_layernorm(hidden_states, attention_mask, query_kernel, key_kernel, value_kernel, query_bias, key_bias,
                                       value_bias, gamma=None, beta=None, scale=1, keep_prob=0):
    """npu_fused_attention of the normalised input; returns (result, normalised input)."""
    normal = torch.nn.functional.layer_norm(hidden_states, hidden_states.shape[-1:], gamma, beta)
    out = npu_fused_attention(normal, attention_mask, query_kernel, key_kernel, value_kernel, query_bias, key_bias, value_bias, scale,
                              keep_prob)
    return out, normal
