"""torch.npu.NPUGraph, torch.npu.graph, torch.accelerator.Graph, make_graphed_callables: replays equal eager runs, bit for bit."""

import copy
import gc
import json
import threading

import pytest
import torch

pytestmark = pytest.mark.usefixtures("restore_device")


def capture(function, **options):
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, **options):
        result = function()
    return graph, result


def side_stream(function):
    """Warms up as upstream's documentation asks to."""
    stream = torch.npu.Stream()
    stream.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(stream):
        result = function()
    torch.npu.current_stream().wait_stream(stream)
    return result


@pytest.fixture(params=[0, 1, 2])
def level(request):
    before = torch.npu.get_task_queue_enable()
    torch.npu.set_task_queue_enable(request.param)
    yield request.param
    torch.npu.set_task_queue_enable(before)


def test_runs_at_replay_only(level):
    x = torch.ones(4, device="npu")
    graph, y = capture(lambda: x.mul_(2) + 1)
    assert x.tolist() == [1] * 4
    graph.replay()
    assert y.tolist() == [3] * 4
    x.fill_(5)
    graph.replay()
    assert y.tolist() == [11] * 4
    assert not torch.npu.is_current_stream_capturing()


def test_accelerator_graph_is_the_same():
    x = torch.zeros(3, device="npu")
    graph = torch.accelerator.Graph()
    with torch.npu.stream(torch.npu.Stream()), graph:
        assert torch.npu.is_current_stream_capturing()
        x += 1
    graph.replay()
    graph.replay()
    assert x.tolist() == [2] * 3


NETWORKS = {
    "mlp": (lambda: torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4)), (2, 8)),
    "cnn": (lambda: torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
                                        torch.nn.Flatten(), torch.nn.Linear(36, 4)), (2, 3, 8, 8)),
    "encoder": (lambda: torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (2, 5, 8)),
    "lstm": (lambda: Last(torch.nn.LSTM(8, 6, 2, batch_first=True)), (2, 5, 8)),
}


class Last(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)[0]


@pytest.mark.parametrize("optimizer", [
    lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    lambda p: torch.optim.AdamW(p, lr=0.01, fused=True, capturable=True),
    lambda p: torch.optim.Adam(p, lr=0.01, foreach=True, capturable=True),
], ids=["sgd", "adamw-fused", "adam-foreach"])
@pytest.mark.parametrize("name", NETWORKS)
def test_training_steps_equal_eager_ones(name, optimizer):
    make, shape = NETWORKS[name]
    torch.manual_seed(0)
    model = make().npu()
    twin = copy.deepcopy(model)
    inputs = [torch.randn(shape).npu() for _ in range(4)]
    x = inputs[0].clone()

    def step(model, optimizer, x):
        optimizer.zero_grad(set_to_none=True)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    steps, twin_steps = optimizer(model.parameters()), optimizer(twin.parameters())
    side_stream(lambda: [step(model, steps, x) for _ in range(2)])
    for _ in range(2):
        step(twin, twin_steps, x)
    graph, loss = capture(lambda: step(model, steps, x))
    for given in inputs:
        x.copy_(given)
        graph.replay()
        assert torch.equal(loss, step(twin, twin_steps, given))
    for a, b in zip(model.state_dict().values(), twin.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_an_optimiser_that_counts_its_steps_on_the_host_is_refused():
    parameter = torch.ones(3, device="npu", requires_grad=True)
    parameter.grad = torch.ones(3, device="npu")
    for options in ({}, {"capturable": True}, {"fused": True}):
        optimizer = torch.optim.Adam([parameter], **options)
        optimizer.step()
        if options:
            capture(optimizer.step)
        else:
            with pytest.raises(RuntimeError, match="Attempting NPU graph capture of step.* of Adam but param_groups' capturable is False"):
                capture(optimizer.step)


def test_amp_with_a_gradient_scaler():
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 4).npu()
    twin = copy.deepcopy(model)
    x = torch.randn(2, 8).npu()

    def backward(model, scaler):
        model.zero_grad(set_to_none=True)
        with torch.autocast("npu", dtype=torch.float16, cache_enabled=False):
            loss = model(x).square().mean()
        scaler.scale(loss).backward()

    one, two = torch.amp.GradScaler("npu", init_scale=128.0), torch.amp.GradScaler("npu", init_scale=128.0)
    side_stream(lambda: backward(model, one))
    graph, _ = capture(lambda: backward(model, one))
    graph.replay()
    backward(twin, two)
    assert torch.equal(model.weight.grad, twin.weight.grad)


RANDOM = {
    "rand": lambda: torch.rand(7, device="npu"),
    "randn": lambda: torch.randn(7, device="npu", dtype=torch.float16),
    "randint": lambda: torch.randint(0, 100, (7,), device="npu"),
    "random_": lambda: torch.empty(7, device="npu", dtype=torch.int64).random_(),
    "dropout": lambda: torch.nn.functional.dropout(torch.ones(50, device="npu"), 0.3),
    "multinomial": lambda: torch.multinomial(torch.ones(9, device="npu"), 4),
    "exponential_": lambda: torch.empty(7, device="npu").exponential_(3.0),
    "cauchy_": lambda: torch.empty(7, device="npu").cauchy_(-3.0, 2.0),
    "geometric_": lambda: torch.empty(50, device="npu").geometric_(0.3),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers_go_on_from_replay_to_replay(name):
    def draw():
        return torch.stack([RANDOM[name](), RANDOM[name]()])  # the second goes on from the first, within the graph

    torch.npu.manual_seed(3)
    eager = [draw() for _ in range(3)]
    torch.npu.manual_seed(3)
    graph, out = capture(draw)
    for expected in eager:
        graph.replay()
        assert torch.equal(out, expected) and not torch.equal(out[0], out[1])
    torch.npu.manual_seed(3)
    graph.replay()
    assert torch.equal(out, eager[0])


def test_bernoulli_has_its_distribution_and_two_draws_differ():
    graph, (a, b, p) = capture(lambda: (torch.empty(20000, device="npu").bernoulli_(0.3), torch.rand(9, device="npu"),
                                        torch.bernoulli(torch.full((20000,), 0.7, device="npu"))))
    graph.replay()
    assert abs(a.mean().item() - 0.3) < 0.02
    assert abs(p.mean().item() - 0.7) < 0.02
    before = b.clone()
    graph.replay()
    assert not torch.equal(b, before)


def test_a_generator_of_the_users_own():
    generator = torch.Generator("npu").manual_seed(5)
    expected = torch.rand(4, device="npu", generator=generator)
    generator.manual_seed(5)
    graph = torch.npu.NPUGraph()
    graph.register_generator_state(generator)
    with torch.npu.graph(graph):
        out = torch.rand(4, device="npu", generator=generator)
    assert generator.get_offset() == 0
    graph.replay()
    assert torch.equal(out, expected)
    with pytest.raises(ValueError, match="generator must be one of an npu"):
        graph.register_generator_state(torch.Generator())


def test_operators_that_take_their_state_from_the_host_say_so():
    with pytest.raises(RuntimeError, match="cannot be captured in a graph"):
        capture(lambda: torch.randperm(5, device="npu"))
    assert torch.randperm(5, device="npu").sort().values.tolist() == list(range(5))


def test_streams_join_through_events():
    x, (first, second) = torch.ones(4, device="npu"), (torch.npu.Stream(), torch.npu.Stream())
    side = first if first != torch.npu.graph.default_capture_stream else second  # streams come from a pool, and again

    def work():
        current = torch.npu.current_stream()
        a = x + 1
        side.wait_stream(current)
        with torch.npu.stream(side):
            b = a * 2
        current.wait_stream(side)
        return a + b

    graph, y = capture(work)
    x.fill_(2)
    graph.replay()
    assert y.tolist() == [9] * 4
    with pytest.raises(RuntimeError, match="was captured too"):
        capture(lambda: (side.wait_stream(torch.npu.current_stream()), run_on(side, lambda: x + 1)))
    assert (x + 1).tolist() == [3] * 4


def run_on(stream, function):
    with torch.npu.stream(stream):
        return function()


FORBIDDEN = {
    "item": lambda x: x.sum().item(),
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "synchronize": lambda x: torch.npu.synchronize(),
    "stream synchronize": lambda x: torch.npu.current_stream().synchronize(),
    "pageable copy": lambda x: x.copy_(torch.ones(4)),
    "nonzero": lambda x: x.nonzero(),
    "event": lambda x: torch.npu.current_stream().record_event().synchronize(),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_what_needs_the_device_is_refused_and_nothing_is_lost(name, level):
    x = torch.ones(4, device="npu")
    graph = torch.npu.NPUGraph()
    offset = torch.npu.default_generators[0].get_offset()
    with pytest.raises(RuntimeError, match="not permitted when stream is capturing|recorded in a capture"):
        with torch.npu.graph(graph):
            torch.rand(3, device="npu")
            FORBIDDEN[name](x)
    assert not torch.npu.is_current_stream_capturing()
    assert torch.npu.default_generators[0].get_offset() == offset
    assert (x + 1).tolist() == [2] * 4
    with torch.npu.graph(graph):  # the same object
        y = x + 1
    graph.replay()
    assert y.tolist() == [2] * 4


def test_an_operator_that_falls_back_is_named(monkeypatch):
    from torch.library import Library

    library = Library("graphs_test", "DEF")
    library.define("only_cpu(Tensor x) -> Tensor")
    library.impl("only_cpu", lambda x: x + 1, "CPU")
    x = torch.ones(4, device="npu")
    with pytest.raises(NotImplementedError, match="graphs_test::only_cpu.*not permitted when the stream is capturing"):
        capture(lambda: torch.ops.graphs_test.only_cpu(x))


def test_an_exception_of_the_block_is_the_one_that_is_raised():
    graph = torch.npu.NPUGraph()
    with pytest.raises(ZeroDivisionError):
        with torch.npu.graph(graph):
            raise ZeroDivisionError
    assert not torch.npu.is_current_stream_capturing()


def test_a_graph_that_dies_while_it_captures_ends_the_capture():
    graph = torch.npu.NPUGraph()
    with torch.npu.stream(torch.npu.Stream()):
        graph.capture_begin()
        torch.ones(3, device="npu")
    del graph
    torch.npu.synchronize()
    assert (torch.ones(3, device="npu") + 1).tolist() == [2] * 3


def test_misuse_is_named():
    graph = torch.npu.NPUGraph()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.pool()
    with pytest.raises(RuntimeError, match="non-default stream"):
        graph.capture_begin()
    with pytest.raises(ValueError, match="capture_error_mode"):
        graph.capture_begin(capture_error_mode="sometimes")
    with pytest.raises(RuntimeError, match="no capture is under way"):
        graph.capture_end()
    graph, _ = capture(lambda: torch.ones(3, device="npu"))
    with torch.npu.stream(torch.npu.Stream()), pytest.raises(RuntimeError, match="already owns a captured graph"):
        graph.capture_begin()
    with pytest.raises(RuntimeError, match="already|captured"), torch.npu.stream(torch.npu.Stream()):
        first, second = torch.npu.NPUGraph(), torch.npu.NPUGraph()
        first.capture_begin()
        try:
            second.capture_begin()
        finally:
            first.capture_end()
    graph.reset()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()


def test_the_place_of_capture_error_mode_is_not_that_of_cuda():
    with pytest.raises(TypeError, match="auto_dispatch_capture must be True or False, but got 'thread_local'"):
        torch.npu.graph(torch.npu.NPUGraph(), None, torch.npu.Stream(), "thread_local")


def test_graphs_share_a_pool():
    pool = torch.npu.graph_pool_handle()
    x = torch.randn(1 << 20, device="npu")
    first, y = capture(lambda: (x * 2 * 3).sum(), pool=pool)
    reserved = torch.npu.memory_reserved()
    second, z = capture(lambda: (x * 2 * 4).sum(), pool=first.pool())
    assert torch.npu.memory_reserved() == reserved
    first.replay()
    second.replay()
    torch.testing.assert_close(z / y, torch.tensor(4 / 3, device="npu"))


def test_a_pool_that_another_capture_has_is_refused_and_the_stream_stays_usable():
    x, pool = torch.ones(4, device="npu"), torch.npu.graph_pool_handle()
    first, second = torch.npu.NPUGraph(), torch.npu.NPUGraph()
    torch.npu.synchronize()
    with torch.npu.stream(torch.npu.Stream()):
        first.capture_begin(pool=pool, capture_error_mode="thread_local")
        y = x * 2
        with torch.npu.stream(torch.npu.Stream()):
            with pytest.raises(RuntimeError, match="already recording"):
                second.capture_begin(pool=pool, capture_error_mode="thread_local")
            assert not torch.npu.is_current_stream_capturing()
        z = y + 1
        first.capture_end()
    first.replay()
    assert y.tolist() == [2] * 4 and z.tolist() == [3] * 4
    with torch.npu.graph(second, pool=pool):
        y = x * 5
    second.replay()
    assert y.tolist() == [5] * 4


def test_memory_comes_back_when_graphs_die():
    x = torch.randn(1 << 20, device="npu")
    capture(lambda: (x * 2 * 3).sum())
    gc.collect()
    torch.npu.empty_cache()
    before = torch.npu.memory_reserved()
    for _ in range(20):
        graph, y = capture(lambda: (x * 2 + x.sin()).sum())
        graph.replay()
        del graph, y
    gc.collect()
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() == before


def test_captures_leave_nothing_behind_on_the_host(check):
    grown = int(check("""
def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))

x = torch.ones(64, device="npu")
def captures(count):
    for _ in range(count):
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            y = (x * 2 + 1).sum()
        graph.replay()
captures(100)
before = resident()
captures(300)
print(resident() - before)
"""))
    assert grown < 3000  # kB; a capture has a pool of pinned memory, whose tables alone are 32


def test_pinned_memory_of_a_capture_is_its_own():
    x = torch.ones(4, device="npu")
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        host = torch.empty(4, pin_memory=True)
        y = x * 3
    place = host.data_ptr()
    del host
    others = [torch.zeros(4, pin_memory=True) for _ in range(4)]
    assert place not in {other.data_ptr() for other in others}
    graph.replay()
    assert y.tolist() == [3] * 4
    del graph
    torch.npu.host_empty_cache()


def test_a_replay_after_an_input_was_freed_is_refused_by_a_strict_card(check):
    printed = check("""
x = torch.ones(1 << 20, device="npu")
graph = torch.npu.NPUGraph()
with torch.npu.graph(graph):
    y = x * 2
del x
torch.npu.empty_cache()
try:
    graph.replay()
    torch.npu.synchronize()
except RuntimeError as error:
    print(error)
print((torch.ones(2).npu() + 1).tolist())
""", SOFTNPU_STRICT="1")
    assert "aclnnMul" in printed and "is not an address in live device memory" in printed and "[2.0, 2.0]" in printed


def test_threads_capture_beside_each_other():
    results = {}

    def work(number):
        x = torch.full((16,), float(number), device="npu")
        graph = torch.npu.NPUGraph()
        with torch.npu.stream(torch.npu.Stream()):
            graph.capture_begin(capture_error_mode="thread_local")
            y = (x * 2).sin() + number
            graph.capture_end()
        graph.replay()
        results[number] = y.cpu(), ((x * 2).sin() + number).cpu()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for got, expected in results.values():
        assert torch.equal(got, expected)


def test_the_dump_lists_the_tasks(tmp_path):
    x = torch.ones(4, device="npu")
    graph, _ = capture(lambda: (x + x).relu())
    graph.debug_dump(str(tmp_path / "graph.json"))
    tasks = json.loads((tmp_path / "graph.json").read_text())["tasks"]
    assert [task["name"] for task in tasks] == ["aclnnAdd", "aclnnRelu"]
    assert "Float[4]" in tasks[0]["arguments"]


def test_task_groups_are_updated(level):
    x = torch.full((4,), 3.0, device="npu")
    graph, update, gate = torch.npu.NPUGraph(), torch.npu.Stream(), torch.npu.ExternalEvent()
    with torch.npu.graph(graph):
        stream = torch.npu.current_stream()
        gate.wait(stream)
        gate.reset(stream)
        torch.npu.graph_task_group_begin(stream)
        y = torch.mul(x, 2.0)
        group = torch.npu.graph_task_group_end(stream)
        z = y + 1
    for factor in (10.0, 20.0):
        graph.replay()
        with torch.npu.stream(update):
            torch.npu.graph_task_update_begin(update, group)
            torch.mul(x, factor, out=y)
            torch.npu.graph_task_update_end(update)
            gate.record(update)
        assert z.tolist() == [3 * factor + 1] * 4


def test_update_gives_attention_new_lengths(level):
    torch.manual_seed(0)
    heads, size, room = 2, 8, 16
    q = torch.randn(2, heads, 1, size).half().npu()
    k, v = (torch.randn(2, heads, room, size).half().npu() for _ in range(2))

    def attend(lengths):
        return torch.ops.npu.npu_fused_infer_attention_score(
            q, k, v, num_heads=heads, input_layout="BNSD", scale=size**-0.5, actual_seq_lengths_kv=lengths)[0]

    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, auto_dispatch_capture=True):
        out = attend([4, 5])
    for lengths in ([3, 16], [9, 1]):
        graph.replay()
        graph.update(cpu_update_input=[{"actual_seq_lengths_kv": lengths}])
        assert torch.equal(out, attend(lengths))
    with pytest.raises(ValueError, match="actual_seq_lengths, actual_seq_lengths_kv"):
        graph.update(cpu_update_input=[{"scale": 1.0}])
    for wrong in ("x", {}, None, [5]):
        with pytest.raises(TypeError, match="a list of dicts"):
            graph.update(cpu_update_input=wrong)
    for wrong, words in ((["x"], "actual_seq_lengths_kv"), ([99, 99], "more than there are tokens")):
        with pytest.raises(RuntimeError, match=words):  # the operator's reason, not that the update has too few tasks
            graph.update(cpu_update_input=[{"actual_seq_lengths_kv": wrong}])
    graph.replay()
    graph.update(cpu_update_input=[{"actual_seq_lengths_kv": [5, 6]}])
    assert torch.equal(out, attend([5, 6]))
    with pytest.raises(RuntimeError, match="auto_dispatch_capture=True"):
        torch.npu.NPUGraph().update([{}])


def test_graphed_callables_train_as_eager_ones():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU()).npu()
    head = torch.nn.Linear(5, 2).npu()
    twins = copy.deepcopy((model, head))
    x, hidden = torch.randn(3, 6).npu(), torch.randn(3, 5).npu().requires_grad_()
    model, head = torch.npu.make_graphed_callables((model, head), ((x,), (hidden,)))
    for _ in range(2):
        given = torch.randn(3, 6).npu()
        for pair in ((model, head), twins):
            for module in pair:
                module.zero_grad()
            pair[1](pair[0](given)).square().sum().backward()
        for graphed, twin in zip((model, head), twins, strict=True):
            for a, b in zip(graphed.parameters(), twin.parameters(), strict=True):
                assert torch.equal(a.grad, b.grad)
    model.eval()
    assert torch.equal(model(x), twins[0](x))


def test_graphed_callables_refuse_what_they_cannot_do():
    with pytest.raises(ValueError, match="sample_args"):
        torch.npu.make_graphed_callables((torch.nn.ReLU(), torch.nn.ReLU()), ((torch.ones(2, device="npu"),),))
    with pytest.raises(TypeError, match="tensors"):
        torch.npu.make_graphed_callables(torch.nn.ReLU(), (3,))
    x = torch.ones(2, device="npu")
    with pytest.raises(TypeError, match="a tuple of the arguments"):
        torch.npu.make_graphed_callables(torch.nn.ReLU(), x)
    with pytest.raises(ValueError, match="on an npu"):
        torch.npu.make_graphed_callables(torch.nn.Linear(2, 2), (torch.ones(2),))
    with pytest.raises(TypeError, match="but returned NoneType, int"):
        torch.npu.make_graphed_callables(lambda a: (a, None, [3]), (x,))


def test_gradients_of_graphed_callables_add_up():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2)).npu()
    twin = copy.deepcopy(model)
    graphed = torch.npu.make_graphed_callables(model, (torch.randn(3, 6).npu(),))
    for _ in range(2):
        for _ in range(3):
            x = torch.randn(3, 6).npu()
            graphed(x).square().sum().backward()
            twin(x).square().sum().backward()
        for a, b in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad)
        model.zero_grad(), twin.zero_grad()


def test_gradients_of_leaves_outlive_the_next_replay():
    graphed = torch.npu.make_graphed_callables(lambda a: a * a, (torch.ones(3, device="npu", requires_grad=True),))
    first, second = (torch.full((3,), value, device="npu", requires_grad=True) for value in (2.0, 5.0))
    for x in (first, second, first):
        graphed(x).sum().backward()
    assert first.grad.tolist() == [8] * 3 and second.grad.tolist() == [10] * 3


def test_captures_with_launches_that_wait(check):
    """ASCEND_LAUNCH_BLOCKING=1 waits for launches, of which a capture has none."""
    print(check("""
x, graph = torch.ones(3, device="npu"), torch.npu.NPUGraph()
with torch.npu.graph(graph):
    y = x * 2 + 1
x.fill_(4)
graph.replay()
assert y.tolist() == [9] * 3
""", ASCEND_LAUNCH_BLOCKING="1"))


def test_graphed_callables_take_what_they_were_captured_with():
    """One argument too few would make a parameter an input; another shape would be spread over the captured one."""
    x = torch.ones(4, device="npu")
    graphed = torch.npu.make_graphed_callables(lambda a, b: a * 2 + b, (x.clone(), x.clone()))
    for arguments, error, words in (((x,), TypeError, "2 tensors, but got 1"), ((x, x, x), TypeError, "but got 3"),
                                    ((x, 5), TypeError, "argument 1 is of type int"), ((x, x[:1]), ValueError, r"argument 1 has \[1\]")):
        with pytest.raises(error, match=words):
            graphed(*arguments)
    assert graphed(x, x).tolist() == [3] * 4
    module = torch.nn.Linear(4, 4, device="npu")
    weight = module.weight.detach().clone()
    module = torch.npu.make_graphed_callables(module, (torch.ones(2, 4, device="npu"),))
    with pytest.raises(TypeError, match="1 tensors, but got 0"):
        module()
    assert torch.equal(module.weight, weight)


def test_super_kernels_are_explained():
    for name in ("super_kernel_scope_begin", "super_kernel_scope_end"):
        with pytest.raises(NotImplementedError, match="only CANN"):
            getattr(torch.npu, name)()
