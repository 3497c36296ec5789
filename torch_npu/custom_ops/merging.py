"""Joining attention over parts of the keys, and narrowing logits before sampling."""

import torch


def npu_ring_attention_update(prev_attn_out, prev_softmax_max, prev_softmax_sum, cur_attn_out, cur_softmax_max, cur_softmax_sum, *,
                              actual_seq_qlen=None, input_layout="SBH", input_softmax_layout=""):
    """(attention, row maxima, row sums) over the keys of both parts. SBH has statistics [B, N, S, 8], TND has [T, N, 8]."""
    if input_layout not in ("SBH", "TND"):
        raise ValueError(f"input_layout must be 'SBH' or 'TND', not {input_layout!r}")
    if input_layout == "TND" and input_softmax_layout not in ("", "TND"):
        raise NotImplementedError("npu_ring_attention_update does not support input_softmax_layout")
    largest = torch.maximum(prev_softmax_max, cur_softmax_max)
    parts = [s * torch.exp(m - largest) for s, m in ((prev_softmax_sum, prev_softmax_max), (cur_softmax_sum, cur_softmax_max))]
    total = parts[0] + parts[1]

    def weighted(out, part):
        share = (part / total)[..., :1]
        if input_layout == "TND":
            return out.float() * share
        heads = share.shape[1]
        return (out.float().unflatten(-1, (heads, -1)) * share.permute(2, 0, 1, 3)).flatten(-2)

    out = weighted(prev_attn_out, parts[0]) + weighted(cur_attn_out, parts[1])
    return out.to(prev_attn_out.dtype), largest, total


def npu_attention_update(lse, local_out, update_type):
    """(attention over all parts, its log-sum-exp if update_type is 1), from [rows, size] and [rows] of each part."""
    logs = torch.stack([part.float() for part in lse])
    total = torch.logsumexp(logs, 0)
    out = sum(torch.exp(log - total).unsqueeze(-1) * part.float() for log, part in zip(logs, local_out))
    return out.to(local_out[0].dtype), total if update_type == 1 else total.new_empty(0)


def npu_top_k_top_p(logits, p=None, k=None):
    """Logits with -inf where a token is neither among the k best nor among the best that together have probability p."""
    values, order = logits.float().sort(-1)
    if k is not None:
        least = values.gather(-1, (values.shape[-1] - k.long()).clamp(0, values.shape[-1] - 1).unsqueeze(-1))
        values = values.masked_fill(values < least, -torch.inf)
    if p is not None:
        hidden = torch.softmax(values, -1).cumsum(-1) <= 1 - p.float().unsqueeze(-1)
        hidden = hidden & (torch.arange(values.shape[-1], device=values.device) < values.shape[-1] - 1)  # the best one stays
        values = values.masked_fill(hidden, -torch.inf)
    return torch.empty_like(values).scatter(-1, order, values).to(logits.dtype)
