"""Programs around compiled functions: whatever a program keeps, changes or feeds back, compiled functions give what eager ones give.

Each runs often enough to be eager, captured and replayed. Captures share memory (Note [Results in shared memory] in
torch_npu/dynamo/capture.py), so what lives while something else runs matters.
"""

import copy
import random
import threading
import time

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from torch_npu.dynamo import backend

ROUNDS = 8
pytestmark = [
    pytest.mark.filterwarnings("ignore:The AccumulateGrad node", "ignore:torch.compile. a graph is not captured"),
    pytest.mark.usefixtures("restore_device"),
]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.manual_seed(0)


def network():
    middle = (part for _ in range(4) for part in (nn.Linear(16, 16), nn.GELU()))
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), *middle, nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 4)).npu()


def twins():
    """A network, its compiled form, and a copy that stays eager."""
    net = network()
    return net, torch.compile(net), copy.deepcopy(net)


def close(one, other):
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def same_gradients(one, other):
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        close(a.grad, b.grad)


def batch(rows=5):
    return torch.randn(rows, 8).npu()


def replays():
    return torch._dynamo.utils.counters["npu"]["replays"]


def test_gradients_that_add_up_over_steps():
    net, compiled, twin = twins()
    for i in range(ROUNDS):
        x = batch()
        for each in (compiled, twin):
            each(x).square().mean().backward()
        if i % 3 == 2:
            same_gradients(net, twin)
            for each in (net, twin):
                for parameter in each.parameters():
                    with torch.no_grad():
                        parameter.sub_(parameter.grad * 0.1)
                    parameter.grad = None
    assert replays() > ROUNDS // 2


def test_several_forward_passes_before_their_backward_passes():
    net, compiled, twin = twins()
    for _ in range(ROUNDS):
        inputs = [batch() for _ in range(4)]
        for each in (compiled, twin):
            losses = [each(x).square().sum() for x in inputs]
            for i in (2, 0, 3, 1):
                losses[i].backward()
    same_gradients(net, twin)
    assert replays() > 0


def test_two_backward_passes_of_one_graph():
    net, compiled, twin = twins()
    for _ in range(ROUNDS):
        x = batch()
        for each in (compiled, twin):
            loss = each(x).square().sum()
            loss.backward(retain_graph=True)
            loss.backward()
    same_gradients(net, twin)


def test_gradients_on_and_off_in_turn():
    net, compiled, twin = twins()
    for i in range(2 * ROUNDS):
        x = batch()
        if i % 3 == 1:
            with torch.no_grad():
                close(compiled(x), twin(x))
        else:
            for each in (compiled, twin):
                each(x).square().mean().backward()
    same_gradients(net, twin)


def test_sizes_that_come_and_go():
    net, compiled, twin = twins()
    for rows in (3, 5, 7, 5, 3, 9, 7, 5, 3, 0, 3, 5, 0, 7):
        x = batch(rows)
        for each in (compiled, twin):
            each(x).square().sum().backward()
    same_gradients(net, twin)


def test_statistics_of_batch_norm():
    net = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 3), nn.BatchNorm2d(2)).npu()
    twin, compiled = copy.deepcopy(net), torch.compile(net)
    for _ in range(ROUNDS):
        x = torch.randn(3, 2, 8, 8).npu()
        for each in (compiled, twin):
            each(x).square().mean().backward()
    for a, b in zip(net.state_dict().values(), twin.state_dict().values(), strict=True):
        close(a, b)
    same_gradients(net, twin)


def test_parameters_that_are_frozen_loaded_and_watched():
    net, compiled, twin = twins()
    seen = []
    for each in (net, twin):
        each[0].requires_grad_(False)
        each[3].weight.register_hook(lambda gradient: seen.append(gradient.shape) or gradient * 2)
    for _ in range(ROUNDS):
        x = batch()
        state = {name: torch.randn_like(value) for name, value in net.state_dict().items()}
        for each in (net, twin):
            each.load_state_dict(state)
        for each in (compiled, twin):
            each(x).square().mean().backward()
    assert net[0].weight.grad is None and len(seen) == 2 * ROUNDS
    same_gradients(net[3:], twin[3:])


@pytest.mark.parametrize("kind, options", [(torch.optim.SGD, {"momentum": 0.9}), (torch.optim.Adam, {})])
def test_compiled_steps_of_optimisers(kind, options):
    net, compiled, twin = twins()
    one, two = (kind(each.parameters(), lr=0.01, **options) for each in (net, twin))
    compiled_step = torch.compile(one.step)
    for _ in range(ROUNDS):
        x = batch()
        for each, optimizer, step in ((compiled, one, compiled_step), (twin, two, two.step)):
            optimizer.zero_grad()
            each(x).square().mean().backward()
            step()
    for a, b in zip(net.parameters(), twin.parameters(), strict=True):
        close(a, b)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast(dtype):
    net, compiled, twin = twins()
    for i in range(ROUNDS):
        x = batch()
        with torch.autocast("npu", dtype), torch.set_grad_enabled(i % 2 == 0):
            results = [each(x) for each in (compiled, twin)]
        assert results[0].dtype == results[1].dtype
        torch.testing.assert_close(*results, rtol=2e-2, atol=2e-2)
        if i % 2 == 0:
            for result in results:
                result.float().square().mean().backward()
    for a, b in zip(net.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=5e-2, atol=5e-2)


def test_checkpointed_activations():
    from torch.utils.checkpoint import checkpoint

    net, _, twin = twins()
    compiled = torch.compile(lambda x: checkpoint(net, x, use_reentrant=False))
    for _ in range(ROUNDS):
        x = batch()
        compiled(x).square().mean().backward()
        twin(x).square().mean().backward()
    same_gradients(net, twin)


@pytest.mark.parametrize("small", [True, False])
def test_checkpointed_activations_draw_the_same_again(small):
    """The backward pass drops what the forward pass dropped, also where several forward passes come before their backward passes."""
    from torch.utils.checkpoint import checkpoint

    def noisy(x):
        return F.dropout(x if small else x * 2 * 0.5 + 0, 0.4)

    compiled = torch.compile(lambda x: checkpoint(noisy, x, use_reentrant=False))
    seen = set()
    for _ in range(ROUNDS):
        inputs = [torch.ones(64, device="npu", requires_grad=True) for _ in range(2)]
        results = [compiled(x) for x in inputs]
        for x, y in reversed(list(zip(inputs, results, strict=True))):
            y.sum().backward()
            assert torch.equal(x.grad, y.detach())
            seen.add(tuple(y.tolist()))
    assert len(seen) == 2 * ROUNDS
    if not small:
        assert replays() > ROUNDS


def test_functions_that_are_transformed():
    """torch.func's tensors wrap others; a chain that looks like a fused operator's is not one under vmap."""
    from torch.func import grad, vmap

    def norm(x, weight):
        return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))

    def function(x, weight):
        return vmap(norm, (0, None))(x, weight), vmap(grad(lambda row: (norm(row, weight) * row.sin()).sum()))(x)

    compiled = torch.compile(function)
    for _ in range(4):
        x, weight = batch(), torch.rand(8).npu()
        for one, other in zip(compiled(x, weight), function(x, weight), strict=True):
            close(one, other)


def changes_its_argument(x):
    x.mul_(2)
    y = x.sin() + 1
    x.add_(y)
    return y.exp().cos()


def changes_a_part(x):
    x[1:].mul_(2)
    return (x.sin() + 1).exp().sum()


@pytest.mark.parametrize("function", [changes_its_argument, changes_a_part])
def test_arguments_that_are_views_and_are_changed(function):
    compiled = torch.compile(function)
    for _ in range(ROUNDS):
        one = torch.randn(10).npu()
        two = one.clone()
        close(compiled(one[2:8]), function(two[2:8]))
        close(one, two)


def test_arguments_that_are_the_same_tensor():
    def function(x, y):
        x.mul_(2)
        return (y + 1).sin().exp().cos()

    compiled = torch.compile(function)
    for _ in range(ROUNDS):
        one = torch.randn(5).npu()
        two = one.clone()
        close(compiled(one, one), function(two, two))
        close(one, two)


def test_results_that_are_arguments_or_views():
    def function(x, y):
        z = (x * 2 + 1).relu().exp()
        return x, z, y.view(-1), z[1:], {"sums": [z.sum(), z.t() if z.dim() == 2 else z]}

    compiled, kept = torch.compile(function), []
    for _ in range(ROUNDS):
        x, y = torch.randn(3).npu(), torch.randn(2, 2).npu()
        results = compiled(x, y)
        assert results[0] is x and results[2].data_ptr() == y.data_ptr()
        kept.append((x, y, results[3][:1], results[4]["sums"][0]))
    for x, y, part, total in kept:
        expected = function(x, y)
        close(part, expected[3][:1])
        close(total, expected[4]["sums"][0])


def test_threads_on_streams_of_their_own_capture_one_after_the_other(monkeypatch):
    begin = torch.npu.NPUGraph.capture_begin

    def begin_and_wait(*args, **kwargs):
        begin(*args, **kwargs)
        time.sleep(0.1)

    monkeypatch.setattr(torch.npu.NPUGraph, "capture_begin", begin_and_wait)

    functions = [lambda x: ((x * 2).sin() + 1).cos() * 3 - x, lambda x: ((x * 5).cos() + 1).sin() * 3 - x]
    compiled, start, wrong = [torch.compile(function) for function in functions], threading.Barrier(2), []
    for each in compiled:  # compiled here; what runs at once is the captures
        each(torch.ones(16).npu())

    def run(number):
        with torch.npu.stream(torch.npu.Stream()):
            x = torch.full((16,), float(number)).npu()
            for _ in range(5):
                start.wait(timeout=60)
                if not torch.allclose(compiled[number](x), functions[number](x)):
                    wrong.append(number)

    counters = torch._dynamo.utils.counters["npu"]
    counters.clear()
    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and counters["captures"] >= 2 and counters["eager runs"] <= 2, dict(counters)


def test_inputs_whose_elements_share_memory_are_not_copied(check):
    """No kernel may write a copy of them: softnpu says so when it is strict."""
    check("""
import warnings
def function(x):
    return ((x * 2 + 1).relu() - 3).sin() + x.cos()

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for make in (lambda x: x.unfold(0, 3, 1), lambda x: x.as_strided((4, 4), (2, 1)), lambda x: x[:4].expand(3, 4), lambda x: x[::2]):
        compiled = torch.compile(function)
        for _ in range(4):
            x = torch.randn(12)
            torch.testing.assert_close(compiled(make(x.npu())).cpu(), function(make(x)))
reasons = [str(each.message) for each in caught if "share memory" in str(each.message)]
assert len(reasons) == 2, [str(each.message) for each in caught]
""", SOFTNPU_STRICT="calls")


def test_results_of_which_only_the_storage_is_kept():
    def function(x):
        return ((x * 2).sin() + 1).cos() * 3

    compiled, kept = torch.compile(function), []
    for _ in range(ROUNDS):
        x = torch.randn(3, 4).npu()
        kept.append((x, compiled(x).untyped_storage()))
    for x, storage in kept:
        close(torch.empty(0, device="npu").set_(storage).view(3, 4), function(x))


def test_strides_and_options_that_change():
    def function(x, y, factor, flag, other=None):
        z = ((x + y) * factor).sin()
        z = z.exp() if flag else z.cos()
        return z.sum(1) + other if other is not None else z.sum(1)

    compiled = torch.compile(function)
    for i in range(2 * ROUNDS):
        x = torch.randn(4, 4).npu()
        arguments = (x.t() if i % 2 else x, x[:, :1].expand(4, 4), i * 0.5, i % 3 == 0, x[0] if i % 4 == 0 else None)
        close(compiled(*arguments), function(*arguments))


def test_results_that_are_fed_back():
    def cell(x, hidden, weight):
        for _ in range(2):
            x = ((x + hidden) @ weight).tanh() * 0.9 + hidden * 0.1
        return x

    one = torch.randn(4, 4).npu().requires_grad_()
    two = one.detach().clone().requires_grad_()
    compiled = torch.compile(cell)
    first = second = torch.zeros(3, 4).npu()
    for _ in range(4):
        for _ in range(5):
            x = torch.randn(3, 4).npu()
            first, second = compiled(x, first, one), cell(x, second, two)
            close(first, second)
        first.sum().backward()
        second.sum().backward()
        close(one.grad, two.grad)
        first, second = first.detach(), second.detach()
    assert replays() > 0


def test_a_number_on_the_host_that_changes():
    scale = torch.tensor(2.0)

    def function(x):
        return ((x * scale).sin() + 1).exp().cos()

    compiled = torch.compile(function)
    for i in range(ROUNDS):
        scale.fill_(i)
        x = torch.randn(4).npu()
        close(compiled(x), function(x))


def test_inputs_that_another_stream_made():
    net, compiled, twin = twins()
    stream = torch.npu.Stream()
    with torch.inference_mode():
        for _ in range(ROUNDS):
            with torch.npu.stream(stream):
                x = torch.randn(500, 8).npu() * 2
            torch.npu.current_stream().wait_stream(stream)
            close(compiled(x), twin(x))


def functions():
    """With results of different sizes, so that their memory falls differently into that of the others."""
    weight = torch.randn(8, 8).npu().requires_grad_()
    return [
        lambda x: ((x @ weight).sin() * 2 + 1).exp(),
        lambda x: F.softmax(x @ weight, -1).cos().sum(0) * 3 + 1,
        lambda x: torch.cat([(x * 2).sin(), (x @ weight).tanh(), x.exp()], -1).sum(-1),
        lambda x: (F.layer_norm(x, (8,)) @ weight).relu().square().mean(),
    ], weight


@pytest.mark.parametrize("seed", range(6))
def test_whatever_lives_while_others_run(seed, monkeypatch):
    """Functions in any order; results are kept, dropped, or differentiated later."""
    monkeypatch.setattr(backend, "FEWEST_LAUNCHES_IN_TRAINING", backend.FEWEST_LAUNCHES)  # they are small
    choose = random.Random(seed)
    eager, weight = functions()
    compiled = [torch.compile(function) for function in eager]
    kept = []
    for _ in range(80):
        action = choose.random()
        if action < 0.6 or not kept:
            number, x = choose.randrange(len(eager)), batch(choose.choice((4, 6))).requires_grad_(choose.random() < 0.5)
            with torch.set_grad_enabled(choose.random() < 0.7):
                kept.append((number, x, compiled[number](x)))
        elif action < 0.8:
            kept.pop(choose.randrange(len(kept)))
        else:
            number, x, result = kept.pop(choose.randrange(len(kept)))
            if result.requires_grad:
                wanted = [t for t in (x, weight) if t.requires_grad]
                got = torch.autograd.grad(result.sum(), wanted)
                for a, b in zip(got, torch.autograd.grad(eager[number](x).sum(), wanted), strict=True):
                    close(a, b)
        for number, x, result in kept[-6:]:
            with torch.no_grad():
                close(result, eager[number](x))
    assert replays() > 5
