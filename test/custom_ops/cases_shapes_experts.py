"""Mixtures of experts over other routes: three of seven experts, one token, experts that nobody chose, tokens of one element."""

import torch
from cases import Case, grads, rand
from cases_further_experts import re_routed
from cases_moe import (
    combined_grads,
    finalize,
    gate,
    init_routing,
    init_routing_quant,
    map_permute,
    map_unpermute,
    map_unpermute_all,
    permute,
    top_k,
    top_k_softmax,
    top_k_softmax_v2,
    unpermute,
    update_expert,
)

INT = torch.int32


class Route:
    """Tokens and the experts they chose; of those the first is never chosen."""

    def __init__(self, tokens, experts, k, size):
        self.count, self.experts, self.k = tokens, experts, k
        logits = rand(tokens, experts, seed=experts)
        logits[:, 0] = -9
        self.logits, self.probs = logits, torch.softmax(logits, -1)
        self.weights, chosen = self.probs.topk(k)
        self.choices = chosen.to(INT)
        self.map = torch.zeros(tokens, experts).scatter(1, chosen, 1).bool()
        self.tokens, self.rows = rand(tokens, size), rand(tokens * k, size, seed=1)
        self.places = permute(self.tokens, self.choices)[1]
        self.routed = map_permute(self.tokens, self.map, self.probs, tokens * k)[2]


ROUTES = {"three of seven": Route(9, 7, 3, 4), "one token": Route(1, 5, 2, 6), "one number": Route(8, 3, 1, 1)}


def each(op, arguments, reference, grad=(), options=lambda r: {}, only=tuple(ROUTES)):
    """A case for each route."""
    return [Case(op, arguments(r), reference, options(r), grad=grad, label=label) for label, r in ROUTES.items() if label in only]


def of_permute(r, g, i):
    return grads(lambda x: permute(x, r.choices)[0], (r.tokens,), g)


def from_map(r):
    return {"probs": r.probs, "routing_map": r.map}


def with_probs(g, i, n, d, probs, permuted_tokens):
    return grads(lambda a, b: unpermute(a, i, b), (permuted_tokens, probs), g)


TWO = ("three of seven", "one token")
TOKENS = [
    *each("npu_moe_token_permute", lambda r: (r.tokens, r.choices), permute, (0,)),
    Case("npu_moe_token_permute", (rand(0, 4), torch.zeros(0, 2, dtype=INT)), lambda t, i: (torch.zeros(0, 4), torch.zeros(0, dtype=INT)),
         label="no tokens"),
    *each("npu_moe_token_unpermute", lambda r: (r.rows, r.places, r.weights), unpermute, (0, 2)),
    Case("npu_moe_token_unpermute", (rand(9, 4), ROUTES["three of seven"].places[:9].argsort().to(INT), None, False, [9, 4]),
         lambda r, i, *_: unpermute(r, i), grad=(0,), label="shape said"),
    *each("_npu_moe_token_unpermute", lambda r: (r.rows, r.places, r.weights), lambda r, i, p: (unpermute(r, i, p), r), (0, 2)),
    *each("npu_moe_token_permute_grad", lambda r: (r.tokens, r.rows, r.choices, r.places),
          lambda t, g, i, p: grads(lambda x: permute(x, i, len(g))[0], (t,), g)),
    *[Case("npu_moe_token_permute_grad_v2", (r.rows, r.places, r.count, torch.float32, r.k), lambda g, i, n, d, k, r=r: of_permute(r, g, i),
           label=label) for label, r in ROUTES.items()],
    *each("npu_moe_token_unpermute_grad", lambda r: (r.rows, r.tokens, r.places, r.weights),
          lambda r, g, i, p: grads(lambda a, b: unpermute(a, i, b), (r, p), g)),
    *each("npu_moe_token_unpermute_grad_v2", lambda r: (r.tokens, r.places, r.count * r.k, torch.float32), with_probs, (),
          lambda r: {"probs": r.weights, "permuted_tokens": r.rows}),
    *each("npu_moe_token_permute_with_routing_map", lambda r: (r.tokens, r.map), map_permute, (0,),
          lambda r: {"probs": r.probs, "num_out_tokens": r.count * r.k}, TWO),
    *[Case("npu_moe_token_permute_with_routing_map_grad", (r.rows, rand(r.count * r.k), r.routed, r.map, r.experts, r.count, False),
           lambda g, p, i, m, e, t, padded, r=r: combined_grads(lambda a, b: map_permute(a, m, b, len(g))[:2], (r.tokens, r.probs), (g, p)),
           label=label) for label, r in ROUTES.items()],
    *[Case(op, (r.rows, r.routed, list(r.tokens.shape)), reference, from_map(r), grad=(0,), label=label) for label, r in ROUTES.items()
      for op, reference in (("npu_moe_token_unpermute_with_routing_map", map_unpermute),
                            ("_npu_moe_token_unpermute_with_routing_map", map_unpermute_all))],
    *[Case("npu_moe_token_unpermute_with_routing_map_grad",
           (r.tokens, *map_unpermute_all(r.rows, r.routed, list(r.tokens.shape), None, r.map)[1:3], r.map, r.rows, r.probs, False,
            list(r.tokens.shape)),
           lambda g, o, w, m, rows, p, padded, s, r=r: grads(lambda a, b: map_unpermute(a, r.routed, s, b, m), (rows, p), g), label=label)
      for label, r in ROUTES.items()],
]


def of_gate(r, score, label, **options):
    def reference(s, g, e, eps=1e-20, **o):
        return grads(lambda x: gate(score(x).gather(-1, e.long()), **o), (r.logits,), g)

    return Case("npu_moe_gating_top_k_backward", (score(r.logits), rand(r.count, r.k, seed=4), r.choices), reference, options, label=label)


def softmax(x):
    return torch.softmax(x, -1)


SEVEN, ONE, LAST = ROUTES.values()
GATES = [
    *each("npu_moe_gating_top_k_softmax", lambda r: (r.logits, None, r.k), top_k_softmax, only=TWO),
    Case("npu_moe_gating_top_k_softmax_v2", (SEVEN.logits,), top_k_softmax_v2, {"k": 3, "output_softmax": True}, label="three of seven"),
    Case("npu_moe_gating_top_k_softmax_v2", (ONE.logits,), top_k_softmax_v2, {}, label="one token"),
    Case("npu_moe_gating_top_k_softmax_v2", (SEVEN.logits,), top_k_softmax_v2,
         {"k": 7, "renorm": 1, "finished": torch.arange(9) % 2 == 0}, label="all experts, renormed, finished"),
    Case("npu_moe_gating_top_k", (SEVEN.logits, 3), top_k, {"norm_type": 1, "routed_scaling_factor": 0.5, "bias": rand(7, seed=5),
                                                            "out_flag": True, "eps": 1e-20}, grad=(0,), label="three of seven"),
    Case("npu_moe_gating_top_k", (ONE.logits, 5), top_k, {"renorm": 1, "out_flag": True}, grad=(0,), label="one token, all experts"),
    of_gate(SEVEN, torch.sigmoid, "three of seven", norm_type=1, eps=1e-20),
    of_gate(ONE, softmax, "one token", renorm=1, routed_scaling_factor=3.0),
    of_gate(LAST, softmax, "one choice", routed_scaling_factor=0.25),
]


def numbers(*values):
    return torch.tensor(values, dtype=INT)


def sources(r):
    return torch.arange(r.count * r.k, dtype=INT).view(r.k, r.count).t().contiguous()


COPIES = torch.tensor([[1, 9, 0], [2, 3, 8], [2, 1, 6], [1, 4, 0], [2, 7, 0], [1, 5, 0], [1, 2, 0]], dtype=INT)
ROUTING = [
    *each("npu_moe_init_routing", lambda r: (r.tokens, sources(r), r.choices, r.count), init_routing, only=("three of seven",
        "one number")),
    *[Case("npu_moe_compute_expert_tokens", (sorted_experts, count),
           lambda s, n: torch.tensor([int((s <= e).sum()) for e in range(n)], dtype=INT), label=label)
      for label, sorted_experts, count in (("three of seven", SEVEN.choices.flatten().sort().values, 7),
                                           ("many", torch.arange(200, dtype=INT) // 4, 50))],
    *[Case("npu_moe_init_routing_quant", (r.tokens, r.choices), init_routing_quant, {"expert_num": r.experts, **options}, label=label)
      for label, r, options in (("static with an offset", SEVEN, {"quant_mode": 0, "scale": torch.tensor([20.0]), "active_num": 0,
                                                                  "offset": torch.tensor([-3.0]), "expert_tokens_num_mode": 1}),
                                ("a scale for each expert", SEVEN, {"scale": rand(7, 4).abs() + 0.5, "active_num": 27}))],
    *[Case("npu_moe_finalize_routing", args, finalize, label=label) for label, args in {
        "three of seven": (SEVEN.rows, SEVEN.tokens, None, rand(7, 4), SEVEN.weights, torch.randperm(27,
            generator=torch.Generator().manual_seed(0)).to(INT), SEVEN.choices, 2),
        "one token": (ONE.rows, ONE.tokens, ONE.tokens + 1, None, ONE.weights, numbers(1, 0), None)}.items()],
    Case("npu_moe_re_routing", (rand(9, 3), torch.tensor([[0, 4], [0, 5]])), lambda t, c, **_: re_routed(t, c),
         {"expert_token_num_type": 1, "idx_type": 0}, label="an expert without tokens"),
    Case("npu_moe_re_routing", (rand(7, 1), torch.tensor([[1, 0, 2], [0, 0, 0], [0, 3, 1]])), re_routed, {"per_token_scales": rand(7)},
         label="a rank without tokens"),
    *[Case("npu_moe_update_expert", (choices, COPIES), update_expert, options, label=label) for label, choices, options in (
        ("three of seven", SEVEN.choices, {"local_rank_id": 1, "world_size": 4}),
        ("in turn", SEVEN.choices.long(), {"balance_mode": 1, "active_mask": torch.arange(9) % 3 > 0}),
        ("pruned", ONE.choices, {"expert_scales": ONE.weights, "pruning_threshold": torch.tensor([[0.1, 0.9]]), "local_rank_id": 0,
                                 "world_size": 2}))],
]
CASES = [*TOKENS, *GATES, *ROUTING]
