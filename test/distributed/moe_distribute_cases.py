"""Tokens that go to the cards of their experts and come back, against the same on one CPU. Runs in the ranks."""

import torch
import torch.distributed as dist
from fused_cases import NPU, TOLERANCE, close, every, made, message_of, name
from torch._subclasses.fake_tensor import FakeTensorMode

WIDTH = 8


def chosen(tokens, choices, experts, rank):
    """Experts of each token, none twice."""
    generator = torch.Generator().manual_seed(7 + rank)
    return torch.stack([torch.randperm(experts, generator=generator)[:choices] for _ in range(tokens)]).to(torch.int32)


class Layout:
    """Who gets what: `rows[card]` lists (expert of the card, sender, token, expert of all or None for a shared one), as they arrive."""

    def __init__(self, ids, experts, shared=1, shared_ranks=0, active=None):
        size = dist.get_world_size()
        each = experts // (size - shared_ranks)
        self.local = [1 if card < shared_ranks else each for card in range(size)]
        self.rows = [[] for _ in range(size)]
        for sender in range(size):
            for token, own in enumerate(ids[sender].tolist()):
                on = [True] * len(own) if active is None else active[sender][token].expand(len(own)).tolist()
                for expert, flag in zip(own, on):
                    if flag and expert < experts:
                        self.rows[shared_ranks + expert // each].append((expert % each, sender, token, expert))
                for s in range(shared if shared_ranks and any(on) else 0):
                    copies = shared_ranks // shared
                    self.rows[s * copies + sender % copies].append((0, sender, token, None))
        for rows in self.rows:
            rows.sort(key=lambda row: row[:3])

    def counts(self, card):
        """Rows of each expert and sender."""
        table = torch.zeros(self.local[card], dist.get_world_size(), dtype=torch.int64)
        for expert, sender, *_ in self.rows[card]:
            table[expert, sender] += 1
        return table


def arrived(x, layout, card):
    return torch.stack([x[sender][token] for _, sender, token, _ in layout.rows[card]]) if layout.rows[card] else x[0][:0]


def networks(rows, layout, card, dtype):
    """What the experts of a card make of their rows: a factor each."""
    factors = [3.0 if expert is None else 1.0 + expert for *_, expert in layout.rows[card]]
    return (rows.float() * torch.tensor(factors, device=rows.device).view(-1, 1)).to(dtype)


def expected_sum(x, ids, weights, rank, experts, shared=0, active=None, special=None):
    """The weighted sum over a token's experts, each of which multiplies the token by one more than its number."""
    total = torch.zeros(x[rank].shape)
    for token, own in enumerate(ids[rank].tolist()):
        on = [True] * len(own) if active is None else active[rank][token].expand(len(own)).tolist()
        for choice, expert in enumerate(own):
            if on[choice]:
                value = x[rank][token].float() * (1.0 + expert) if expert < experts else special(x[rank][token].float(), expert - experts)
                total[token] += weights[rank][token, choice] * value
        total[token] += 3.0 * shared * any(on) * x[rank][token].float()
    return total


def there_and_back(version, tokens=5, choices=2, each=2, dtype=torch.float16, shared=1, shared_ranks=0, active=None, batch=0, kind=1):
    rank, size = dist.get_rank(), dist.get_world_size()
    experts = each * (size - shared_ranks)
    sizes = tokens if isinstance(tokens, list) else [tokens] * size
    x, ids = every(lambda r: made(sizes[r], WIDTH, rank=r, dtype=dtype)), every(lambda r: chosen(sizes[r], choices, experts, r))
    weights = every(lambda r: made(sizes[r], choices, rank=r, seed=1))
    layout = Layout(ids, experts, shared, shared_ranks, active)
    common = {"shared_expert_num": shared, "shared_expert_rank_num": shared_ranks, "global_bs": batch}
    if active is not None:
        common["x_active_mask"] = active[rank].squeeze(-1).npu()
    place = (name(), size, rank, experts)
    dispatch = NPU.npu_moe_distribute_dispatch_v2 if version == 2 else NPU.npu_moe_distribute_dispatch
    rows, _, places, nums, ends, _, _ = dispatch(x[rank].npu(), ids[rank].npu(), *place, expert_token_nums_type=kind, **common)
    count, table = len(layout.rows[rank]), layout.counts(rank)
    assert torch.equal(rows[:count].cpu(), arrived(x, layout, rank)) and rows.dtype == dtype
    assert torch.equal(nums.cpu(), table.sum(1) if kind == 1 else table.sum(1).cumsum(0))
    assert torch.equal(ends.cpu().long(), table.flatten().cumsum(0))
    answers = rows.clone()
    answers[:count] = networks(rows[:count], layout, rank, dtype)
    args = (answers, ids[rank].npu(), places, ends, weights[rank].npu(), *place)
    expected = expected_sum(x, ids, weights, rank, experts, shared if shared_ranks else 0, active)
    more = made(sizes[rank], WIDTH, rank=rank, seed=4, dtype=dtype)
    if version == 2:
        close(NPU.npu_moe_distribute_combine_v2(*args, **common, shared_expert_x=more.npu()), expected + more.float(), dtype)
        residual, gamma = made(sizes[rank], 1, WIDTH, rank=rank, seed=5, dtype=dtype), made(WIDTH, rank=rank, seed=6, dtype=dtype)
        y, rstd, total = NPU.npu_moe_distribute_combine_add_rms_norm(*args[:5], residual.npu(), gamma.npu(), *place, **common)
        whole = expected.unsqueeze(1) + residual.float()
        close(total, whole, dtype)
        factor = (whole.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
        torch.testing.assert_close(rstd.cpu(), factor, rtol=2e-2, atol=2e-2)
        close(y, whole * factor * gamma.float(), dtype)
    else:
        close(NPU.npu_moe_distribute_combine(*args, **common), expected, dtype)
    return count


def every_type():
    for version in (1, 2):
        for dtype in TOLERANCE:
            there_and_back(version, dtype=dtype)


def layouts():
    """One expert on a card, more choices than a card has experts, no tokens at some cards, other numbers of tokens."""
    size = dist.get_world_size()
    for version in (1, 2):
        there_and_back(version, each=1, choices=1, kind=0)
        there_and_back(version, each=1, choices=size, tokens=3)
        there_and_back(version, each=4, choices=3, tokens=1, kind=0)
        there_and_back(version, tokens=[4 - rank % 3 for rank in range(size)], batch=4 * size)


def shared_experts():
    """Cards in front have experts that every token goes to; a shared expert may be on several."""
    size = dist.get_world_size()
    there_and_back(1, shared_ranks=1, tokens=4)
    there_and_back(2, shared_ranks=1, tokens=4)
    if size == 4:
        there_and_back(2, shared=1, shared_ranks=2)
        there_and_back(2, shared=2, shared_ranks=2)
        there_and_back(2, shared=1, shared_ranks=3)


def masks():
    size = dist.get_world_size()
    for version in (1, 2):
        there_and_back(version, tokens=4, active=[torch.arange(4).view(4, 1) < 4 - rank % 3 for rank in range(size)])
    pairs = [torch.tensor([[1, 0], [1, 1], [0, 0], [0, 1]], dtype=torch.bool)] * size
    there_and_back(2, tokens=4, active=pairs)


def quantised():
    """Rows of int8: by the experts' scales, by the largest number of a row, by both."""
    rank, size = dist.get_rank(), dist.get_world_size()
    experts = 2 * size
    x, ids = every(lambda r: made(5, WIDTH, rank=r, dtype=torch.float16)), every(lambda r: chosen(5, 2, experts, r))
    layout, scales = Layout(ids, experts), made(experts, WIDTH, rank=0, seed=3).abs() * 20
    place, count = (name(), size, rank, experts), len(layout.rows[rank])
    owners = torch.tensor([expert for *_, expert in layout.rows[rank]], dtype=torch.long)
    plain = arrived(x, layout, rank).float()
    for dispatch in (NPU.npu_moe_distribute_dispatch, NPU.npu_moe_distribute_dispatch_v2):
        for mode, given in ((1, scales), (2, None), (2, scales)):
            more = {} if given is None else {"scales": given.npu()}
            rows, factors, *_ = dispatch(x[rank].npu(), ids[rank].npu(), *place, quant_mode=mode, **more)
            wide = plain if given is None else plain * given[owners]
            most = wide.abs().amax(-1, keepdim=True)
            assert torch.equal(rows[:count].cpu(), (wide if mode == 1 else wide * (127 / most)).round().clamp(-128, 127).to(torch.int8))
            if mode == 2:
                torch.testing.assert_close(factors[:count].cpu(), most.squeeze(-1) / 127)


def special_experts():
    """Experts behind the others: nothing, the token, and a sum with a constant. They are on no card."""
    rank, size = dist.get_rank(), dist.get_world_size()
    experts, dtype = 2 * size, torch.float16
    x = every(lambda r: made(6, WIDTH, rank=r, dtype=dtype))
    ids = every(lambda r: chosen(6, 3, experts + 4, r))  # one of zero, one of copy, two of constants
    weights = every(lambda r: made(6, 3, rank=r, seed=1))
    alphas = [made(2, WIDTH, rank=0, seed=seed, dtype=dtype) for seed in (2, 3, 4)]
    layout = Layout(ids, experts)
    place, numbers = (name(), size, rank, experts), {"zero_expert_num": 1, "copy_expert_num": 1, "const_expert_num": 2}
    rows, _, places, _, ends, *_ = NPU.npu_moe_distribute_dispatch_v2(x[rank].npu(), ids[rank].npu(), *place, **numbers)
    count = len(layout.rows[rank])
    assert torch.equal(rows[:count].cpu(), arrived(x, layout, rank))
    answers = rows.clone()
    answers[:count] = networks(rows[:count], layout, rank, dtype)
    a1, a2, v = (t.float() for t in alphas)

    def special(token, which):
        return torch.zeros(WIDTH) if which == 0 else token if which == 1 else a1[which - 2] * token + a2[which - 2] * v[which - 2]

    expected = expected_sum(x, ids, weights, rank, experts, special=special)
    names = ("const_expert_alpha_1", "const_expert_alpha_2", "const_expert_v")
    more = dict(zip(names, (t.npu() for t in alphas)), ori_x=x[rank].npu(), **numbers)
    args = (answers, ids[rank].npu(), places, ends, weights[rank].npu())
    close(NPU.npu_moe_distribute_combine_v2(*args, *place, **more), expected, dtype)
    zero, one = torch.zeros(6, 1, WIDTH, dtype=dtype).npu(), torch.ones(WIDTH, dtype=dtype).npu()
    close(NPU.npu_moe_distribute_combine_add_rms_norm(*args, zero, one, *place, **more)[2], expected.unsqueeze(1), dtype)


def weights_go_along():
    rank, size = dist.get_rank(), dist.get_world_size()
    ids = every(lambda r: chosen(5, 2, 2 * size, r))
    x, weights = every(lambda r: made(5, WIDTH, rank=r, dtype=torch.float16)), every(lambda r: made(5, 2, rank=r, seed=1))
    layout = Layout(ids, 2 * size)
    expected = torch.tensor([weights[s][t, ids[s][t].tolist().index(e)] for _, s, t, e in layout.rows[rank]])
    for dispatch in (NPU.npu_moe_distribute_dispatch, NPU.npu_moe_distribute_dispatch_v2):
        *_, out = dispatch(x[rank].npu(), ids[rank].npu(), name(), size, rank, 2 * size, expert_scales=weights[rank].npu())
        assert torch.equal(out[: len(expected)].cpu(), expected)


def many_times():
    """Between other work of the stream and other collectives of the group; the plans of the calls come from a cache."""
    for _ in range(6):
        there_and_back(2, tokens=4)
        dist.all_reduce(z := torch.ones(3).npu())
        assert (z == dist.get_world_size()).all()


def shapes_without_a_card():
    with FakeTensorMode():
        x, ids = torch.empty(4, 16, device="npu", dtype=torch.float16), torch.empty(4, 3, device="npu", dtype=torch.int32)
        shapes = [t.shape for t in NPU.npu_moe_distribute_dispatch(x, ids, "any", 8, 1, 16)]
        assert shapes == [(64, 16), (64,), (12,), (2,), (16,), (0,), (0,)]
        shapes = [t.shape for t in NPU.npu_moe_distribute_dispatch_v2(x, ids, "any", 8, 0, 14, shared_expert_rank_num=1, tp_world_size=1)]
        assert shapes == [(32, 16), (32,), (32 * 128,), (1,), (8,), (1,), (0,)]
        shapes = [t.shape for t in NPU.npu_moe_distribute_dispatch(x, ids, "any", 8, 1, 16, expert_scales=torch.empty(4, 3, device="npu"))]
        assert shapes[4:] == [(16 + 32 * 2 * 3,), (0,), (64,)]


def refused():
    size, rank = dist.get_world_size(), dist.get_rank()
    x, ids = torch.ones(4, 8).half().npu(), torch.zeros(4, 1, dtype=torch.int32).npu()
    dispatch = NPU.npu_moe_distribute_dispatch_v2
    calls = [
        lambda: dispatch(x, ids, "nobody", size, rank, size),
        lambda: dispatch(x, ids, name(), size, size, size),
        lambda: dispatch(x, ids, name(), size, rank, size + 1),
        lambda: dispatch(x, ids, name(), size, rank, size, quant_mode=4),
        lambda: dispatch(x, ids, name(), size + 1, rank, size + 1),
        lambda: dispatch(x, ids, name(), size, rank, size, y_dtype=5),
        lambda: dispatch(x, ids, name(), size, rank, size, performance_info=torch.zeros(size, dtype=torch.int64).npu()),
        lambda: dispatch(x, ids, name(), size, rank, size, tp_world_size=2),
        lambda: NPU.npu_moe_distribute_combine_v2(x, ids, ids.flatten(), ids.flatten(), ids.float(), name(), size, rank, size,
                                                  comm_quant_mode=2),
    ]
    messages = [message_of(call) for call in calls]
    there_and_back(2)  # the group still works
    return messages
