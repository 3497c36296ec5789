"""torch.compile(backend="npugraphs") and mode="reduce-overhead": captured graphs equal eager runs."""

import copy
import importlib.metadata
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from torch_npu.dynamo.backend import npugraphs

pytestmark = [pytest.mark.filterwarnings("ignore:The AccumulateGrad node"), pytest.mark.usefixtures("restore_device", "counters")]


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 2)).npu()


def test_the_backend_is_known_by_name():
    names = [entry.name for entry in importlib.metadata.entry_points(group="torch_dynamo_backends")]
    assert "npugraphs" in names and "npugraphs" in torch._dynamo.list_backends()


def test_training_replays_and_equals_eager(counters):
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
    # The backward graph sees the first capture of the forward one as new.
    assert counters("graphs", "captures", "replays", "eager runs") == [2, 2, 7, 3]


def test_a_result_of_the_last_run_may_live_during_the_next(counters):
    compiled, y = torch.compile(lambda x: x * 2, backend=npugraphs), None
    for i in range(8):
        y = compiled(torch.full((4,), float(i), device="npu"))
        assert y.tolist() == [2 * i] * 4
    assert counters("captures", "replays", "eager runs") == [2, 7, 1]


def test_results_that_are_kept_are_not_overwritten(counters):
    net = network()
    compiled = torch.compile(net, backend=npugraphs)
    inputs = [torch.randn(4, 8).npu() for _ in range(4)]
    with torch.no_grad():
        kept = [compiled(x) for x in inputs]
        assert counters("captures") == [2]
        for x, y in zip(inputs, kept, strict=True):
            assert torch.equal(y, net(x))


def test_dropout_draws_anew_at_each_replay(counters):
    compiled = torch.compile(lambda x: nn.functional.dropout(x, 0.5), backend=npugraphs)
    x = torch.ones(200, device="npu")
    assert len({tuple(compiled(x).tolist()) for _ in range(5)}) == 5
    assert counters("replays")[0] == 4


def test_inputs_that_are_changed_in_place(counters):
    def step(x):
        x.add_(1)
        return x * 2

    compiled, x = torch.compile(step, backend=npugraphs), torch.zeros(3, device="npu")
    for i in range(1, 5):
        assert compiled(x).tolist() == [2 * i] * 3
        assert x.tolist() == [i] * 3
    assert counters("replays")[0] > 0


def test_parameters_that_moved_are_captured_anew(counters):
    net = network()
    compiled, x = torch.compile(net, backend=npugraphs), torch.randn(4, 8).npu()
    with torch.no_grad():
        for _ in range(3):
            compiled(x)
        net[0].weight.data = torch.randn(8, 8).npu()
        assert torch.equal(compiled(x), net(x))
        assert torch.equal(compiled(x), net(x))
    assert counters("captures")[0] >= 1


@pytest.mark.parametrize("function, reason", [
    (lambda x: torch.randperm(4, device="npu") + x, "cannot be captured in a graph"),
    (lambda x: x + torch.ones(4).npu(), "computes on cpu too"),
], ids=["random", "cpu"])
def test_what_cannot_be_captured_runs_eagerly_and_says_why(function, reason, counters):
    compiled, x = torch.compile(function, backend=npugraphs), torch.zeros(4, device="npu")
    with pytest.warns(UserWarning, match=reason):
        for _ in range(3):
            result = compiled(x)
    assert result.sort().values.shape == (4,)
    assert counters("captures")[0] == 0


def test_reduce_overhead_means_graphs(counters):
    net = network()
    compiled, x = torch.compile(net, mode="reduce-overhead"), torch.randn(4, 8).npu()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("error")
        for _ in range(4):
            assert torch.equal(compiled(x), net(x))
    assert counters("replays")[0] >= 2


def test_options_are_refused():
    with pytest.raises(Exception, match="has no options"):
        torch.compile(lambda x: x + 1, backend=npugraphs, options={"depth": 1})(torch.ones(2, device="npu"))


def test_symbolic_sizes_are_captured_for_each_size(counters):
    net = network()
    compiled = torch.compile(net, backend=npugraphs, dynamic=True)
    with torch.no_grad():
        for rows in (3, 5, 7) * 3:
            x = torch.randn(rows, 8).npu()
            assert torch.equal(compiled(x), net(x))
    assert counters("graphs", "captures", "replays", "eager runs") == [1, 3, 6, 3]


def test_another_stream_has_a_capture_of_its_own(counters):
    compiled, x = torch.compile(lambda x: (x * 2).relu() + 1, backend=npugraphs), torch.ones(4, device="npu")
    torch.npu.synchronize()
    for _ in range(3):
        assert compiled(x).tolist() == [3] * 4
    with torch.npu.stream(torch.npu.Stream()):
        for _ in range(3):
            assert compiled(x).tolist() == [3] * 4
    assert counters("captures", "replays", "eager runs") == [2, 4, 2]


def test_each_card_has_a_capture_of_its_own(counters):
    compiled = torch.compile(lambda x: (x * 2).relu() + 1, backend=npugraphs)
    for card in (0, 1) * 3:
        x = torch.ones(4, device=f"npu:{card}")
        y = compiled(x)
        assert y.device == x.device and y.tolist() == [3] * 4
    assert torch.npu.current_device() == 0
    assert counters("captures", "replays") == [2, 4]


def test_threads_share_a_compiled_function(counters):
    net = network()
    compiled = torch.compile(net, backend=npugraphs)
    inputs = [torch.randn(4, 8).npu() for _ in range(40)]
    with torch.no_grad():
        compiled(inputs[0])
        expected = [net(x) for x in inputs]

    def run(x):
        with torch.no_grad():
            return compiled(x).clone()

    with ThreadPoolExecutor(4) as threads:
        for got, wanted in zip(threads.map(run, inputs), expected, strict=True):
            assert torch.equal(got, wanted)
    assert counters("replays")[0] > 0


def test_a_cache_is_written_where_it_is():
    """Not copied to the graph and back: the graph has the in-place operator."""
    cache, x = torch.zeros(64, 4, device="npu"), torch.ones(1, 4, device="npu")

    def write(x, place):
        cache.index_copy_(0, place, x * 2)
        return cache.sum()

    graphs = []
    from torch_npu.dynamo import backend, capture

    def keep(module, inputs, fixed):
        graphs.append(module)
        return capture.eagerly(module)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(capture, "captured", keep)
        compiled = torch.compile(write, backend=backend.npugraphs)
        for i in range(3):
            assert compiled(x, torch.tensor([i]).npu()).item() == 8 * (i + 1)
    names = [str(node.target) for node in graphs[0].graph.nodes]
    assert "aten.index_copy_.default" in names and "aten.copy_.default" not in names


def test_a_function_that_reads_the_old_value_copies():
    def swap(x):
        old = x * 1
        x.copy_(x * 2)
        return old + x

    compiled, x = torch.compile(swap, backend=npugraphs), torch.ones(3, device="npu")
    for i in range(4):
        assert compiled(x).tolist() == [3 * 2**i] * 3
        assert x.tolist() == [2 ** (i + 1)] * 3


def test_a_compiled_function_is_captured_by_the_program():
    net = network()
    compiled, x = torch.compile(net, backend=npugraphs), torch.randn(4, 8).npu()
    with torch.no_grad():
        for _ in range(3):
            compiled(x)
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            y = compiled(x)
        x.copy_(torch.randn(4, 8))
        graph.replay()
        assert torch.equal(y, net(x))


def test_captures_die_with_the_function():
    import gc

    from torch_npu.dynamo import capture

    compiled, x = torch.compile(lambda x: (x * 2).relu() + 1, backend=npugraphs), torch.ones(1 << 16, device="npu")
    for _ in range(3):
        compiled(x)
    assert capture._Instance._addresses
    del compiled
    torch._dynamo.reset()
    gc.collect()
    assert not capture._Instance._addresses
