"""Mixture of experts beyond a call at a time: there and back, gradients of keyword arguments, what is refused."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
import cases_moe  # noqa: E402
from test_custom_ops import to  # noqa: E402

NPU = torch.ops.npu


@pytest.mark.parametrize("count", [None, 9])
def test_tokens_come_back_from_their_experts(count):
    """As Megatron does it: a dropped token adds nothing."""
    torch.manual_seed(0)
    tokens, probs = torch.randn(8, 6, requires_grad=True), torch.rand(8, 3, requires_grad=True)
    experts = torch.stack([torch.randperm(5)[:3] for _ in range(8)])
    order = experts.flatten().argsort(stable=True)[:count]
    spread = torch.zeros(24, 6).index_copy(0, order, tokens[order // 3] * 2)
    expected = (spread.view(8, 3, 6) * probs.unsqueeze(-1)).sum(1)
    there, places = NPU.npu_moe_token_permute(tokens.npu(), experts.npu(), count)
    back = NPU.npu_moe_token_unpermute(there * 2, places, probs.npu())
    torch.testing.assert_close(back.cpu(), expected)
    seed = torch.randn(8, 6)
    for actual, wanted in zip(torch.autograd.grad(back, (tokens, probs), seed.npu()), torch.autograd.grad(expected, (tokens, probs), seed)):
        torch.testing.assert_close(actual, wanted)


@pytest.mark.parametrize("padded", [False, True])
def test_probs_are_differentiated_with_a_routing_map(padded):
    tokens, probs = (t.clone().requires_grad_() for t in (cases_moe.TOKENS, cases_moe.PROBS))
    options = {"num_out_tokens": cases_moe.ROW_COUNT[padded], "drop_and_pad": padded}

    def run(permute, unpermute, device):
        x, p, routes = tokens.to(device), probs.to(device), cases_moe.ROUTES.to(device)
        rows, chosen, indices = permute(x, routes, probs=p, **options)
        out = unpermute(rows * chosen.unsqueeze(-1), indices, [6, 5], probs=p, routing_map=routes, drop_and_pad=padded)
        return [g.cpu() for g in torch.autograd.grad(out.square().sum(), (tokens, probs))]

    expected = run(cases_moe.map_permute, cases_moe.map_unpermute, "cpu")
    for unpermute in (NPU.npu_moe_token_unpermute_with_routing_map,
                      lambda *a, **k: NPU._npu_moe_token_unpermute_with_routing_map(*a, **k)[0]):
        torch.testing.assert_close(run(NPU.npu_moe_token_permute_with_routing_map, unpermute, "npu"), expected)


def test_of_equal_scores_the_first_expert_wins():
    _, experts, _ = NPU.npu_moe_gating_top_k(torch.zeros(2, 64).npu(), 4)
    assert experts.tolist() == [[0, 1, 2, 3]] * 2
    assert NPU.npu_moe_gating_top_k_softmax(torch.zeros(2, 64).npu(), None, 4)[1].tolist() == [[0, 1, 2, 3]] * 2


def test_experts_come_in_the_order_of_a_stable_sort():
    scores = torch.randint(0, 9, (70, 300), generator=torch.Generator().manual_seed(0)).float()  # many are equal
    scores[0, 5] = scores[0, 7] = float("nan")
    scores[1, 3], scores[1, 4] = float("inf"), -float("inf")
    experts = NPU.npu_moe_gating_top_k_softmax(scores.npu(), None, 20)[1].cpu()
    assert torch.equal(experts.long(), torch.sort(scores, dim=-1, descending=True, stable=True)[1][:, :20])


NONE, PAIRS = torch.ones(0, 6), torch.ones(0, 2, dtype=torch.int32)


@pytest.mark.parametrize("name, args, kwargs, shapes", [
    ("npu_moe_gating_top_k", (NONE, 2), {}, [(0, 2), (0, 2), (0, 6)]),
    ("npu_moe_init_routing_v2", (NONE, PAIRS), {"expert_num": 4, "expert_tokens_num_flag": True}, [(0, 6), (0,), (4,), (0,)]),
    ("npu_moe_finalize_routing", (NONE, None, None, None, torch.ones(0, 2), PAIRS[:, 0], None), {}, [(0, 6)]),
    ("npu_moe_token_permute", (NONE, PAIRS), {}, [(0, 6), (0,)]),
    ("npu_moe_token_unpermute", (NONE, PAIRS[:, 0], torch.ones(0, 2)), {}, [(0, 6)]),
    ("npu_moe_token_permute_with_routing_map", (NONE, PAIRS.bool()), {}, [(0, 6), (0,)]),
    ("npu_moe_token_unpermute_with_routing_map", (NONE, PAIRS[:, 0], [0, 6]), {}, [(0, 6)]),
])  # fmt: skip
def test_no_tokens(name, args, kwargs, shapes):
    result = getattr(NPU, name)(*to("npu", args), **kwargs)
    torch.npu.synchronize()
    assert [tuple(t.shape) for t in (result if isinstance(result, tuple) else (result,)) if t is not None] == shapes


X, IDX = torch.ones(4, 6), torch.zeros(4, 2, dtype=torch.int32)


@pytest.mark.parametrize("name, args, kwargs, message", [
    ("npu_moe_token_permute", (X, IDX), {"padded_mode": True}, "npu_moe_token_permute does not support padded_mode"),
    ("npu_moe_token_unpermute", (X, IDX[:, 0], torch.ones(1, 3)), {}, "sorted_indices has 4 numbers, expected 3 for each token"),
    ("npu_moe_gating_top_k_softmax", (X, None, 7), {}, "k is 7, expected 1 to 6"),
    ("npu_moe_gating_top_k", (X, 2), {"group_count": 4}, "group_count is 4, expected a number that divides 6 experts"),
    ("npu_moe_gating_top_k", (X, 2), {"norm_type": 2}, "norm_type is 2, expected 0 to 1"),
    ("npu_moe_gating_top_k", (X, 2), {"input_ids": IDX[:, 0]}, "npu_moe_gating_top_k does not support input_ids"),
    ("npu_moe_init_routing_v2", (X, IDX), {"expert_num": 4, "quant_mode": 2}, "npu_moe_init_routing_v2 does not support quant_mode 2"),
    ("npu_moe_init_routing_v2", (X, IDX[:3]), {"expert_num": 4}, "expert_idx has 3 rows, expected one for each of 4 tokens"),
    ("npu_moe_init_routing_v2", (X, IDX), {}, "neither expert_num nor active_expert_range says how many experts there are"),
    ("npu_moe_init_routing_v2", (X, IDX), {"expert_num": 4, "drop_pad_mode": 1}, "drop_pad_mode 1 needs expert_capacity"),
    ("npu_moe_init_routing_quant", (X, IDX), {"quant_mode": 0}, "quant_mode 0 needs a scale"),
    ("npu_moe_finalize_routing", (X, None, None, X, None, IDX.flatten(), None), {}, "bias needs export_for_source_row"),
    ("npu_moe_re_routing", (X, IDX), {"idx_type": 1}, "npu_moe_re_routing does not support idx_type"),
    ("npu_moe_update_expert", (IDX, IDX), {"local_rank_id": 3, "world_size": 2}, "local_rank_id is 3, expected 0 to 1"),
    ("npu_moe_token_unpermute_with_routing_map", (X, IDX[:, 0], [4, 6]), {"probs": torch.ones(4, 2)}, "probs need a routing_map"),
])  # fmt: skip
@pytest.mark.parametrize("device", ["npu", "meta"])
def test_bad_arguments_are_named(name, args, kwargs, message, device):
    with pytest.raises((RuntimeError, NotImplementedError), match=message):
        getattr(NPU, name)(*to(device, args), **to(device, kwargs))


@pytest.mark.parametrize("name, args", [
    ("npu_moe_token_unpermute", (X, torch.tensor([0, 1, 2, 9], dtype=torch.int32))),
    ("npu_moe_token_unpermute", (X, torch.tensor([0, 1, 2, -1], dtype=torch.int32))),
    ("npu_moe_update_expert", (IDX + 7, torch.ones(2, 3, dtype=torch.int32), None, None, None, 0, 2)),
    ("npu_moe_re_routing", (X, torch.full((2, 2), 9))),
    ("npu_moe_finalize_routing", (X, None, None, None, None, torch.tensor([0, 1, 2, 4], dtype=torch.int32), None)),
    ("npu_moe_token_unpermute_with_routing_map", (X, torch.tensor([0, 1, 2, 4], dtype=torch.int32), [4, 6])),
])  # fmt: skip
def test_numbers_out_of_range_are_errors(name, args):
    function = getattr(NPU, name)
    keywords = [a.name for a in function.default._schema.arguments if a.kwarg_only]
    count = sum(not a.kwarg_only for a in function.default._schema.arguments)
    with pytest.raises(RuntimeError):
        function(*to("npu", args[:count]), **dict(zip(keywords, args[count:])))
        torch.npu.synchronize()
