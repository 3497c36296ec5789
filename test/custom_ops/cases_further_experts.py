"""Further forms of mixtures of experts and grouped products: one choice, one expert, all tokens to one expert, other types of indices."""

import torch
from cases import Case, grads, rand
from cases_grouped import ENDS, EXPERTS, I8W, I8X, ROWS, W_SCALE, X_SCALE, by_expert, swiglu_quant
from cases_moe import (
    CHOICES,
    LOGITS,
    PROBS,
    TOKENS,
    TOP,
    combined_grads,
    init_routing,
    map_permute,
    map_unpermute,
    map_unpermute_all,
    permute,
    top_k_softmax,
    unpermute,
)
from cases_quant import i8, matmul_dequant

ONE = torch.zeros(6, 1, dtype=torch.int32)  # every token to the first expert
SECOND = torch.zeros(6, 4, dtype=torch.bool).index_fill(1, torch.tensor([2]), True)  # and to the third
PLACES_ONE = permute(TOKENS, ONE)[1]
FIRST, LAST = torch.tensor([10, 10, 10]), torch.tensor([0, 0, 10])


def numbers(*values):
    return torch.tensor(values, dtype=torch.int32)


def re_routed(tokens, counts, per_token_scales=None):
    """Rank by rank, and expert by expert within it: the other way round."""
    pieces = torch.arange(len(tokens)).split(counts.flatten().tolist())
    ranks, experts = counts.shape
    order = torch.cat([pieces[r * experts + e] for e in range(experts) for r in range(ranks)])
    scales = torch.zeros(len(tokens)) if per_token_scales is None else per_token_scales[order]
    return tokens[order], scales, order.int(), counts.sum(0, dtype=counts.dtype)


def weighted(x, w, ends):
    """x^T w of every group."""
    return torch.stack([x[b:e].t() @ w[b:e] for b, e in zip([0, *ends], ends)])


ROUTED_ONE = map_permute(TOKENS, SECOND, PROBS, 6)[2]
GATES = [
    Case("npu_moe_gating_top_k_softmax", (LOGITS,), lambda x: top_k_softmax(x), label="one"),
    Case("npu_moe_gating_top_k_softmax", (rand(2, 40), None, 40), top_k_softmax, label="all experts"),
    Case("npu_moe_init_routing", (TOKENS, torch.arange(6, dtype=torch.int32)[:, None], ONE, 6), init_routing, label="one expert"),
    Case("npu_moe_init_routing", (rand(1, 5), numbers(0, 1)[None], numbers(3, 1)[None], 1), init_routing, label="one token"),
    *[Case("npu_moe_compute_expert_tokens", (sorted_experts, count), lambda s, n, ends=ends: torch.tensor(ends, dtype=torch.int32),
           label=label)
      for label, sorted_experts, count, ends in (("one expert", numbers(0, 0, 0), 1, [3]), ("the last", numbers(4, 4), 5, [0, 0, 0, 0, 2]),
                                                 ("none in front", numbers(1, 1, 3), 4, [0, 2, 2, 3]))],
    Case("npu_moe_re_routing", (TOKENS, torch.tensor([[6]])), re_routed, label="one rank"),
    Case("npu_moe_re_routing", (TOKENS, numbers(1, 0, 2, 0, 2, 1).view(3, 2)), re_routed, {"per_token_scales": rand(6)},
         label="three ranks, int32"),
]

PERMUTED = [
    Case("_npu_moe_token_unpermute", (rand(6, 5), PLACES_ONE, TOP.values[:, :1].contiguous()), lambda r, i, p: (unpermute(r, i, p), r),
         grad=(0, 2), label="one choice"),
    Case("npu_moe_token_permute_grad", (TOKENS, rand(6, 5), ONE, PLACES_ONE),
         lambda t, g, i, p: grads(lambda x: permute(x, i)[0], (t,), g), label="one choice"),
    *[Case("npu_moe_token_permute_grad_v2", (rand(len(places), 5), places, 6, torch.float32, k),
           lambda g, i, n, d, k, c=choices: grads(lambda x: permute(x, c)[0], (TOKENS,), g), label=label)
      for label, choices, places, k in (("one choice", ONE, PLACES_ONE, 1),
                                        ("three choices", CHOICES[:, [0, 1, 0]], permute(TOKENS, CHOICES[:, [0, 1, 0]])[1], 3))],
    Case("npu_moe_token_unpermute_grad", (rand(6, 5), TOKENS, PLACES_ONE, TOP.values[:, :1].contiguous()),
         lambda r, g, i, p: grads(lambda a, b: unpermute(a, i, b), (r, p), g), label="one choice"),
    Case("npu_moe_token_unpermute_grad_v2", (TOKENS, PLACES_ONE, 6, torch.float32),
         lambda g, i, n, d, probs, permuted_tokens: grads(lambda a, b: unpermute(a, i, b), (permuted_tokens, probs), g),
         {"probs": TOP.values[:, :1].contiguous(), "permuted_tokens": rand(6, 5)}, label="one choice"),
    Case("npu_moe_token_permute_with_routing_map_grad", (rand(6, 5), rand(6), ROUTED_ONE, SECOND, 4, 6, False),
         lambda g, p, i, m, e, t, padded: combined_grads(lambda a, b: map_permute(a, m, b, 6)[:2], (TOKENS, PROBS), (g, p)),
         label="one expert"),
    Case("_npu_moe_token_unpermute_with_routing_map", (rand(6, 5), ROUTED_ONE, [6, 5]), map_unpermute_all,
         {"routing_map": SECOND, "probs": PROBS}, grad=(0,), label="one expert"),
    Case("npu_moe_token_unpermute_with_routing_map_grad",
         (TOKENS, *map_unpermute_all(rand(6, 5), ROUTED_ONE, [6, 5], None, SECOND)[1:3], SECOND, rand(6, 5), PROBS, False, [6, 5]),
         lambda g, o, w, m, r, p, padded, s: grads(lambda a, b: map_unpermute(a, ROUTED_ONE, s, b, m), (r, p), g), label="one expert"),
]

GROUPED = [
    Case("npu_grouped_matmul.List", ([ROWS[:2], ROWS[2:]], [EXPERTS[0], EXPERTS[1]]), lambda x, w: [a @ b for a, b in zip(x, w)],
         label="lists"),
    Case("npu_grouped_matmul.List", ([ROWS], list(EXPERTS)), lambda x, w, **_: by_expert(x[0], w, (0, 0, 10)),
         {"group_list": [0, 0, 10], "split_item": 3}, label="all to the last"),
    *[Case("npu_grouped_matmul_add", (rand(12, 5), ROWS, rand(10, 5), ends),
           lambda s, x, w, e: s + weighted(x, w, e.tolist()).flatten(0, 1), label=label)
      for label, ends in (("the first", FIRST), ("the last", LAST))],
    *[Case("npu_grouped_matmul_add_", (rand(3, 4, 5), ROWS, rand(10, 5), ends), lambda s, x, w, e: s + weighted(x, w, e.tolist()),
           label=label) for label, ends in (("ends", ENDS), ("the last", LAST))],
    Case("npu_grouped_matmul_swiglu_quant", (I8X[:, :16].neg().clamp(min=-127), I8W, ENDS, W_SCALE, X_SCALE), swiglu_quant,
         label="other signs"),
    *[Case("npu_grouped_matmul_swiglu_quant_v2", (x, [I8W], [W_SCALE], X_SCALE, ENDS), lambda x, w, s, t, g, **_: swiglu_quant(
        x, w[0], g, s[0], t), options, label=label)
      for label, x, options in (("ends", I8X, {}), ("ends said", I8X.neg().clamp(min=-127), {"group_list_type": 0}))],
    *[Case("npu_quant_grouped_matmul_dequant", (ROWS, i8(3, 5, 4), W_SCALE[:, :5], ends),
           lambda x, w, s, e, k=k: matmul_dequant(x, w[k], s[k]), label=label)
      for label, ends, k in (("the first", FIRST, 0), ("the last", LAST, 2))],
]

# Its argument holds addresses of the card: test_workers.py.
ELSEWHERE = {"npu_attention_worker_combine"}
CASES = [*GATES, *PERMUTED, *GROUPED]
