"""fairseq's multi-head attention over flattened inputs [batch * length, embedding]."""

import torch
from torch import nn

__all__ = ["MultiheadAttention"]


class MultiheadAttention(nn.Module):
    """Self attention or attention of a decoder to an encoder; returns (output [batch * target length, embedding], weights).

    Incremental decoding, added key/value rows and quantisation noise are refused when asked for.
    """

    def __init__(self, embed_dim, num_heads, kdim=None, vdim=None, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False,
                 self_attention=False, encoder_decoder_attention=False, q_noise=0.0, qn_block_size=8) -> None:
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(f"embed_dim {embed_dim} must be divisible by num_heads {num_heads}")
        if add_bias_kv or add_zero_attn or q_noise:
            raise NotImplementedError("MultiheadAttention does not support add_bias_kv, add_zero_attn and q_noise")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.dropout_prob = dropout
        self.self_attention, self.encoder_decoder_attention = self_attention, encoder_decoder_attention
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias)
        self.k_proj = nn.Linear(kdim or embed_dim, embed_dim, bias)
        self.v_proj = nn.Linear(vdim or embed_dim, embed_dim, bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for projection in (self.q_proj, self.k_proj, self.v_proj, self.out_proj):
            nn.init.xavier_uniform_(projection.weight)
            if projection.bias is not None:
                nn.init.zeros_(projection.bias)

    def forward(self, query, key, value, bsz, tgt_len, s_len, key_padding_mask=None, incremental_state=None, need_weights=True,
                static_kv=False, attn_mask=None, before_softmax=False, need_head_weights=False):
        if incremental_state is not None or static_kv or before_softmax:
            raise NotImplementedError("MultiheadAttention does not support incremental_state, static_kv and before_softmax")
        mask = torch.zeros(1, 1, tgt_len, s_len, dtype=query.dtype, device=query.device)
        if attn_mask is not None:
            mask = mask + (_additive(attn_mask, query.dtype) if attn_mask.dtype == torch.bool else attn_mask)
        if key_padding_mask is not None:
            mask = mask + _additive(key_padding_mask.view(bsz, 1, 1, s_len).bool(), query.dtype)
        q, k, v, out = self.q_proj, self.k_proj, self.v_proj, self.out_proj
        results = torch.ops.npu.npu_multi_head_attention(
            query, key, value, q.weight, k.weight, v.weight, mask, out.weight, q.bias, k.bias, v.bias, out.bias, None, self.num_heads,
            self.head_dim, s_len, tgt_len, self.dropout_prob if self.training else 0.0, True)
        if not (need_weights or need_head_weights):
            return results[0], None
        weights = results[5].to(query.dtype).transpose(0, 1)
        return results[0], weights if need_head_weights else weights.mean(0)


def _additive(mask, dtype):
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(mask, torch.finfo(dtype).min / 2)
