"""The parts of the backends of torch.compile by themselves: what is counted as a launch, which operators become in-place ones, what stands
in the way of a capture, and how captures are chosen. test_capture_backend.py compiles.
"""

import threading
import warnings
from types import SimpleNamespace

import pytest
import torch
from torch._dynamo.utils import counters

import torch_npu  # noqa: F401
from torch_npu.dynamo import backend, capture

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    counters.clear()


def npu(*shape, **options):
    return torch.ones(*shape, device="npu", **options)


# ---- Launches ----


@pytest.mark.parametrize("function, number", [
    (lambda x: x + 1, 1), (lambda x: x.view(-1), 0), (lambda x: x.t().t(), 0), (lambda x: (x * 2).t() + 1, 2), (lambda x: x.chunk(2)[0], 0),
    (lambda x: x.add_(1), 0), (lambda x: (x + 1).add_(1), 1), (lambda x: x.sort()[0], 1),
    (lambda x: torch.ones(3, device="npu") + x.sum(), 3)])
def test_launches_are_calls_that_make_memory(function, number):
    found = []

    def count(model, inputs):
        found.append(backend.launches(model.graph))
        return model.forward

    torch.compile(function, backend=count)(npu(4, 4))
    assert found == [number]


@pytest.mark.parametrize("launches, trains, small", [(3, False, True), (4, False, False), (11, True, True), (12, True, False)])
def test_few_launches_are_not_captured(launches, trains, small):
    def function(x):
        for _ in range(launches):
            x = x.sin()
        return x

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        compiled, x = torch.compile(function, backend=backend.npu), npu(3).requires_grad_(trains)
        for _ in range(3):
            assert torch.equal(compiled(x), function(x))
    assert (counters["npu"]["small graphs"] == 1) is small and (counters["npu"]["captures"] == 0) is small
    assert any(f"it has fewer than {12 if trains else 4} operators" in str(w.message) for w in said) is small


def test_options_are_refused_by_name():
    for name in ("npu", "npugraphs"):
        with pytest.raises(ValueError, match=f"^backend '{name}' has no options, but got depth, width$"):
            getattr(backend, name)(None, [], depth=1, width=2)


# ---- In place ----


def changed(build):
    """The graph behind change_in_place; `build` gets the graph and two inputs."""
    graph = torch.fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    x.meta["val"], y.meta["val"] = torch.empty(4, 3, device="meta"), torch.empty(4, 3, device="meta")

    def call(target, *args, like=x, **kwargs):
        node = graph.call_function(target, args, kwargs)
        node.meta["val"] = like if isinstance(like, torch.Tensor) else like.meta["val"]
        return node

    graph.output(build(call, x, y))
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    backend.change_in_place(module)
    graph.lint()
    return [str(node.target) for node in graph.nodes if node.op == "call_function"], module


def test_the_result_that_is_copied_to_its_argument_is_made_there():
    def build(call, x, y):
        total = call(aten.add.Tensor, x, y, alpha=2)
        copy = call(aten.copy_.default, x, total)
        return call(aten.mul.Tensor, copy, y), call(aten.sin.default, total)

    names, module = changed(build)
    assert names == ["aten.add_.Tensor", "aten.mul.Tensor", "aten.sin.default"]
    x, y = torch.ones(4, 3), torch.full((4, 3), 3.0)
    product, sine = module(x, y)
    assert x[0, 0] == 7 and product[0, 0] == 21 and torch.equal(sine, x.sin())


def two(call, x, y):
    call(aten.copy_.default, x, call(aten.add.Tensor, x, y))
    call(aten.copy_.default, y, call(aten.mul.Tensor, y, 2))
    return None


def test_several_inputs_are_changed():
    assert changed(two)[0] == ["aten.add_.Tensor", "aten.mul_.Tensor"]


SMALLER, OTHER = torch.empty(3, device="meta"), torch.empty(4, 3, dtype=torch.float16, device="meta")


@pytest.mark.parametrize("name, build", [
    ("another argument comes first", lambda call, x, y: call(aten.copy_.default, x, call(aten.add.Tensor, y, x))),
    ("no input", lambda call, x, y: call(aten.copy_.default, z := call(aten.sin.default, x), call(aten.add.Tensor, z, y))),
    ("a copy of an input", lambda call, x, y: call(aten.copy_.default, x, y)),
    ("an operator without an in-place form", lambda call, x, y: call(aten.copy_.default, x, call(aten.sum.dim_IntList, x, [0]))),
    ("no argument", lambda call, x, y: call(aten.copy_.default, x, call(aten.ones.default))),
    ("the old value is read later", lambda call, x, y: [v := call(aten.add.Tensor, x, y), old := call(aten.sin.default, x),
                                                        call(aten.copy_.default, x, v), old][-1]),
    ("a view of the old value", lambda call, x, y: [view := call(aten.t.default, x), v := call(aten.add.Tensor, x, y),
                                                    call(aten.copy_.default, x, v), call(aten.sin.default, view)][-1]),
    ("another type", lambda call, x, y: call(aten.copy_.default, x, call(aten.add.Tensor, x, y, like=OTHER))),
    ("another shape", lambda call, x, y: call(aten.copy_.default, x, call(aten.add.Tensor, x, y, like=SMALLER))),
    ("no operator of aten", lambda call, x, y: call(aten.copy_.default, x, call(torch.ops.npu.npu_swiglu.default, x))),
    ("a function", lambda call, x, y: call(aten.copy_.default, x, call(torch.add, x, y))),
], ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_copied_stays_copied(name, build):
    assert "aten.copy_.default" in changed(build)[0]


def test_a_result_of_the_graph_is_no_input():
    def build(call, x, y):
        total = call(aten.add.Tensor, x, y)
        call(aten.copy_.default, x, total)
        return total

    assert changed(build)[0] == ["aten.add.Tensor", "aten.copy_.default"]


def test_in_place_forms():
    assert backend._in_place(aten.index_copy.default) is aten.index_copy_.default
    assert backend._in_place(aten.add.Tensor) is aten.add_.Tensor and backend._in_place(aten.sum.default) is None
    assert backend._in_place(torch.add) is None and backend._in_place(torch.ops.npu.npu_swiglu.default) is None
    assert backend._in_place(aten.softmax.int) is None and backend._in_place(aten.bernoulli.p) is not aten.bernoulli_.Tensor


# ---- Obstacles ----


def module(*values, **more):
    graph = torch.fx.Graph()
    for i, value in enumerate(values):
        graph.placeholder(f"x{i}").meta["val"] = value
    graph.output(())
    return torch.fx.GraphModule(torch.nn.Module(), graph)


def test_what_stands_in_the_way_of_a_capture():
    card, host, meta = npu(2), torch.ones(2), torch.ones(2, device="meta")
    assert capture.obstacle(module(card, meta), [card, 3, meta]) is None and capture.obstacle(module(), []) is None
    assert capture.obstacle(module(card), [card, host]) == "it has an input on cpu"
    assert capture.obstacle(module(card), [card, 1.5]) == "it has an input of type float"
    assert capture.obstacle(module(card, [host, meta]), [card]) == "it computes on cpu too"
    assert capture.obstacle(module(card, torch.empty(2, device="npu:1")), [card]) == "it computes on several cards"
    assert capture.obstacle(module(card, npu(3)), [card]) is None


def test_inputs_that_a_graph_writes():
    graph = torch.fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    made = graph.call_function(aten.add.Tensor, (x, y))
    graph.call_function(aten.copy_.default, (made, x))
    graph.call_function(torch.add, (x, y))
    assert capture.changed_inputs(graph) == set()
    graph.call_function(aten.copy_.default, (y, made))
    assert capture.changed_inputs(graph) == {1}
    graph.call_function(aten._foreach_add_.Scalar, ([x], 1))
    graph.call_function(aten.add_.Tensor, (x, y))
    assert capture.changed_inputs(graph) == {0, 1}


def test_eager_runs_empty_their_list_and_are_counted():
    seen = []
    run = capture.eagerly(lambda *args: seen.append((args, torch.is_grad_enabled())) or [7])
    inputs = [1, 2]
    assert run(inputs) == [7] and inputs == [] and seen == [((1, 2), False)]
    assert counters["npu"]["eager runs"] == 1
    with pytest.warns(UserWarning, match="^torch.compile: a graph is not captured and runs eagerly: it has an input on cpu$"):
        assert capture.captured(module(), [torch.ones(1)], set()).func is capture.run_eagerly


# ---- Which capture ----


class FakeInstance:
    """Records what it was made for; `call` is as the C++ one."""

    made = []
    generators = ()
    can_run = capture._Instance.can_run

    def __init__(self, graph, inputs, pool):
        self.graph, self.pool, self.used, self.shape = graph, pool, [], inputs[0].shape
        self.call = SimpleNamespace(fits=lambda inputs: inputs[0].shape == self.shape, in_use=lambda: self.used,
                                    can_run=lambda inputs: inputs[0].shape == self.shape and not any(
                                        each.used for each in self.made[self.number:]),
                                    follows=lambda other: self.number > other.number, replay=lambda inputs: [inputs[0] + 1])
        self.number = self.call.number = len(self.made)
        self.made.append(self)
        pool.instances.add(self)

    def leave_shared_memory(self):
        self.graph.leave_shared_memory()


@pytest.fixture
def graph(monkeypatch):
    pool = capture._Pool()
    monkeypatch.setattr(capture, "_Instance", FakeInstance)
    monkeypatch.setattr(capture, "_pool", lambda device, stream: pool)
    FakeInstance.made = []
    graph = capture._Captured(module(npu(2), npu(2), 3), {1})
    choose = graph._instance
    graph._instance = lambda inputs, given=pool: choose(inputs, given)
    graph.pool = pool
    yield graph
    FakeInstance.made = []  # they hold tensors


def test_inputs_of_a_captured_graph(graph):
    assert graph.refused is False and graph.shares_memory is True and graph.card == 0 and graph.count == 0
    assert graph.numbers == [2] and graph.fixed == [1] and graph.changed == set()
    assert capture._Captured(module(npu(2), torch.ones(1, device="meta")), set()).fixed == [1]
    assert capture._Captured(module(3), set()).card is None


def test_a_graph_is_captured_when_it_is_seen_again(graph):
    weight = npu(2)
    graph.module = lambda *args: [args[0] + 1]
    results = []
    for _ in range(4):
        inputs = [npu(2), weight, 3]
        results.append(graph(inputs)[0].tolist())
        assert inputs == []
    assert results == [[2.0, 2.0]] * 4 and len(FakeInstance.made) == 1
    assert counters["npu"]["eager runs"] == 1 and counters["npu"]["replays"] == 3 and not graph.sights and graph.count == 1


def test_another_place_of_a_parameter_or_number_is_another_graph(graph):
    weights = [npu(2), npu(2)]
    assert graph._instance([npu(2), weights[0], 3]) is None
    assert graph._instance([npu(2), weights[1], 3]) is None and graph._instance([npu(2), weights[0], 4]) is None
    first = graph._instance([npu(2), weights[0], 3])
    assert first is FakeInstance.made[0] and graph._instance([npu(2), weights[0], 3]) is first
    with torch.npu.stream(torch.npu.Stream()):
        assert graph._instance([npu(2), weights[0], 3]) is None


def test_a_capture_whose_results_are_in_use_is_not_overwritten(graph):
    given = [npu(2), npu(2), 3]
    graph._instance(given)
    first = graph._instance(given)
    first.used = [0]
    second = graph._instance(given)  # at once: it was seen before
    assert second is not first and graph.kept == {0} and graph.instances == {next(iter(graph.instances)): [first, second]}
    graph.last, first.used, second.used = first, [], []
    kept = npu(2)
    first.call.replay = lambda inputs: [kept]
    (result,) = graph([*given])
    assert result is not kept and torch.equal(result, kept)  # copied from then on


def test_a_capture_is_made_anew_while_results_of_a_later_one_live(graph):
    given, other = [npu(2), npu(2), 3], capture._Captured(module(npu(2), npu(2), 3), {1})
    for each in (graph._instance, lambda inputs: other._instance(inputs, graph.pool)):
        each(given)
    first = graph._instance(given)
    later = other._instance(given, graph.pool)
    assert graph._instance(given) is first
    later.used = [0]
    second = graph._instance(given)
    assert second is not first and list(graph.instances.values()) == [[second]] and not graph.kept
    assert not other.shares_memory and not other.instances and other.last is None and graph.shares_memory
    first.used = [0]  # of an earlier capture: nothing of it can be overwritten
    assert graph._instance(given) is second


def test_captures_and_sights_have_a_limit(graph, monkeypatch):
    monkeypatch.setattr(capture, "_MOST_SIGHTS", 2)
    given = [npu(2), npu(2)]
    for number in (1, 2, 3):
        assert graph._instance([*given, number]) is None
    assert len(graph.sights) == 2 and graph._instance([*given, 1]) is None  # forgotten
    assert graph._instance([*given, 1]) is not None
    assert capture.MOST_CAPTURES == 64
    graph.count = 64
    assert graph._instance([*given, 3]) is None and graph._instance([*given, 3]) is None
    assert graph._instance([*given, 1]) is not None  # there already
    graph.count = 63
    assert graph._instance([*given, 3]) is not None


def test_what_cannot_be_captured_is_said_once(graph, monkeypatch):
    given = [npu(2), npu(2), 3]
    monkeypatch.setattr(capture, "_Instance", lambda *args: (_ for _ in ()).throw(RuntimeError("because\nof details")))
    graph._instance(given)
    with pytest.warns(UserWarning, match="runs eagerly: because$"):
        assert graph._instance(given) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert graph.refused and graph._instance(given) is None


def test_another_thread_waits_while_a_capture_is_chosen(graph):
    graph.module, given = (lambda *args: [args[0]]), [npu(2), npu(2), 3]
    for _ in range(2):
        graph([*given])
    with graph.last.pool.lock:
        thread = threading.Thread(target=graph, args=([*given],))
        thread.start()
        thread.join(0.1)
        assert thread.is_alive()
    thread.join(10)
    assert not thread.is_alive()


def test_results_that_are_inputs_are_given_back_and_copies_are_not():
    weight = npu(3)

    def function(x):
        return x, weight, x * 2, weight.view(-1), 5

    compiled = torch.compile(function, backend=backend.npugraphs)
    for value in (1.0, 2.0, 3.0, 4.0):
        x = torch.full((3,), value, device="npu")
        same, given, twice, view, number = compiled(x)
        assert same is x and given is weight and twice.tolist() == [2 * value] * 3 and number == 5
        assert view.data_ptr() == weight.data_ptr()
    assert counters["npu"]["replays"] == 3


def test_strided_inputs_are_captured_as_they_lie():
    compiled = torch.compile(lambda x: (x * 2).sum(0) + x.stride(0), backend=backend.npugraphs)
    for value in (1.0, 2.0, 3.0):
        x = torch.full((3, 4), value, device="npu").t()
        assert compiled(x).tolist() == [8 * value + 1] * 3
    assert counters["npu"]["captures"] == 1
