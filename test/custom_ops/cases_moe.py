"""Mixture of experts: choosing experts, sorting tokens by expert and putting them back, in plain torch."""

import math

import torch
from cases import Case, grads, rand

LOGITS = rand(6, 4)
TOP = torch.softmax(LOGITS, -1).topk(2)
CHOICES = TOP.indices.to(torch.int32)
PAIRS = torch.arange(12, dtype=torch.int32).view(2, 6).t().contiguous()
TOKENS = rand(6, 5)
ROUTES = torch.zeros(6, 4).scatter(1, TOP.indices, 1).bool()
PROBS = torch.softmax(LOGITS, -1)
BIAS = torch.tensor([0.5, -0.25, 0.0, 0.75])


# ---- Gates. The choice is that of the rounded logits, so short types choose like the reference.


def top_k_softmax(x, finished=None, k=1):
    logits, experts = x.topk(k)
    values = torch.softmax(x, -1).gather(-1, experts)
    if finished is not None:
        experts = experts.masked_fill(finished.unsqueeze(-1), x.shape[-1])
    rows = torch.arange(x[..., 0].numel() * k, dtype=torch.int32).view(k, -1).t().reshape(*x.shape[:-1], k)
    return values, experts.int(), rows


def top_k_softmax_v2(x, k=1, finished=None, renorm=0, output_softmax=False):
    values, experts, _ = top_k_softmax(x, finished, k)
    if renorm:
        values = torch.softmax(x.topk(k).values, -1)
    return values, experts, torch.softmax(x, -1) if output_softmax and not renorm else torch.empty(0)


def top_k(x, k, bias=None, k_group=1, group_count=1, group_select_mode=0, renorm=0, norm_type=0, out_flag=False,
          routed_scaling_factor=1.0, eps=1e-20):
    """DeepSeek's gate, a token at a time."""
    scores = torch.sigmoid(x) if norm_type else torch.softmax(x, -1)
    size, picked = x.shape[1] // group_count, []
    for token in scores.detach() + (0 if bias is None else bias):
        groups = token.view(group_count, size)
        worth = [float(g.topk(2).values.sum() if group_select_mode else g.max()) for g in groups]
        best = sorted(range(group_count), key=lambda g: -worth[g])[:k_group]
        allowed = [e for g in best for e in range(g * size, (g + 1) * size)]
        picked.append(sorted(allowed, key=lambda e: -float(token[e]))[:k])
    experts = torch.tensor(picked)
    return gate(scores.gather(1, experts), norm_type, renorm, routed_scaling_factor), experts.int(), scores


def gate(chosen, norm_type=0, renorm=0, routed_scaling_factor=1.0):
    return (chosen / chosen.sum(-1, keepdim=True) if norm_type or renorm else chosen) * routed_scaling_factor


GATES = [
    Case("npu_moe_gating_top_k_softmax", (LOGITS, None, 2), top_k_softmax),
    Case("npu_moe_gating_top_k_softmax", (rand(2, 3, 4), torch.tensor([[True, False, False], [False, True, False]]), 3), top_k_softmax,
         label="finished"),
    Case("npu_moe_gating_top_k_softmax_v2", (LOGITS,), top_k_softmax_v2, {"k": 2, "renorm": 1}, label="renormed"),
    Case("npu_moe_gating_top_k_softmax_v2", (rand(2, 3, 4),), top_k_softmax_v2, {"k": 2, "output_softmax": True}, label="with all scores"),
    Case("npu_moe_gating_top_k_softmax_v2", (LOGITS,), top_k_softmax_v2,
         {"k": 2, "finished": torch.tensor([False, True, False, False, True, False])}, label="finished"),
    Case("npu_moe_gating_top_k", (LOGITS, 2), top_k, grad=(0,)),
    Case("npu_moe_gating_top_k", (LOGITS, 2), top_k, {"norm_type": 1, "out_flag": True}, grad=(0,), label="sigmoid"),
    Case("npu_moe_gating_top_k", (LOGITS, 3), top_k, {"renorm": 1, "routed_scaling_factor": 2.5, "out_flag": True}, grad=(0,),
         label="renormed"),
    *[Case("npu_moe_gating_top_k", (rand(5, 12), 3), top_k,
           {"bias": rand(12, seed=3), "k_group": 2, "group_count": 4, "group_select_mode": mode, "norm_type": 1, "out_flag": True},
           label=f"groups {mode}")
      for mode in (0, 1)],
    *[Case("npu_moe_gating_top_k_backward", (score(LOGITS), rand(6, 2), CHOICES), lambda s, g, e, score=score, **o: grads(
        lambda x: gate(score(x).gather(-1, e.long()), **o), (LOGITS,), g), options, label=label)
      for label, score, options in (("sigmoid", torch.sigmoid, {"norm_type": 1, "routed_scaling_factor": 2.5}),
                                    ("softmax", lambda x: torch.softmax(x, -1), {}),
                                    ("renormed", lambda x: torch.softmax(x, -1), {"renorm": 1}))],
]  # fmt: skip

# ---- Routing


def init_routing(x, row_idx, experts, active):
    flat = experts.reshape(-1)
    order = flat.argsort(stable=True)
    source = row_idx.reshape(-1)[order].long()
    moved = torch.empty(flat.numel(), dtype=torch.int32)
    moved[source] = torch.arange(flat.numel(), dtype=torch.int32)
    return x[source[: min(active, len(x)) * experts.shape[1]] % len(x)], moved, flat[order]


def quantize(row, expert, scale, offset, mode):
    """(row, its scale)"""
    if mode == 0:
        return (row * scale.flatten()[0] + (0 if offset is None else offset.flatten()[0])).round().clamp(-128, 127), 0.0
    if mode == 1:
        row = row if scale is None else row * scale[0 if len(scale) == 1 else expert]
        step = float(row.abs().max()) / 127
        return (row / step).round(), step
    return row, 0.0


def routing(x, experts, scale, offset, active, capacity, expert_num, first, end, by_source, mode):
    """(rows, indices, tokens of each expert, scales), a pair at a time."""
    k, flat = experts.shape[1], experts.reshape(-1).tolist()
    order = sorted(range(len(flat)), key=lambda p: flat[p] if flat[p] >= first else math.inf)
    slots = expert_num * capacity if capacity else min(active, len(flat)) if active > 0 else len(flat)
    rows, scales = torch.zeros(slots, x.shape[1]), torch.zeros(slots)
    where, taken = [-1] * len(flat), [0] * (end - first)
    mine = [p for p in order if first <= flat[p] < end]
    for number, pair in enumerate(mine):
        expert = flat[pair]
        slot = expert * capacity + taken[expert - first] if capacity else number
        fits = not capacity or taken[expert - first] < capacity
        taken[expert - first] += 1
        if fits:
            where[pair] = slot
        if fits and slot < slots:
            rows[slot], scales[slot] = quantize(x[pair // k].float(), expert - first, scale, offset, mode)
            if mode == -1 and scale is not None:
                scales[slot] = scale[pair // k]
    return rows, torch.tensor(order if by_source else where).int(), torch.tensor(taken), scales


def init_routing_v2(x, experts, scale=None, offset=None, active_num=-1, expert_capacity=-1, expert_num=-1, drop_pad_mode=0,
                    expert_tokens_num_type=0, expert_tokens_num_flag=False, quant_mode=-1, active_expert_range=(), row_idx_type=0):
    first, end = active_expert_range or (0, expert_num)
    rows, indices, taken, scales = routing(x, experts, scale, offset, active_num, expert_capacity if drop_pad_mode else 0, expert_num,
                                           first, end, row_idx_type, quant_mode)
    rows = rows.to(x.dtype if quant_mode == -1 else torch.int8)
    if drop_pad_mode:
        rows = rows.view(expert_num, expert_capacity, -1)
    if not expert_tokens_num_flag:
        counts = torch.zeros_like(taken)
    elif expert_tokens_num_type == 0:
        counts = taken.cumsum(0)
    elif expert_tokens_num_type == 1:
        counts = taken
    else:
        some = [[first + e, n] for e, n in enumerate(taken.tolist()) if n]
        counts = torch.tensor(some + [[0, 0]] * (expert_num - len(some)))
    return rows, indices, counts, scales


def init_routing_quant(x, experts, scale=None, offset=None, active_num=1024, expert_capacity=0, expert_num=256, drop_pad_mode=0,
                       expert_tokens_num_mode=0, expert_tokens_before_capacity_flag=False, quant_mode=1):
    rows, indices, taken, scales = routing(x, experts, scale, offset, active_num, expert_capacity if drop_pad_mode else 0, expert_num, 0,
                                           expert_num, False, quant_mode)
    rows = rows.to(torch.int8)
    counts = None if drop_pad_mode or not expert_tokens_num_mode else (taken.cumsum(0) if expert_tokens_num_mode == 1 else taken).int()
    return (rows.view(expert_num, expert_capacity, -1) if drop_pad_mode else rows, indices, counts,
            taken.int() if drop_pad_mode and expert_tokens_before_capacity_flag else None, scales if quant_mode else None)


def finalize(rows, skip1, skip2, bias, scales, places, experts, mode=0, k=1):
    k = scales.shape[1] if scales is not None else k
    tokens, rows = len(places) // k, rows.reshape(-1, rows.shape[-1])
    out = torch.zeros(tokens, rows.shape[1])
    for t in range(tokens):
        for j in range(k):
            place = int(places[t * k + j if mode >= 2 else j * tokens + t])
            row = rows[place] if place >= 0 else torch.zeros_like(rows[0])
            row = row if bias is None else row + bias[experts[t, j]]
            out[t] += row if scales is None else row * scales[t, j]
    return out + sum(skip for skip in (skip1, skip2) if skip is not None)


def update_expert(ids, table, expert_scales=None, pruning_threshold=None, active_mask=None, local_rank_id=-1, world_size=-1,
                  balance_mode=0):
    out, mask = ids.clone(), torch.ones(ids.shape, dtype=torch.bool)
    for i, row in enumerate(ids.tolist()):
        for j, e in enumerate(row):
            count = int(table[e, 0])
            copy = i % count if balance_mode else local_rank_id // math.ceil(world_size / count)
            out[i, j] = table[e, copy + 1]
            if expert_scales is not None:
                mask[i, j] = expert_scales[i, j] >= pruning_threshold[0, j] * expert_scales[i].sum()
            mask[i, j] &= active_mask is None or bool(active_mask[i])
    return out, mask


FEW = torch.tensor([[5, 1, 3], [0, 3, 4], [3, 1, 2], [4, 3, 6]], dtype=torch.int32)  # of seven experts
ROWS = rand(4, 5, seed=2)
ORDER = torch.tensor([7, 0, 3, 11, 1, 9, 2, 10, 4, 8, 5, 6], dtype=torch.int32)
COPIES = torch.tensor([[1, 4, 0, 0], [3, 2, 5, 7], [2, 1, 6, 0], [1, 3, 0, 0]], dtype=torch.int32)
COUNTED = {"expert_tokens_num_flag": True}
ROUTING = [
    Case("npu_moe_init_routing", (TOKENS, PAIRS, CHOICES, 6), init_routing),
    Case("npu_moe_init_routing", (TOKENS, PAIRS, CHOICES, 4), init_routing, label="fewer"),
    *[Case("npu_moe_init_routing_v2", (ROWS, FEW), init_routing_v2, {"expert_num": 7, **options}, label=label) for label, options in {
        "plain": {}, "ends": {**COUNTED}, "counts": {"expert_tokens_num_type": 1, **COUNTED},
        "pairs": {"expert_tokens_num_type": 2, "active_expert_range": [1, 5], **COUNTED},
        "range": {"active_expert_range": [2, 5], "expert_tokens_num_type": 1, **COUNTED, "scale": rand(4)},
        "sources": {"active_expert_range": [2, 5], "row_idx_type": 1}, "active": {"active_num": 7},
        "padded": {"drop_pad_mode": 1, "expert_capacity": 2, "expert_tokens_num_type": 1, **COUNTED, "scale": rand(4)},
        "static": {"quant_mode": 0, "scale": torch.tensor([20.0]), "offset": torch.tensor([1.0])},
        "dynamic": {"quant_mode": 1, "active_expert_range": [1, 5], "scale": rand(4, 5, seed=1).abs() + 0.5},
        "one scale": {"quant_mode": 1, "scale": rand(1, 5).abs() + 0.5},
        "dynamic padded": {"quant_mode": 1, "drop_pad_mode": 1, "expert_capacity": 1, "expert_tokens_num_type": 1},
    }.items()],
    *[Case("npu_moe_init_routing_quant", (ROWS, FEW), init_routing_quant, {"expert_num": 7, **options}, label=label) for label, options in {
        "dynamic": {"expert_tokens_num_mode": 2}, "ends": {"expert_tokens_num_mode": 1, "active_num": 7},
        "static": {"quant_mode": 0, "scale": torch.tensor([20.0]), "active_num": 0},
        "padded": {"drop_pad_mode": 1, "expert_capacity": 2, "expert_tokens_before_capacity_flag": True},
    }.items()],
    Case("npu_moe_compute_expert_tokens", (torch.tensor([0, 0, 2, 2, 2, 3], dtype=torch.int32), 4),
         lambda s, n: torch.tensor([2, 2, 5, 6], dtype=torch.int32)),
    # Rows lie choice by choice here, token by token below.
    Case("npu_moe_finalize_routing", (rand(12, 5), TOKENS, None, rand(4, 5), TOP.values, ORDER, CHOICES), finalize),
    Case("npu_moe_finalize_routing", (rand(12, 5), TOKENS, rand(6, 5, seed=2), rand(4, 5), TOP.values, ORDER, CHOICES, 2), finalize,
         label="tokens"),
    Case("npu_moe_finalize_routing", (rand(12, 5), None, None, None, None, ORDER, None, 0, 3), finalize, label="without scales"),
    *[Case("npu_moe_finalize_routing", (rand(4, 2, 5), TOKENS, None, None, TOP.values,
                                        torch.tensor([7, 0, 3, -1, 1, -1, 2, -1, 4, -1, 5, 6], dtype=torch.int32), None, mode), finalize,
           label=f"padded {mode}") for mode in (1, 3)],
    Case("npu_moe_re_routing", (TOKENS, torch.tensor([[1, 2], [2, 1]])), lambda t, c, per_token_scales: (
        t[[0, 3, 4, 1, 2, 5]], per_token_scales[[0, 3, 4, 1, 2, 5]], torch.tensor([0, 3, 4, 1, 2, 5], dtype=torch.int32),
        torch.tensor([3, 3])), {"per_token_scales": rand(6)}),
    Case("npu_moe_re_routing", (TOKENS, torch.tensor([[0, 3, 1], [2, 0, 0]])), lambda t, c: (
        t[[4, 5, 0, 1, 2, 3]], torch.zeros(6), torch.tensor([4, 5, 0, 1, 2, 3], dtype=torch.int32), torch.tensor([2, 3, 1])),
        label="without scales"),
    *[Case("npu_moe_update_expert", (CHOICES, COPIES), update_expert,
           {"expert_scales": PROBS[:, :2].contiguous(), "pruning_threshold": torch.tensor([[0.45, 0.3]]),
            "active_mask": torch.tensor([True, True, False, True, True, False]), "local_rank_id": 4, "world_size": 6, "balance_mode": mode},
           label=f"mode {mode}") for mode in (0, 1)],
    Case("npu_moe_update_expert", (CHOICES, COPIES), update_expert, {"local_rank_id": 5, "world_size": 6}, label="without pruning"),
]  # fmt: skip

# ---- Tokens


def permute(tokens, indices, num_out_tokens=None):
    order, choices = indices.reshape(-1).argsort(stable=True), 1 if indices.dim() == 1 else indices.shape[1]
    count = (num_out_tokens or 0) if (num_out_tokens or 0) > 0 else len(order) + (num_out_tokens or 0)
    return tokens[order[:count] // choices], order.argsort().to(torch.int32)


def unpermute(rows, places, probs=None):
    k = 1 if probs is None else probs.shape[1]
    full = torch.cat([rows, rows.new_zeros(len(places) - len(rows), rows.shape[1])])[places.long()].view(-1, k, rows.shape[1])
    return (full if probs is None else full * probs.unsqueeze(-1)).sum(1)


def map_permute(tokens, routes, probs=None, num_out_tokens=None, drop_and_pad=False):
    experts = routes.shape[1]
    if drop_and_pad:
        capacity = num_out_tokens // experts
        owners = [sorted(range(len(tokens)), key=lambda t, e=e: not routes[t, e])[:capacity] for e in range(experts)]
    else:
        owners = [routes[:, e].nonzero()[:, 0].tolist() for e in range(experts)]
    source = torch.tensor([t for each in owners for t in each])
    chosen = None if probs is None else torch.cat([probs[each, e] for e, each in enumerate(owners)])
    return tokens[source], chosen, (source if drop_and_pad else source.argsort(stable=True)).int()


def map_unpermute(rows, indices, shape, probs=None, routing_map=None, drop_and_pad=False):
    """The rows of each token, by the way they were sent."""
    index = indices.long()
    owner = index
    if not drop_and_pad:
        owner = torch.empty_like(index).scatter(0, index, torch.arange(shape[0]).repeat_interleave(len(index) // shape[0]))
    if probs is not None:
        expert = torch.arange(len(index)) // (len(index) // probs.shape[1]) if drop_and_pad else routing_map.t().nonzero()[:, 0]
        rows = rows * probs[owner, expert].unsqueeze(-1)
    return torch.zeros(shape).index_add(0, owner, rows)


def map_unpermute_all(rows, indices, shape, probs=None, routing_map=None, drop_and_pad=False):
    index = indices.long()
    if drop_and_pad:
        order, owners = index.argsort(stable=True), index.sort().values
        expert = torch.arange(len(index)) // (len(index) // 4)
        chosen = None if probs is None else probs[index, expert]
    else:
        order, owners = index, torch.arange(shape[0]).repeat_interleave(len(index) // shape[0])
        chosen = None if probs is None else probs[routing_map]
    return map_unpermute(rows, indices, shape, probs, routing_map, drop_and_pad), order.int(), owners.int(), chosen


PLACES = permute(TOKENS, CHOICES)[1]
ROUTED = {padded: map_permute(TOKENS, ROUTES, PROBS, 8 if padded else 12, padded)[2] for padded in (False, True)}
ROW_COUNT = {False: 12, True: 8}
LABEL = {False: "", True: "padded"}
TOKEN_CASES = [
    Case("npu_moe_token_permute", (TOKENS, CHOICES), permute, grad=(0,)),
    Case("npu_moe_token_permute", (TOKENS, CHOICES, 7), permute, grad=(0,), label="fewer"),
    Case("npu_moe_token_permute", (TOKENS, CHOICES.long(), -2), permute, grad=(0,), label="all but two"),
    Case("npu_moe_token_permute", (TOKENS, CHOICES[:, 0].contiguous()), permute, grad=(0,), label="one choice"),
    *[Case(op, (rand(12, 5), PLACES, TOP.values), reference, grad=(0, 2)) for op, reference in (
        ("npu_moe_token_unpermute", unpermute), ("_npu_moe_token_unpermute", lambda r, i, p: (unpermute(r, i, p), r)))],
    Case("npu_moe_token_unpermute", (rand(12, 5), PLACES), unpermute, grad=(0,), label="without probs"),
    Case("_npu_moe_token_unpermute", (rand(12, 5), PLACES), lambda r, i: (unpermute(r, i), None), grad=(0,), label="without probs"),
    Case("npu_moe_token_unpermute", (rand(7, 5), PLACES, TOP.values), unpermute, grad=(0, 2), label="dropped"),
    *[Case("npu_moe_token_permute_grad", (TOKENS, rand(count, 5), CHOICES, PLACES),
           lambda t, g, i, p: grads(lambda x: permute(x, i, len(g))[0], (t,), g), label=label)
      for count, label in ((12, ""), (7, "fewer"))],
    Case("npu_moe_token_permute_grad_v2", (rand(12, 5), PLACES, 6, torch.float32, 2),
         lambda g, i, n, d, k: grads(lambda x: permute(x, CHOICES)[0], (TOKENS,), g)),
    Case("npu_moe_token_unpermute_grad", (rand(12, 5), TOKENS, PLACES, TOP.values),
         lambda r, g, i, p: grads(lambda a, b: unpermute(a, i, b), (r, p), g)),
    Case("npu_moe_token_unpermute_grad", (rand(12, 5), rand(12, 5, seed=1), PLACES),
         lambda r, g, i: (*grads(lambda a: unpermute(a, i), (r,), g), None), label="without probs"),
    Case("npu_moe_token_unpermute_grad_v2", (rand(12, 5), PLACES, 12, torch.float32),
         lambda g, i, n, d: (*grads(lambda a: unpermute(a, i), (g,), g), None), label="without probs"),
    Case("npu_moe_token_unpermute_grad_v2", (TOKENS, PLACES, 12, torch.float32),
         lambda g, i, n, d, probs, permuted_tokens: grads(lambda a, b: unpermute(a, i, b), (permuted_tokens, probs), g),
         {"probs": TOP.values, "permuted_tokens": rand(12, 5)}),
    *[case for padded in (False, True) for case in (
        Case("npu_moe_token_permute_with_routing_map", (TOKENS, ROUTES), map_permute,
             {"probs": PROBS, "num_out_tokens": ROW_COUNT[padded], "drop_and_pad": padded}, grad=(0,), label=LABEL[padded]),
        Case("npu_moe_token_permute_with_routing_map", (TOKENS, ROUTES.to(torch.int8)), map_permute,
             {"num_out_tokens": ROW_COUNT[padded], "drop_and_pad": padded}, grad=(0,), label=f"{LABEL[padded]} without probs"),
        Case("npu_moe_token_permute_with_routing_map_grad",
             (rand(ROW_COUNT[padded], 5), rand(ROW_COUNT[padded]), ROUTED[padded], ROUTES, 4, 6, padded),
             lambda g, p, i, m, e, t, padded: combined_grads(
                 lambda a, b: map_permute(a, m, b, ROW_COUNT[padded], padded)[:2], (TOKENS, PROBS), (g, p)),
             label=LABEL[padded]),
        Case("npu_moe_token_unpermute_with_routing_map", (rand(ROW_COUNT[padded], 5), ROUTED[padded], [6, 5]), map_unpermute,
             {"drop_and_pad": padded}, grad=(0,), label=f"{LABEL[padded]} without probs"),
        *[Case(op, (rand(ROW_COUNT[padded], 5), ROUTED[padded], [6, 5]), reference,
               {"drop_and_pad": padded, "routing_map": ROUTES, "probs": PROBS}, grad=(0,), label=LABEL[padded])
          for op, reference in (("npu_moe_token_unpermute_with_routing_map", map_unpermute),
                                ("_npu_moe_token_unpermute_with_routing_map", map_unpermute_all))],
        Case("npu_moe_token_unpermute_with_routing_map_grad",
             (TOKENS, *map_unpermute_all(rand(ROW_COUNT[padded], 5), ROUTED[padded], [6, 5], None, ROUTES, padded)[1:3], ROUTES,
              rand(ROW_COUNT[padded], 5), PROBS, padded, [6, 5]),
             lambda g, o, w, m, r, p, padded, s: grads(lambda a, b: map_unpermute(a, ROUTED[padded], s, b, m, padded), (r, p), g),
             label=LABEL[padded]),
    )],
]  # fmt: skip


def combined_grads(function, inputs, seeds):
    inputs = [x.detach().clone().requires_grad_() for x in inputs]
    return torch.autograd.grad(function(*inputs), inputs, list(seeds))


CASES = [*GATES, *ROUTING, *TOKEN_CASES]
# With several ranks, in test/distributed/test_fused_collectives.py.
ELSEWHERE = {"npu_all_gather_base_mm", "npu_alltoallv_gmm", "npu_mm_all_reduce_base", "npu_mm_reduce_scatter_base"}

# Cases that the official wheel refuses, or answers otherwise: see test/official/custom_ops.py.
NOT_OFFICIAL = {
    "npu_moe_gating_top_k": "without out_flag it returns scores that nobody wrote, and takes the gradient from them",
}
