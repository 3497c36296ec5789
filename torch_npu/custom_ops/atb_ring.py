"""Attention of torch.ops.atb whose keys arrive in turns: each call joins its part with what the calls before it made of the others.

Tokens of all sequences lie in a row, [tokens, heads, size]; latent and rotary parts of queries and keys are tensors of their own. A
result is joined by the logarithms of the sums, [heads, tokens], float32.
"""

from itertools import accumulate

import torch

from torch_npu.custom_ops.atb_attention import _lengths, _triangle

npu = torch.ops.npu
_OPERATOR = "npu_ring_mla"
# What the official plugin takes; the first is what it takes for None. Sums are float32 with either precision.
_NAMES = {
    "kernel_type": ("kernel_type_high_precision", "kernel_type_default"),
    "mask_type": ("no_mask", "mask_type_triu"),
    "input_layout": ("type_bsnd",),
    "calc_type": ("calc_type_first_ring", "calc_type_default"),
}


def _chosen(given):
    for name, accepted in _NAMES.items():
        if given[name] is not None and given[name] not in accepted:
            raise ValueError(f"{_OPERATOR}: {name} is {given[name]!r}, expected {' or '.join(map(repr, accepted))}")
    return given["mask_type"] == "mask_type_triu", given["calc_type"] == "calc_type_default"


def _of_queries_and_keys(seqlen, is_causal):
    """Lengths of the sequences: one row for both, or a row for queries and one for keys. A tensor of the device is waited for."""
    rows = seqlen.unsqueeze(0) if seqlen.dim() == 1 else seqlen
    if rows.dim() != 2 or len(rows) > 2:
        raise ValueError(f"{_OPERATOR}: seqlen has the shape {tuple(seqlen.shape)}, expected (sequences) or (2, sequences)")
    queries, keys = (_lengths(_OPERATOR, "seqlen", row) for row in (rows[0], rows[-1]))
    if is_causal and queries != keys:
        raise NotImplementedError(f"{_OPERATOR} does not support mask_type 'mask_type_triu' if seqlen differs for queries and keys")
    return queries, keys


def _check(name, tensor, shape, dtype):
    if tuple(tensor.shape) != shape or tensor.dtype != dtype:
        raise ValueError(f"{_OPERATOR}: {name} is {tensor.dtype} of the shape {tuple(tensor.shape)}, expected {dtype} of {shape}")


def _check_tokens(tensors, dtype):
    """{name: (tensor, tokens, heads, size or None for any)}"""
    for name, (tensor, tokens, heads, size) in tensors.items():
        _check(name, tensor, (tokens, heads, tensor.shape[-1] if size is None and tensor.dim() else size), dtype)


def npu_ring_mla_out(q_nope, q_rope, k_nope, k_rope, value, mask, seqlen, head_num, kv_head_num, *, pre_out=None, prev_lse=None,
                     qk_scale=1.0, kernel_type=None, mask_type=None, input_layout=None, calc_type=None, output, softmax_lse):  # fmt: skip
    """The triangle in mask stands for causal attention, whatever its size: its numbers are not read. No keys change nothing."""
    given = {"kernel_type": kernel_type, "mask_type": mask_type, "input_layout": input_layout, "calc_type": calc_type}
    is_causal, joins = _chosen(given)
    few = kv_head_num or head_num
    rows, keys, size = len(q_nope), len(k_nope), value.shape[-1]
    _check_tokens({"q_nope": (q_nope, rows, head_num, None), "q_rope": (q_rope, rows, head_num, None),
                   "k_nope": (k_nope, keys, few, q_nope.shape[-1]), "k_rope": (k_rope, keys, few, q_rope.shape[-1]),
                   "value": (value, keys, few, size), "output": (output, rows, head_num, size)}, q_nope.dtype)  # fmt: skip
    _check("softmax_lse", softmax_lse, (head_num, rows), torch.float32)
    if joins and (pre_out is None or prev_lse is None):
        raise ValueError(f"{_OPERATOR}: pre_out and prev_lse are needed with calc_type 'calc_type_default'")
    if joins:
        _check("pre_out", pre_out, (rows, head_num, size), q_nope.dtype)
        _check("prev_lse", prev_lse, (head_num, rows), torch.float32)
    of_queries, of_keys = _of_queries_and_keys(seqlen, is_causal)
    for name, lengths, tokens in (("queries", of_queries, rows), ("keys", of_keys, keys)):
        if sum(lengths) > tokens:
            raise ValueError(f"{_OPERATOR}: seqlen adds up to {sum(lengths)} {name}, more than the {tokens} that are given")
    used = sum(of_queries)
    if not used:
        return output, softmax_lse
    part = torch.empty_like(output[:used]) if joins else output[:used]
    sums = q_nope.new_empty((used, head_num, 1), dtype=torch.float32)
    options = {"atten_mask": _triangle(q_nope), "sparse_mode": 3} if is_causal else {}
    if last := sum(of_keys):
        npu.npu_fused_infer_attention_score.out(
            q_nope[:used], k_nope[:last], value[:last], query_rope=q_rope[:used], key_rope=k_rope[:last], num_heads=head_num,
            num_key_value_heads=few, scale=qk_scale, input_layout="TND", actual_seq_lengths=list(accumulate(of_queries)),
            actual_seq_lengths_kv=list(accumulate(of_keys)), softmax_lse_flag=True, out=[part, sums], **options,
        )  # fmt: skip
    for end, length, count in zip(accumulate(of_queries), of_queries, of_keys):
        if not count:  # nothing to join with
            part[end - length : end] = 0
            sums[end - length : end] = -torch.inf
    if joins:
        before = prev_lse[:, :used].t().reshape(-1)
        joined, total = npu.npu_attention_update(
            [before, sums.flatten()], [pre_out[:used].reshape(-1, size), part.view(-1, size)], 1)
        output[:used] = joined.view_as(part)
        sums = total.view_as(sums)
    softmax_lse[:, :used] = sums.squeeze(2).t()
    return output, softmax_lse


def npu_ring_mla_out_fake(*_, output, softmax_lse, **__):
    return output, softmax_lse


def npu_ring_mla_fake(*tokens, **_):
    q_nope, value, head_num = tokens[0], tokens[4], tokens[7]
    output = q_nope.new_empty((q_nope.shape[0], head_num, value.shape[-1]))
    return output, q_nope.new_empty((head_num, q_nope.shape[0]), dtype=torch.float32)


def npu_ring_mla(*tokens, **options):
    output, softmax_lse = npu_ring_mla_fake(*tokens)
    return npu_ring_mla_out(*tokens, output=output, softmax_lse=softmax_lse, **options)
