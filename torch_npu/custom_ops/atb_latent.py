"""Attention of torch.ops.atb over latent caches, one token of each sequence: latent and rotary parts lie in tensors of their own.

Caches are (blocks, tokens of a block, heads, size), or in blocks of 16 numbers as "nzcache"; the latent part of a key is its value.
"""

import torch

from torch_npu.custom_ops import refuse
from torch_npu.custom_ops.atb_attention import _lengths, _pages

npu = torch.ops.npu
_OPERATOR = "npu_multi_head_latent_attention"


def _launch(out, lse, q_nope, q_rope, ctkv, k_rope, block_tables, context_lens, q_headnum, qk_scale, kv_headnum, mask=None, qseqlen=None,
            qk_descale=None, pv_descale=None, mask_type=None, calc_type=None, cache_mode=None):  # fmt: skip
    """lse, float32, is filled if it has room."""
    refuse(
        _OPERATOR,
        mask=mask is not None,
        qseqlen=qseqlen is not None,
        qk_descale=qk_descale is not None,
        pv_descale=pv_descale is not None,
        mask_type=mask_type not in (None, "undefined"),
        calc_type=calc_type not in (None, "calc_type_undefined", "calc_type_ring"),
        cache_mode=cache_mode not in (None, "krope_ctkv", "nzcache"),
    )
    for name, part in (("q_nope", q_nope), ("q_rope", q_rope)):
        if part.dim() != 3 or part.shape[1] != q_headnum:
            raise ValueError(f"{_OPERATOR}: {name} has the shape {tuple(part.shape)}, expected (tokens, {q_headnum} heads, size)")
    lengths = _lengths(_OPERATOR, "context_lens", context_lens, len(q_nope))
    if not lengths:
        return
    key, size = _pages(_OPERATOR, "ctkv", ctkv, kv_headnum, q_nope.shape[2])
    rope, _ = _pages(_OPERATOR, "k_rope", k_rope, kv_headnum, q_rope.shape[2])
    npu.npu_fused_infer_attention_score.out(
        q_nope.unsqueeze(2),
        key,
        key,
        query_rope=q_rope.unsqueeze(2),
        key_rope=rope,
        num_heads=q_headnum,
        num_key_value_heads=kv_headnum,
        scale=qk_scale,
        input_layout="BNSD",
        block_table=block_tables,
        block_size=size,
        actual_seq_lengths_kv=lengths,
        softmax_lse_flag=lse.numel() > 0,
        out=[out.unsqueeze(2), lse.unsqueeze(3) if lse.numel() else lse],
    )


def _no_sums(q_nope):
    return q_nope.new_empty(0, dtype=torch.float32)


def npu_multi_head_latent_attention_out(q_nope, *tokens, output, **options):
    _launch(output, _no_sums(q_nope), q_nope, *tokens, **options)
    return output


def npu_multi_head_latent_attention(q_nope, *tokens, **options):
    return npu_multi_head_latent_attention_out(q_nope, *tokens, output=torch.empty_like(q_nope), **options)


def npu_multi_head_latent_attention_lse_out(
    q_nope, q_rope, ctkv, k_rope, block_tables, context_lens, q_headnum, qk_scale, kv_headnum, return_lse, *, workspace=None, output, lse,
    **options,
):  # fmt: skip
    """lse is the logarithm of each row's sum, (tokens, heads, 1), rounded to its own type; left alone if it is not asked for.

    A workspace is not needed: a launch takes its own.
    """
    sums = q_nope.new_empty((*q_nope.shape[:2], 1), dtype=torch.float32) if return_lse else _no_sums(q_nope)
    tokens = (q_nope, q_rope, ctkv, k_rope, block_tables, context_lens, q_headnum, qk_scale, kv_headnum)
    _launch(output, sums, *tokens, **options)
    if return_lse:
        lse.copy_(sums)
    return output, lse


def npu_multi_head_latent_attention_lse(q_nope, q_rope, *tokens, workspace=None, **options):
    """Without return_lse, the second result is empty. A workspace is not needed: a launch takes its own."""
    shape = (*q_nope.shape[:2], 1) if tokens[-1] else (0,)
    lse = q_rope.new_empty(shape)
    return npu_multi_head_latent_attention_lse_out(q_nope, q_rope, *tokens, output=torch.empty_like(q_nope), lse=lse, **options)


def _npu_multi_head_latent_attention_get_workspace_lse(q_nope, *_, **__):
    """Empty: a launch takes its workspace from the caching allocator."""
    return q_nope.new_empty(0, dtype=torch.uint8)
