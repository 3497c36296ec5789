"""The graph cases of torch's test/test_cuda.py, for npu, in our own words: CASES says which test is which case.

`python test/python/test_cuda_graph_cases.py` runs them all and prints list and counts. `python test/generic/graph_cases.py FILE` runs
torch's own file.
"""

import gc
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from torch.testing._internal.common_optimizers import optim_db
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.usefixtures("restore_device")
n = torch.npu

# torch's case -> the test here, or FILE::test where it is tested already, or why an npu has it not.
CASES = {
    "test_graph_is_current_stream_capturing": "test_streams_know_that_they_are_captured",
    "test_graph_capture_simple": "test_graphs.py::test_runs_at_replay_only",
    "test_accelerator_graph_simple": "test_graphs.py::test_accelerator_graph_is_the_same",
    "test_graphsafe_set_get_rng_state": "test_generators_exchange_states_in_a_capture",
    "test_memory_stats_of_multiple_generators_and_graphs": "test_memory_of_generators_comes_back",
    "test_graph_capture_reset_recapture": "test_a_graph_is_captured_again_after_a_reset",
    "test_graph_debugdump": "test_graphs.py::test_the_dump_lists_the_tasks",
    "test_graph_timing": "none: graphs record a torch.npu.ExternalEvent, which has no time",
    "test_graph_error": "test_graphs.py::test_misuse_is_named",
    "test_graph_warn_if_has_zero_nodes": "test_an_empty_graph_warns",
    "test_graph_capture_oom": "test_memory_that_runs_out_in_a_capture",
    "test_repeat_graph_capture_cublas_workspace_memory": "test_captures_of_products_take_no_memory",
    "test_graph_rng_functional": "test_random_functions_between_replays",
    "test_graph_rng_distributions": "test_distributions_go_on_from_replay_to_replay",
    "test_graph_two_successive": "test_two_graphs_one_after_the_other",
    "test_graph_concurrent_replay": "test_graphs_replay_beside_each_other",
    "test_graph_three_successive": "test_the_order_of_graphs_that_share_memory",
    "test_graph_memory_stats_and_use_result_after_destroy_graph": "test_a_result_outlives_its_graph",
    "test_graph_record_stream": "test_memory_that_another_stream_uses_during_a_capture",
    "test_graph_cudnn_dropout": "test_dropout_of_an_lstm_in_a_graph_and_without",
    "test_graph_checkpoint_preserve_rng_state": "test_checkpointed_activations_draw_the_same_again",
    "test_graph_manual_seed_mismatch_raises": "test_another_seed_in_a_capture_is_refused",
    "test_graph_make_graphed_callables": "test_graphed_callables_of_networks_with_dropout",
    "test_graph_make_graphed_callables_parameterless_nograd_module": "test_graph_parts.py::test_functions_without_gradients_are_graphed",
    "test_graph_make_graphed_callables_same_pool": "test_graph_parts.py::test_callables_share_a_pool",
    "test_graph_optims": "test_captured_optimisers_equal_eager_ones",
    "test_graph_optims_with_explicitly_capturable_param_groups": "test_an_optimiser_that_is_not_capturable_is_refused",
    "test_graph_scaling_fused_optimizers": "test_captured_steps_of_a_gradient_scaler",
    "test_graph_grad_scaling": "test_scales_change_between_replays",
    "test_cuda_graph_error_options": "test_another_thread_allocates_during_a_capture",
    "test_cuda_graph_raw_graph_keep_graph_false": "test_a_kept_graph_is_instantiated",
    "test_cuda_graph_raw_graph": "none: it reads the graph of CUDA's runtime",
    "test_cuda_graph_raw_graph_exec": "none: it reads the graph of CUDA's runtime",
    "test_cuda_graph_raw_graph_reset_and_recapture": "test_a_kept_graph_is_instantiated",
    "test_cuda_graph_allocator_propagates_stream": "test_a_stream_that_joins_a_capture_allocates_from_its_pool",
    "test_cuda_graph_tensor_item_not_allowed": "test_graphs.py::test_what_needs_the_device_is_refused_and_nothing_is_lost",
}


def captured(function, **options):
    graph = n.NPUGraph()
    with n.graph(graph, **options):
        result = function()
    return graph, result


def ones(*shape, **options):
    return torch.ones(*shape, device="npu", **options)


def test_every_case_has_its_test():
    for name, test in CASES.items():
        if test.startswith("none: "):
            continue
        file, _, function = test.rpartition("::")
        text = (Path(__file__).parent / (file or Path(__file__).name)).read_text()
        assert re.search(rf"^def {function}\(", text, re.M), f"{name}: there is no {test}"


# ---- Captures ----


def test_streams_know_that_they_are_captured():
    graph = n.NPUGraph()
    with n.stream(n.Stream()):
        assert not n.is_current_stream_capturing()
        graph.capture_begin()
        assert n.is_current_stream_capturing()
        ones(2)
        graph.capture_end()
        assert not n.is_current_stream_capturing()


def test_a_graph_is_captured_again_after_a_reset():
    a, graph = ones(100), n.NPUGraph()
    with n.graph(graph):
        b = a + 10
    graph.replay()
    assert b.sum().item() == 1100
    graph.reset()
    with n.graph(graph):
        b.fill_(2)
        c = b + 20
    graph.replay()
    assert c.sum().item() == 2200


@pytest.mark.parametrize("kept", [False, True])
def test_a_kept_graph_is_instantiated(kept):
    graph, x = n.NPUGraph(keep_graph=kept), torch.zeros(3, device="npu")
    with pytest.raises(RuntimeError, match="nothing has been captured"):
        graph.instantiate()
    for step in (1, 2):
        with n.graph(graph):
            x += step
        if kept:
            for _ in range(2):
                graph.instantiate()
                graph.replay()
        else:
            with pytest.raises(RuntimeError, match=r"intended to be called by the user only when keep_graph=true"):
                graph.instantiate()
            graph.replay()
            graph.replay()
        assert x.tolist() == [2 * step] * 3
        graph.reset()
        x = torch.zeros(3, device="npu")


def test_an_empty_graph_warns():
    graph, x = n.NPUGraph(), ones(3)
    with pytest.warns(UserWarning, match="The NPU Graph is empty. .* wrong device or stream"):
        with n.graph(graph), n.stream(n.Stream()):
            pass
    graph.replay()
    pinned = torch.ones(3, pin_memory=True)
    for work in (lambda: x.add_(1), lambda: x.clone(), lambda: x.copy_(pinned, non_blocking=True)):
        graph.reset()
        with n.graph(graph):  # a warning is an error
            work()


def test_memory_that_runs_out_in_a_capture():
    x = ones(3)
    with pytest.raises(torch.OutOfMemoryError, match="out of memory"):
        captured(lambda: torch.zeros(2**40, device="npu"))
    graph, y = captured(lambda: x + 1)
    graph.replay()
    assert y.tolist() == [2] * 3


def test_captures_of_products_take_no_memory():
    a, b = ones(64, 32), ones(32, 16)
    a.mm(b)
    before = n.mem_get_info()[0]
    for _ in range(50):
        graph, _ = captured(lambda: a.mm(b))
        graph.replay()
    del graph
    assert before - n.mem_get_info()[0] <= 2 << 20


@pytest.mark.parametrize("mode", ["thread_local", "relaxed"])
def test_another_thread_allocates_during_a_capture(mode):
    n.empty_cache()
    failures = []

    def allocate():
        try:
            with n.stream(n.Stream()):
                n.caching_allocator_delete(n.caching_allocator_alloc(30 << 20))
        except Exception as error:
            failures.append(error)

    def work():
        thread = threading.Thread(target=allocate)
        thread.start()
        thread.join()
        return ones(3) * 3

    graph, y = captured(work, capture_error_mode=mode)
    graph.replay()
    assert y.tolist() == [3] * 3 and not failures


def test_a_stream_that_joins_a_capture_allocates_from_its_pool():
    known = {segment["segment_pool_id"] for segment in n.memory_snapshot()}
    x, graph, first, second = ones(1 << 20), n.NPUGraph(), n.Stream(), n.Stream()
    with n.stream(first):
        graph.capture_begin()
        y = x + 1
    with n.stream(second):
        second.wait_stream(first)
        z = y + 1
    first.wait_stream(second)
    with n.stream(first):
        graph.capture_end()
    pools = [segment["segment_pool_id"] for segment in n.memory_snapshot() if segment["segment_pool_id"] not in known | {(0, 0)}]
    assert len(pools) == 2 and set(pools) == {graph.pool()}
    graph.replay()
    assert z.sum().item() == 3 << 20


# ---- Random numbers ----


def test_generators_exchange_states_in_a_capture():
    def states(generator):
        generator.manual_seed(0)
        return generator, generator.graphsafe_get_state(), generator.clone_state()

    def draw(generator, old, new):
        generator.graphsafe_set_state(new)
        numbers = [torch.rand(5, device="npu", generator=generator)]
        generator.graphsafe_set_state(old)
        return [*numbers, *(torch.rand(5, device="npu", generator=generator) for _ in range(2))]

    eager, graphed = states(torch.Generator("npu")), states(n.default_generators[0])
    graph = n.NPUGraph()
    for state in graphed[1:]:
        graph.register_generator_state(state)
    with n.graph(graph):
        numbers = draw(*graphed)
    for _ in range(3):
        expected = draw(*eager)
        graph.replay()
        assert [state.get_offset() for state in eager[1:]] == [state.get_offset() for state in graphed[1:]]
        assert all(map(torch.equal, numbers, expected))


def test_memory_of_generators_comes_back():
    def active():
        n.synchronize()
        stats = n.memory_stats()
        return stats["active.all.current"], stats["active_bytes.all.current"]

    gc.collect()
    before = active()
    for graphs, generators in ((1, 1), (3, 2), (10, 20)):
        made = [n.NPUGraph() for _ in range(graphs)]
        states = [n.default_generators[0].clone_state() for _ in range(generators)]
        for graph in made:
            with n.graph(graph):
                for state in states:
                    torch.rand(1, device="npu", generator=state)
            graph.replay()
        assert active()[0] - before[0] == 2 * graphs * generators  # seed and offset of each generator
        del graph, made
        gc.collect()
        assert active() == before


FUNCTIONS = {
    "dropout": lambda x: torch.nn.functional.dropout(x, 0.1),
    "rrelu": lambda x: torch.nn.functional.rrelu(x, training=True),
    "gaussian": lambda x: x + torch.randn_like(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_random_functions_between_replays(name):
    function, x = FUNCTIONS[name], torch.randn(1000).npu()
    n.manual_seed(5)
    expected = x
    for _ in range(6):
        expected = function(expected)
    n.manual_seed(5)
    given = x.clone()
    graph, out = captured(lambda: function(function(given)))
    graph.replay()
    given.copy_(function(function(out)))
    graph.replay()
    assert torch.equal(out, expected)
    for seed in (6, 128):
        n.manual_seed(seed)
        expected = [function(function(x)) for _ in range(3)][-1]
        n.manual_seed(seed)
        given.copy_(x)
        for _ in range(3):
            graph.replay()
        assert torch.equal(out, expected)


P = torch.rand(1000)
DISTRIBUTIONS = {
    "bernoulli": lambda p, _: torch.bernoulli(p),
    "normal": lambda p, _: torch.normal(p + 1, 1.0),
    "rand": lambda p, _: torch.rand(1000, device="npu"),
    "randint": lambda p, _: torch.randint(0, 3, (1000,), device="npu"),
    "randn": lambda p, _: torch.randn(1000, device="npu"),
    "bernoulli_": lambda p, out: out.bernoulli_(p),
    "cauchy_": lambda p, out: out.cauchy_(),
    "exponential_": lambda p, out: out.exponential_(),
    "geometric_": lambda p, out: out.geometric_(0.3),
    "log_normal_": lambda p, out: out.log_normal_(),
    "normal_": lambda p, out: out.normal_(),
    "random_": lambda p, out: out.random_(),
    "uniform_": lambda p, out: out.uniform_(),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions_go_on_from_replay_to_replay(name):
    p = P.npu()

    def draw():
        return DISTRIBUTIONS[name](p, torch.empty(1000, device="npu"))

    draw()
    graph, (one, two) = captured(lambda: (draw(), draw()))
    for seed in (6, 314):
        n.manual_seed(seed)
        expected = [draw() for _ in range(3)][1:]
        n.manual_seed(seed)
        draw()  # the replay goes on behind what was drawn eagerly
        graph.replay()
        assert torch.equal(one, expected[0]) and torch.equal(two, expected[1])
        assert not torch.equal(one, two)


def test_another_seed_in_a_capture_is_refused():
    n.manual_seed(0)
    words = r"NPUGeneratorImpl::set_current_seed can be called during stream capture only if new seed is the same as the original seed"
    other = torch.Generator("npu").get_state()
    for seed in (lambda: n.manual_seed(1), lambda: torch.manual_seed(1), n.seed, lambda: n.set_rng_state(other)):
        with pytest.raises(RuntimeError, match=words):
            captured(seed)
        assert n.initial_seed() == 0 and not n.is_current_stream_capturing()
    graph, x = captured(lambda: (n.manual_seed(0), torch.rand(3, device="npu"))[1])
    expected = torch.rand(3, device="npu")
    n.manual_seed(0)
    graph.replay()
    assert torch.equal(x, expected)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_activations_draw_the_same_again(reentrant):
    def step(x):
        def noisy(x):
            return torch.nn.functional.dropout(x * torch.sigmoid(torch.randn(50, device="npu")), 0.4)

        y = checkpoint(noisy, checkpoint(noisy, x, use_reentrant=reentrant), use_reentrant=reentrant)
        return y, torch.autograd.grad(y.sum(), x)[0], torch.rand(5, device="npu")

    x = ones(50).requires_grad_()
    if reentrant:  # which has no autograd.grad()
        def step(x, inner=step):
            x.grad = None
            y = checkpoint(lambda x: torch.nn.functional.dropout(x * torch.randn(50, device="npu"), 0.4), x, use_reentrant=True)
            y.sum().backward()
            return y, x.grad, torch.rand(5, device="npu")

    step(x)
    n.manual_seed(42)
    expected = [[t.clone() for t in step(x)] for _ in range(3)]
    n.manual_seed(42)
    graph, results = captured(lambda: step(x))
    offset = n.default_generators[0].get_offset()
    for each in expected:
        graph.replay()
        assert all(map(torch.equal, results, each))
    assert n.default_generators[0].get_offset() > offset
    n.manual_seed(42)
    for _ in range(3):
        step(x)
    assert torch.equal(torch.rand(4, device="npu"), (n.manual_seed(42), [graph.replay() for _ in range(3)], torch.rand(4, device="npu"))[2])


def test_a_state_from_before_the_capture_is_refused():
    n.manual_seed(3)
    state = n.get_rng_state()
    torch.rand(3, device="npu")

    def go_back():
        torch.rand(3, device="npu")
        n.set_rng_state(state)

    with pytest.raises(RuntimeError, match="a state from before the capture cannot be set in it"):
        captured(go_back)
    n.set_rng_state(state)
    assert torch.equal(n.get_rng_state(), state)


def test_dropout_of_an_lstm_in_a_graph_and_without():
    torch.manual_seed(0)
    model, x = torch.nn.LSTM(8, 8, 2, dropout=0.5).npu(), ones(5, 3, 8)
    with torch.no_grad():
        model(x)
        n.manual_seed(1)
        expected = [model(x)[0] for _ in range(3)]
        graph, y = captured(lambda: model(x)[0])
        n.manual_seed(1)
        graph.replay()
        assert torch.equal(y, expected[0]) and torch.equal(model(x)[0], expected[1])
        graph.replay()
        assert torch.equal(y, expected[2])


# ---- Memory ----


def grow(t, value):
    return (t.clone() + value) + (t.clone() + value)


SHARING = ["not", "of the first", "by handle"]


def pools(sharing, first):
    handle = n.graph_pool_handle() if sharing == "by handle" else None
    return handle, first.pool if sharing == "of the first" else lambda: handle


@pytest.mark.parametrize("sharing", SHARING)
def test_two_graphs_one_after_the_other(sharing):
    a, first, second = ones(100), n.NPUGraph(), n.NPUGraph()
    handle, of_second = pools(sharing, first)
    with n.graph(first, pool=handle):
        b = a.clone()
        for _ in range(5):
            b = grow(b, 1)
    with n.graph(second, pool=of_second()):
        for _ in range(5):
            b = grow(b, 1)
    c = a.clone()
    for replay in (lambda: None, first.replay, second.replay):  # eager work between the replays
        replay()
        for _ in range(2):
            c = grow(c, 3)
    assert b.sum().item() == 100 * 3070 and c.sum().item() == 100 * 442
    assert (first.pool() == second.pool()) == (sharing != "not")


def test_graphs_replay_beside_each_other():
    a = ones(100000)
    (first, b), (second, c) = (captured(lambda value=value: grow(grow(a, value), value)) for value in (1, 2))
    for _ in range(3):
        streams = n.Stream(), n.Stream()
        for stream, graph in zip(streams, (first, second), strict=True):
            stream.wait_stream(n.current_stream())
            with n.stream(stream):
                graph.replay()
        for stream in streams:
            n.current_stream().wait_stream(stream)
        assert b.unique().tolist() == [10] and c.unique().tolist() == [16]


@pytest.mark.parametrize("sharing", SHARING)
def test_the_order_of_graphs_that_share_memory(sharing):
    a, graphs = ones(100), [n.NPUGraph() for _ in range(3)]
    handle, of_others = pools(sharing, graphs[0])
    with n.graph(graphs[0], pool=handle):
        b = a.clone()
        c, d = b + 1, b + 2
    with n.graph(graphs[1], pool=of_others()):
        e = c + 3
        del c
    with n.graph(graphs[2], pool=of_others()):
        f = d + 4
    for graph in graphs:
        graph.replay()
    assert (e[0].item(), f[0].item()) == (5, 7)
    for graph in (graphs[0], graphs[2], graphs[1]):  # the third has the memory of c, if they share theirs
        graph.replay()
    assert (e[0].item(), f[0].item()) == (5 if sharing == "not" else 10, 7)


@pytest.mark.parametrize("elements", [128, 1 << 18, (1 << 18) + 128, (10 << 18) - 128, (10 << 18) + 128])
def test_a_result_outlives_its_graph(elements):
    gc.collect()
    n.empty_cache()
    a = ones(elements)
    n.synchronize()
    before, reserved = n.memory_allocated(), n.memory_reserved()
    graph = n.NPUGraph()
    with n.graph(graph):
        b = a.clone()
        for _ in range(5):
            b = b.clone() + 1
    n.empty_cache()  # not the graph's
    graph.replay()
    assert b[-1].item() == 6 and n.memory_allocated() - before == 4 * elements
    held = n.memory_reserved()
    del graph
    gc.collect()
    n.empty_cache()
    assert b.unique().tolist() == [6]
    n.empty_cache()
    assert n.memory_allocated() - before == 4 * elements and 4 * elements <= n.memory_reserved() - reserved <= held - reserved
    del b
    n.empty_cache()
    assert (n.memory_allocated(), n.memory_reserved()) == (before, reserved)


def test_memory_that_another_stream_uses_during_a_capture():
    a, problem = torch.zeros(3, device="npu"), torch.zeros(3, device="npu")
    busy, side, graph = n.Stream(), n.Stream(), n.NPUGraph()
    n.synchronize()
    with n.stream(busy):
        problem.record_stream(busy)
        problem.fill_(1)
    del problem

    def work():
        b = a.clone()
        current = n.current_stream()
        side.wait_stream(current)
        with n.stream(side):
            b.fill_(1)
            b.record_stream(side)
            del b
        current.wait_stream(side)
        return a + 1

    with n.graph(graph):
        c = work()
    n.synchronize()
    torch.zeros(3, device="npu")
    graph.replay()
    assert c.tolist() == [1] * 3


# ---- Training ----


def test_graphed_callables_of_networks_with_dropout():
    def section(inputs, outputs):
        return torch.nn.Sequential(torch.nn.Linear(inputs, outputs), torch.nn.Dropout(0.1))

    class Taken(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = section(6, 8)

        def forward(self, given):
            return self.inner(given["x"])

    class Gathered(torch.nn.Module):
        def forward(self, x):
            rows = torch.arange(x.size(0), device=x.device).view(-1, 1).repeat(1, x.size(1))
            return {"output": torch.gather(x, 0, rows)}

    def network():
        torch.manual_seed(0)
        return [part.npu() for part in (Taken(), section(8, 4), Gathered())]

    relu, loss_of = torch.nn.functional.relu, torch.nn.functional.mse_loss
    x, unused, y = ones(5, 6), ones(5, 8, requires_grad=True), ones(5, 4)
    hidden, last = ones(5, 8, requires_grad=True), ones(5, 4, requires_grad=True)
    graphed = network()
    with pytest.raises(RuntimeError, match="allow_unused|not have been used"):
        n.make_graphed_callables(network()[0], ({"x": x, "unused": unused},))
    *graphed, relu_of, loss = n.make_graphed_callables(
        (*graphed, relu, loss_of), (({"x": x, "unused": unused},), (hidden,), (last.detach().requires_grad_(),), (last,), (last, y)),
        allow_unused_input=True)
    eager = network()
    given = [(torch.randn(5, 6).npu(), torch.randn(5, 4).npu()) for _ in range(4)]
    for parts, activation, criterion in ((graphed, relu_of, loss), (eager, relu, loss_of)):
        optimizer = torch.optim.SGD([p for part in parts for p in part.parameters()], lr=0.1)
        n.manual_seed(5)
        for data, target in given:
            optimizer.zero_grad(set_to_none=True)
            out = parts[2](parts[1](parts[0]({"x": data, "unused": unused})))["output"]
            criterion(activation(out), target).backward()
            optimizer.step()
    for one, other in zip(graphed, eager, strict=True):
        assert all(map(torch.equal, one.parameters(), other.parameters()))


def steps_of(kind, capturable, captures, options, seed=0, scaler=None, warm_up=3, steps=2):
    """The parameters after warm_up + steps steps with gradients of `seed`, the last ones captured."""
    torch.manual_seed(seed)
    parameters = [torch.randn(i + 5, i + 5).npu().requires_grad_() for i in range(2)] + [torch.randn(()).npu().requires_grad_()]
    gradients = [[torch.randn(p.shape).npu() for p in parameters] for _ in range(warm_up + steps)]
    optimizer = kind(parameters, **options, **({} if capturable is None else {"capturable": capturable}))

    def step():
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()

    for given in gradients[:warm_up]:
        for p, g in zip(parameters, given, strict=True):
            p.grad = g.clone()
        step()
    if captures:
        graph, _ = captured(step)
    for given in gradients[warm_up:]:
        for p, g in zip(parameters, given, strict=True):
            p.grad.copy_(g)
        graph.replay() if captures else step()
    return [p.detach() for p in parameters]


CAPTURABLE = {info.optim_cls.__name__: info for info in optim_db if info.has_capturable_arg}


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("name", CAPTURABLE)
def test_captured_optimisers_equal_eager_ones(name, foreach):
    """With every set of options that torch's database has."""
    seen = []
    for given in CAPTURABLE[name].optim_inputs_func(device="npu"):
        options = {**given.kwargs, "lr": 0.1, "foreach": foreach}
        if options in seen or options.get("fused") or options.pop("capturable", False) or isinstance(options.get("betas"), tuple):
            continue
        seen.append(options)
        expected = steps_of(CAPTURABLE[name].optim_cls, True, False, options)
        results = steps_of(CAPTURABLE[name].optim_cls, True, True, options)
        assert all(map(torch.equal, results, expected)), options
        plain = steps_of(CAPTURABLE[name].optim_cls, False, False, options)
        torch.testing.assert_close(results, plain, msg=lambda text, options=options: f"{options}: {text}")
    assert seen


@pytest.mark.parametrize("name", CAPTURABLE)
def test_an_optimiser_that_is_not_capturable_is_refused(name):
    kind = CAPTURABLE[name].optim_cls
    one, two = ones(1).requires_grad_(), ones(1).requires_grad_()
    for second in (True, False):
        optimizer = kind([{"params": [one], "capturable": True}, {"params": [two], "capturable": second}])
        one.grad, two.grad = ones(1), ones(1)
        optimizer.step()
        if second:
            before = two.item()
            captured(optimizer.step)[0].replay()
            assert two.item() != before
        else:
            with pytest.raises(RuntimeError, match=f"Attempting NPU graph capture of step.. for an instance of {name} but param_groups"):
                captured(optimizer.step)


FUSED = [(torch.optim.SGD, None, {"momentum": 0.9}), (torch.optim.Adam, True, {}), (torch.optim.AdamW, True, {"amsgrad": True}),
         (torch.optim.AdamW, False, {})]  # a fused step counts on the card, whatever it was told


@pytest.mark.parametrize("kind, capturable, options", FUSED)
def test_captured_steps_of_a_gradient_scaler(kind, capturable, options):
    results = []
    for captures in (False, True):
        scaler = torch.amp.GradScaler("npu", init_scale=128.0, growth_interval=2)
        scaler._lazy_init_scale_growth_tracker(torch.device("npu"))
        results.append((steps_of(kind, capturable, captures, {"lr": 0.1, "fused": True, **options}, scaler=scaler, steps=3),
                        scaler._scale, scaler._growth_tracker))
    (eager, *state), (replayed, *other) = results
    assert all(map(torch.equal, eager, replayed)) and all(map(torch.equal, state, other))


@pytest.mark.parametrize("foreach, fused", [(False, False), (True, False), (False, True)])
def test_scales_change_between_replays(foreach, fused):
    scaler = torch.amp.GradScaler("npu", init_scale=4.0)
    weight, given = ones(100).requires_grad_(), ones(100)
    optimizer = torch.optim.AdamW([weight], lr=0.1, foreach=foreach, fused=fused)
    scaler.scale((weight.half() * given).sum()).backward()
    optimizer.zero_grad(set_to_none=True)
    graph, _ = captured(lambda: scaler.scale((weight.half() * given).sum()).backward())
    for value, scale, growth, gradient in ((5, 4, 1, 20), (20000, 2, 0, float("inf")), (5, 2, 1, 10), (40000, 1, 0, float("inf"))):
        given.fill_(value)
        graph.replay()
        assert weight.grad.unique().tolist() == [gradient]
        scaler.step(optimizer)
        scaler.update()
        assert (scaler._scale.item(), scaler._growth_tracker.item()) == (scale, growth)


def main() -> None:
    """Runs the tests of CASES, and prints each case with what became of it."""
    folder = Path(__file__).parent
    tests = sorted({f"{folder / (test.rpartition('::')[0] or Path(__file__).name)}::{test.rpartition('::')[2]}"
                    for test in CASES.values() if not test.startswith("none: ")})
    run = subprocess.run([sys.executable, "-m", "pytest", "-q", "-rA", "--tb=short", *tests], capture_output=True, text=True)
    lines = re.findall(r"^(PASSED|FAILED|ERROR|SKIPPED) \S*?::(\w+)", run.stdout, re.M)
    outcomes: dict[str, set] = {}
    for outcome, name in lines:
        outcomes.setdefault(name, set()).add(outcome.lower())
    results = []
    for case, test in CASES.items():
        function = test.rpartition("::")[2]
        found = outcomes.get(function, {"not run"})
        results.append("not for npu" if test.startswith("none: ") else "passed" if found == {"passed"} else " and ".join(sorted(found)))
        print(f"{case}: {results[-1]} ({test})")
    print(f"{len(CASES)} cases: " + ", ".join(f"{results.count(each)} {each}" for each in dict.fromkeys(results)))
    if run.returncode:
        print(run.stdout[-5000:])
    sys.exit(run.returncode)


if __name__ == "__main__":
    main()
