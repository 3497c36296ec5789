"""Mixture of experts: choosing experts, sorting tokens by expert and putting them back."""

import torch

from torch_npu.custom_ops import refuse


def _rows_of_choices(x, k):
    """Number of each (token, choice), counted choice by choice: row + choice * tokens."""
    rows = x[..., 0].numel()
    return torch.arange(rows * k, dtype=torch.int32, device=x.device).view(k, rows).t().reshape(*x.shape[:-1], k)


def npu_moe_gating_top_k_softmax(x, finished=None, k=1):
    """(weights, experts, rows); a finished token is sent to the expert after the last."""
    values, experts = torch.softmax(x.float(), -1).topk(k, -1)
    experts = experts.to(torch.int32)
    if finished is not None:
        experts = experts.masked_fill(finished.unsqueeze(-1), x.shape[-1])
    return values.to(x.dtype), experts, _rows_of_choices(x, k)


def npu_moe_gating_top_k_softmax_v2(x, *, k=1, finished=None, renorm=0, output_softmax=False):
    """(weights, experts, softmax); renorm=1 takes the softmax over the chosen experts only."""
    probs = torch.softmax(x.float(), -1)
    values, experts = (x.float() if renorm else probs).topk(k, -1)
    values = torch.softmax(values, -1) if renorm else values
    experts = experts.to(torch.int32)
    if finished is not None:
        experts = experts.masked_fill(finished.unsqueeze(-1), x.shape[-1])
    return values.to(x.dtype), experts, probs if output_softmax and not renorm else probs.new_empty(0)


def npu_moe_gating_top_k(x, k, *, bias=None, input_ids=None, tid2eid=None, k_group=1, group_count=1, group_select_mode=0,
                         renorm=0, norm_type=0, out_flag=False, routed_scaling_factor=1.0, eps=1e-20):
    """DeepSeek's gate: (weights, experts, all scores). Experts come from the best k_group of group_count groups.

    norm_type 0: softmax, 1: sigmoid. group_select_mode 0: a group's best score, 1: its two best. bias moves the choice only.
    """
    refuse("npu_moe_gating_top_k", input_ids=input_ids is not None, tid2eid=tid2eid is not None)
    scores = torch.sigmoid(x.float()) if norm_type == 1 else torch.softmax(x.float(), -1)
    choice = scores if bias is None else scores + bias.float()
    if group_count > 1:
        groups = choice.unflatten(-1, (group_count, -1))
        rank = groups.topk(2, -1).values.sum(-1) if group_select_mode == 1 else groups.amax(-1)
        chosen = torch.zeros_like(rank).scatter(-1, rank.topk(k_group, -1).indices, 1.0).unsqueeze(-1) > 0
        choice = groups.masked_fill(~chosen, -torch.inf).flatten(-2)
    experts = choice.topk(k, -1).indices
    weights = scores.gather(-1, experts)
    if norm_type == 1 or renorm:
        weights = weights / (weights.sum(-1, keepdim=True) + eps)
    return ((weights * routed_scaling_factor).to(x.dtype), experts.to(torch.int32),
            scores if out_flag else scores.new_empty(0))


def npu_moe_init_routing(x, row_idx, expert_idx, active_num):
    """Sorts (token, choice) pairs by expert: (their tokens, where each pair went, their experts)."""
    rows, k = x.shape[0], expert_idx.shape[-1]
    experts, order = expert_idx.reshape(-1).sort(stable=True)
    source = row_idx.reshape(-1)[order].long()
    positions = torch.arange(source.numel(), dtype=torch.int32, device=x.device)
    moved = torch.zeros_like(positions).scatter(0, source, positions)
    return x[source[: min(active_num, rows) * k] % rows], moved, experts


def npu_moe_init_routing_v2(x, expert_idx, *, scale=None, offset=None, active_num=-1, expert_capacity=-1, expert_num=-1,
                            drop_pad_mode=0, expert_tokens_num_type=0, expert_tokens_num_flag=False, quant_mode=-1,
                            active_expert_range=(), row_idx_type=0, x_dtype=None):
    """(tokens by expert, row indices, tokens per expert, their scales).

    row_idx_type 0: where each pair went, 1: where it came from. expert_tokens_num_type 0: ends, 1: counts.
    """
    refuse("npu_moe_init_routing_v2", drop_pad_mode=drop_pad_mode, quant_mode=quant_mode != -1, offset=offset is not None,
           expert_tokens_num_type=expert_tokens_num_type not in (0, 1), x_dtype=x_dtype is not None)
    k = expert_idx.shape[-1]
    first, end = tuple(active_expert_range) or (0, expert_num)
    flat = expert_idx.reshape(-1).long()
    _, order = torch.where((flat >= first) & (flat < end), flat, expert_num).sort(stable=True)
    where = torch.zeros_like(order).scatter(0, order, torch.arange(order.numel(), device=x.device))
    active = order if active_num <= 0 else order[:active_num]
    experts = torch.arange(first, end, device=x.device)
    counts = (flat == experts.unsqueeze(1)).sum(1)
    counts = counts.cumsum(0) if expert_tokens_num_type == 0 else counts
    tokens = x[active // k]
    scales = x.new_empty(0, dtype=torch.float32) if scale is None else scale[active // k]
    return (tokens, (order if row_idx_type else where).to(torch.int32),
            counts if expert_tokens_num_flag else counts.new_empty(0), scales)


def npu_moe_compute_expert_tokens(sorted_expert_for_source_row, num_expert):
    """The end of each expert's tokens in the sorted order."""
    experts = torch.arange(num_expert, device=sorted_expert_for_source_row.device).unsqueeze(1)
    return (sorted_expert_for_source_row <= experts).sum(1).to(torch.int32)


def npu_moe_finalize_routing(expanded_permuted_rows, skip1, skip2, bias, scales, expanded_src_to_dst_row, export_for_source_row,
                             drop_pad_mode=0, k=1):
    """skip1 + skip2 + the sum over a token's choices of scale * (row + bias of the expert)."""
    refuse("npu_moe_finalize_routing", drop_pad_mode=drop_pad_mode in (1, 3))
    choices = expanded_src_to_dst_row.numel() // scales.shape[0] if scales is not None else 1
    order = expanded_src_to_dst_row.long()
    order = order.view(-1, choices) if drop_pad_mode in (2, 3) else order.view(choices, -1).t()
    rows = expanded_permuted_rows[order]
    if bias is not None:
        rows = rows + bias[export_for_source_row.long()]
    if scales is not None:
        rows = rows * scales.unsqueeze(-1).to(rows.dtype)
    result = rows.sum(1)
    for skip in (skip1, skip2):
        result = result if skip is None else result + skip
    return result


def npu_moe_token_permute(tokens, indices, num_out_tokens=None, padded_mode=False):
    """(tokens in the order of their experts, the place of each (token, choice) in that order)."""
    refuse("npu_moe_token_permute", padded_mode=padded_mode)
    flat = indices.reshape(-1)
    choices = flat.numel() // tokens.shape[0]
    order = flat.argsort(stable=True)
    limit = num_out_tokens if num_out_tokens else flat.numel()
    return tokens[order[:limit] // choices], order.argsort(stable=True).to(torch.int32)


def npu_moe_token_unpermute(permuted_tokens, sorted_indices, probs=None, padded_mode=False, restore_shape=None):
    """Puts tokens back and sums over each token's choices, weighted by probs."""
    refuse("npu_moe_token_unpermute", padded_mode=padded_mode)
    rows = permuted_tokens[sorted_indices.long()]
    if probs is None:
        return rows
    return (rows.view(*probs.shape, -1) * probs.unsqueeze(-1).to(rows.dtype)).sum(1)


def npu_moe_token_permute_with_routing_map(tokens, routing_map, *, probs=None, num_out_tokens=None, drop_and_pad=False):
    """(tokens by expert, their probs, where they came from), for a map [tokens, experts] of which goes where."""
    refuse("npu_moe_token_permute_with_routing_map", drop_and_pad=drop_and_pad)
    rows = tokens.shape[0]
    chosen = routing_map.bool().t().reshape(-1)
    count = num_out_tokens if num_out_tokens is not None else int(chosen.sum())
    places = torch.argsort(~chosen, stable=True)[:count]
    source = places % rows
    kept = tokens.new_empty(0) if probs is None else probs.t().reshape(-1)[places]
    return tokens[source], kept, source.to(torch.int32)


def npu_moe_token_unpermute_with_routing_map(permuted_tokens, sorted_indices, restore_shape, *, probs=None, routing_map=None,
                                             drop_and_pad=False):
    """The sum of the tokens that came from each place, weighted by probs."""
    refuse("npu_moe_token_unpermute_with_routing_map", drop_and_pad=drop_and_pad)
    source = sorted_indices.long()
    if probs is not None:
        places = torch.argsort(~routing_map.bool().t().reshape(-1), stable=True)[: source.numel()]
        permuted_tokens = permuted_tokens * probs.t().reshape(-1)[places].unsqueeze(-1).to(permuted_tokens.dtype)
    return permuted_tokens.new_zeros(restore_shape).index_add(0, source, permuted_tokens)


def npu_moe_token_permute_grad(tokens, grad_permuted_tokens, indices, sorted_indices, padded_mode=False):
    """The gradient of npu_moe_token_permute."""
    refuse("npu_moe_token_permute_grad", padded_mode=padded_mode)
    places = sorted_indices.long()
    kept = (places < len(grad_permuted_tokens)).unsqueeze(-1)
    rows = grad_permuted_tokens[places.clamp(max=len(grad_permuted_tokens) - 1)] * kept
    return rows.view(len(tokens), -1, tokens.shape[-1]).sum(1)


def npu_moe_token_unpermute_grad(permuted_tokens, grad_unpermuted_tokens, sorted_indices, probs=None, padded_mode=False,
                                 restore_shape=None):
    """(gradient of the tokens, of probs) of npu_moe_token_unpermute."""
    refuse("npu_moe_token_unpermute_grad", padded_mode=padded_mode)
    places, grad = sorted_indices.long(), grad_unpermuted_tokens
    if probs is None:
        return torch.zeros_like(permuted_tokens).index_copy(0, places, grad), grad.new_empty(0)
    rows = grad.unsqueeze(1) * probs.unsqueeze(-1).to(grad.dtype)
    chosen = permuted_tokens[places].view(*probs.shape, -1)
    return (torch.zeros_like(permuted_tokens).index_copy(0, places, rows.flatten(0, 1)),
            (chosen * grad.unsqueeze(1)).sum(-1).to(probs.dtype))


def npu_moe_re_routing(tokens, expert_token_num_per_rank, *, per_token_scales=None, expert_token_num_type=1, idx_type=0,
                       tokens_dtype=None):
    """Tokens that lie by rank and then by expert, brought into the order of experts and then ranks.

    (tokens, their scales, where they came from, tokens per expert); the counts are [ranks, experts].
    """
    refuse("npu_moe_re_routing", expert_token_num_type=expert_token_num_type != 1, idx_type=idx_type, tokens_dtype=tokens_dtype)
    counts = expert_token_num_per_rank.long()
    ends = counts.flatten().cumsum(0)
    number = torch.arange(len(tokens), device=tokens.device)
    part = (number.unsqueeze(1) >= ends).sum(1)  # rank * experts + expert
    order = (part % counts.shape[1]).argsort(stable=True)
    scales = tokens.new_empty(0, dtype=torch.float32) if per_token_scales is None else per_token_scales[order]
    return tokens[order], scales, order.to(torch.int32), counts.sum(0).to(expert_token_num_per_rank.dtype)


def npu_moe_gating_top_k_backward(x_norm, grad_y, expertIdx, *, renorm=0, norm_type=0, routed_scaling_factor=1.0, eps=1e-20):
    """The gradient of npu_moe_gating_top_k; x_norm is its third result, all scores."""
    scores, experts = x_norm.float(), expertIdx.long()
    grad = grad_y.float() * routed_scaling_factor
    if norm_type == 1 or renorm:
        weights = scores.gather(-1, experts)
        total = weights.sum(-1, keepdim=True) + eps
        grad = (grad - (grad * weights).sum(-1, keepdim=True) / total) / total
    grad = torch.zeros_like(scores).scatter(-1, experts, grad)
    inner = scores * (1 - scores) * grad if norm_type == 1 else scores * (grad - (grad * scores).sum(-1, keepdim=True))
    return inner.to(grad_y.dtype)
