"""Compiled graphs with operators that cannot be captured: these run between captured parts, and results are those of eager runs."""

import warnings

import pytest
import torch
from torch import nn

import torch_npu  # noqa: F401
from torch_npu.dynamo.backend import npugraphs
from torch_npu.dynamo.capture import MOST_CAPTURES

pytestmark = [pytest.mark.filterwarnings("ignore:The AccumulateGrad node"), pytest.mark.usefixtures("restore_device", "counters")]


@torch.library.custom_op("pieces_test::halves_of_host_sum", mutates_args=())
def halves_of_host_sum(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    factor = x.sum().item()  # waits for the card
    first, second = (x * factor).chunk(2)
    return first.clone(), second.clone()


@halves_of_host_sum.register_fake
def _(x):
    half = x.shape[0] // 2
    return x.new_empty(half, *x.shape[1:]), x.new_empty(x.shape[0] - half, *x.shape[1:])


halves_of_host_sum.register_autograd(
    lambda ctx, first, second: torch.cat([first, second]) * ctx.saved_tensors[0].sum(),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]))


def chain(x, length):
    for _ in range(length):
        x = x.sin() * 1.5
    return x


def with_a_wait(x, before=2, after=2):
    first, second = halves_of_host_sum(chain(x, before))
    return chain(first, after), chain(second, after)


def expect(function, compiled, *shape, runs=5):
    for i in range(runs):
        x = torch.randn(*shape, generator=torch.Generator().manual_seed(i)).npu()
        assert all(map(torch.equal, compiled(x), function(x)))  # nothing of a run lives during the next one


def test_an_operator_that_waits_runs_between_two_captures(counters):
    compiled = torch.compile(with_a_wait, backend=npugraphs, fullgraph=True)
    reason = "pieces_test.halves_of_host_sum.default: .*not permitted when stream is capturing"
    with pytest.warns(UserWarning, match=f"captured in pieces.*: {reason}"):
        expect(with_a_wait, compiled, 6, 3)
    # The first two runs are eager, the second of them because the capture failed; then each piece is run and captured once.
    assert counters("graphs in pieces", "captures", "eager runs", "replays") == [1, 2, 4, 4]


@pytest.mark.parametrize("before, after, pieces", [(2, 2, 2), (2, 0, 1), (0, 2, 1), (1, 1, 1), (1, 0, 0), (0, 0, 0)])
def test_short_pieces_run_with_what_is_refused(before, after, pieces, counters):
    def function(x):
        return with_a_wait(x, before, after)

    compiled = torch.compile(function, backend=npugraphs)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        expect(function, compiled, 4)
    assert counters("captures") == [pieces] and len(said) == 1
    assert ("captured in pieces" if pieces else "is not captured and runs eagerly") in str(said[0].message)


def test_tensors_of_the_cpu_stay_between_captures(counters):
    def function(x):
        y = chain(x, 3)
        return [chain(y + torch.arange(8.0)[2:2 + x.shape[0]].npu(), 3)]

    compiled = torch.compile(function, backend=npugraphs)
    with pytest.warns(UserWarning, match="captured in pieces.*: it computes on cpu too"):
        expect(function, compiled, 4)
    assert counters("captures") == [2]


def test_inputs_that_a_piece_changes(counters):
    def function(x):
        x.add_(1)
        first, second = with_a_wait(x)
        x[:2].mul_(first)
        return x, second

    compiled = torch.compile(function, backend=npugraphs)
    with pytest.warns(UserWarning, match="captured in pieces"):
        for i in range(5):
            x = torch.full((4,), 0.1 * i, device="npu")
            y = x.clone()
            for one, other in zip(compiled(x), function(y), strict=True):
                assert torch.equal(one, other)
            assert torch.equal(x, y)
    assert counters("captures")[0] >= 1


@pytest.mark.parametrize("dynamic", [False, True])
def test_sizes_that_change(dynamic, counters):
    compiled = torch.compile(with_a_wait, backend=npugraphs, dynamic=dynamic)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.compile: a graph is captured in pieces")
        for rows in (4, 6, 4, 6, 8, 8, 8, 4):
            expect(with_a_wait, compiled, rows, 3, runs=2)
    assert counters("captures")[0] >= 4 and counters("replays")[0] > 8


def test_training_steps(counters):
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.after = nn.Linear(6, 8), nn.Linear(8, 4)

        def forward(self, x):
            first, second = halves_of_host_sum(chain(self.before(x), 2))
            return chain(self.after(torch.cat([second, first])), 2)

    torch.manual_seed(0)
    nets = [Network().npu() for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    models = [torch.compile(nets[0], backend=npugraphs), nets[1]]
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.01) for net in nets]
    with pytest.warns(UserWarning, match="captured in pieces"):
        for i in range(MOST_CAPTURES + 8):  # for what runs eagerly makes its results anywhere, which takes a while to be seen
            x = torch.randn(4, 6, generator=torch.Generator().manual_seed(i)).npu()
            losses = []
            for model, optimizer in zip(models, optimizers, strict=True):
                optimizer.zero_grad()
                loss = model(x).square().mean()
                loss.backward()
                optimizer.step()
                losses.append(loss.detach())
            assert torch.equal(*losses)
    for one, other in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        assert torch.equal(one, other)
    assert counters("graphs in pieces", "graphs") == [1, 2] and counters("captures")[0] >= 3  # nothing of the backward pass waits
    assert counters("eager runs")[0] < MOST_CAPTURES + 8


def test_a_graph_on_several_cards_is_not_cut():
    if torch.npu.device_count() < 2:
        pytest.skip("needs two npus")

    def function(x):
        return [chain(chain(x, 3).to("npu:1"), 3)]

    compiled = torch.compile(function, backend=npugraphs)
    with pytest.warns(UserWarning, match="not captured and runs eagerly: it computes on several cards"):
        expect(function, compiled, 4)
