"""torch.compile(backend="npugraphs") and mode="reduce-overhead": captured graphs equal eager runs."""

import copy
import importlib.metadata
import warnings

import pytest
import torch
from torch import nn

from torch_npu.npu._npugraphs import counters, npugraphs

pytestmark = [pytest.mark.filterwarnings("ignore:The AccumulateGrad node"), pytest.mark.usefixtures("restore_device")]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    counters.update(dict.fromkeys(counters, 0))


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 2)).npu()


def test_the_backend_is_known_by_name():
    names = [entry.name for entry in importlib.metadata.entry_points(group="torch_dynamo_backends")]
    assert "npugraphs" in names and "npugraphs" in torch._dynamo.list_backends()


def test_training_replays_and_equals_eager():
    net = network()
    twin = copy.deepcopy(net)
    compiled = torch.compile(net, backend=npugraphs, fullgraph=True)
    one, two = torch.optim.SGD(net.parameters(), lr=0.1), torch.optim.SGD(twin.parameters(), lr=0.1)
    for _ in range(5):
        x = torch.randn(4, 8).npu()
        losses = []
        for function, optimizer in ((compiled, one), (twin, two)):
            optimizer.zero_grad()
            loss = function(x).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        assert torch.equal(*losses)
    for a, b in zip(net.parameters(), twin.parameters(), strict=True):
        assert torch.equal(a, b)
    assert counters == {"captures": 2, "replays": 8, "eager runs": 2}


def test_a_result_of_the_last_run_may_live_during_the_next():
    compiled, y = torch.compile(lambda x: x * 2, backend=npugraphs), None
    for i in range(8):
        y = compiled(torch.full((4,), float(i), device="npu"))
        assert y.tolist() == [2 * i] * 4
    assert counters == {"captures": 2, "replays": 7, "eager runs": 1}


def test_results_that_are_kept_are_not_overwritten():
    net = network()
    compiled = torch.compile(net, backend=npugraphs)
    inputs = [torch.randn(4, 8).npu() for _ in range(4)]
    with torch.no_grad():
        kept = [compiled(x) for x in inputs]
        assert counters["captures"] == 3
        for x, y in zip(inputs, kept, strict=True):
            assert torch.equal(y, net(x))


def test_dropout_draws_anew_at_each_replay():
    compiled = torch.compile(lambda x: nn.functional.dropout(x, 0.5), backend=npugraphs)
    x = torch.ones(200, device="npu")
    assert len({tuple(compiled(x).tolist()) for _ in range(5)}) == 5
    assert counters["replays"] == 4


def test_inputs_that_are_changed_in_place():
    def step(x):
        x.add_(1)
        return x * 2

    compiled, x = torch.compile(step, backend=npugraphs), torch.zeros(3, device="npu")
    for i in range(1, 5):
        assert compiled(x).tolist() == [2 * i] * 3
        assert x.tolist() == [i] * 3
    assert counters["replays"] > 0


def test_parameters_that_moved_are_captured_anew():
    net = network()
    compiled, x = torch.compile(net, backend=npugraphs), torch.randn(4, 8).npu()
    with torch.no_grad():
        for _ in range(3):
            compiled(x)
        net[0].weight.data = torch.randn(8, 8).npu()
        assert torch.equal(compiled(x), net(x))
        assert torch.equal(compiled(x), net(x))
    assert counters["captures"] >= 1


@pytest.mark.parametrize("function, reason, dynamic", [
    (lambda x: torch.randperm(4, device="npu") + x, "cannot be captured in a graph", False),
    (lambda x: x * 2 + 1, "symbolic sizes", True),
    (lambda x: x + torch.ones(4).npu(), "computes on cpu too", False),
], ids=["random", "dynamic", "cpu"])
def test_what_cannot_be_captured_runs_eagerly_and_says_why(function, reason, dynamic):
    compiled, x = torch.compile(function, backend=npugraphs, dynamic=dynamic), torch.zeros(4, device="npu")
    with pytest.warns(UserWarning, match=reason):
        for _ in range(3):
            result = compiled(x)
    assert result.sort().values.shape == (4,)
    assert counters["captures"] == 0


def test_reduce_overhead_means_graphs():
    net = network()
    compiled, x = torch.compile(net, mode="reduce-overhead"), torch.randn(4, 8).npu()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("error")
        for _ in range(4):
            assert torch.equal(compiled(x), net(x))
    assert counters["replays"] >= 2


def test_options_are_refused():
    with pytest.raises(Exception, match="has no options"):
        torch.compile(lambda x: x + 1, backend=npugraphs, options={"depth": 1})(torch.ones(2, device="npu"))
