"""Reductions that run again, with other memory: a cached call keeps its iterator (Note [Prepared iterators] in
softnpu/kernels/engine/call.h). Results are the CPU's to the bit."""

import pytest
import torch

TURNS = 4  # a call is kept from its second time on
TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64)
REDUCTIONS = {
    "sum": lambda x: x.sum(),
    "sum of rows": lambda x: x.sum(1),
    "sum of planes, kept": lambda x: x.sum((0, 2), keepdim=True),
    "sum in double": lambda x: x.sum(-1, dtype=torch.float64),
    "amax": lambda x: x.amax(),
    "amax of rows, kept": lambda x: x.amax(1, keepdim=True),
    "amin of planes": lambda x: x.amin((0, -1)),
    "prod of rows": lambda x: x.prod(1),
    "into a result with gaps": lambda x: torch.sum(x, 1, out=x.new_zeros(4, 10)[:, ::2]),
    "into a result with gaps, amin": lambda x: torch.amin(x, 1, out=x.new_zeros(4, 10)[:, ::2]),
}
LAYOUTS = {
    "dense": lambda x: x,
    "permuted": lambda x: x.permute(2, 0, 1).contiguous().permute(1, 2, 0),
    "every second": lambda x: x.repeat_interleave(2, 2)[..., ::2],
    "expanded": lambda x: x[:, :1].expand(4, 6, 5),
}


def drawn(turn: int, dtype: torch.dtype) -> torch.Tensor:
    x = torch.randn(4, 6, 5, generator=torch.Generator().manual_seed(turn), dtype=torch.float64) * 3
    if turn == 2 and dtype.is_floating_point:
        x[1, 2, 3] = torch.nan
    return x.to(dtype)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_every_turn_reads_its_own_memory(name, dtype):
    if dtype == torch.int64 and name == "sum in double":
        pytest.skip("the same on integers is a cast and a sum")
    for layout in LAYOUTS.values():
        on_cpu = [REDUCTIONS[name](layout(drawn(turn, dtype))) for turn in range(TURNS)]
        on_card = [REDUCTIONS[name](layout(drawn(turn, dtype).npu())) for turn in range(TURNS)]  # all alive at once
        for expected, result in zip(on_cpu, on_card, strict=True):
            torch.testing.assert_close(result.cpu(), expected, rtol=0, atol=0, equal_nan=True)
            assert result.stride() == expected.stride()


def test_sums_that_threads_share_are_right_again():
    for turn in range(TURNS):
        x = torch.randn(3, 100_000, generator=torch.Generator().manual_seed(turn))
        on_card = x.npu()
        assert torch.equal(on_card.sum().cpu(), x.sum())
        assert torch.equal(on_card.sum(0).cpu(), x.sum(0))
        assert torch.equal(on_card.sum(1).cpu(), x.sum(1))


def test_a_sum_of_nothing_stays_zero():
    for _ in range(TURNS):
        assert torch.equal(torch.ones(0, 3).npu().sum(0).cpu(), torch.zeros(3))


def test_a_profile_does_not_show_the_operators_that_the_kernel_calls():
    x = torch.ones(4).npu()
    for _ in range(TURNS):
        with torch.autograd.profiler.profile(use_kineto=False) as profile:
            total = x.sum()
        assert total.item() == 4
        names = {event.name for event in profile.function_events}
        assert "aten::sum" in names and "aten::fill_" not in names
