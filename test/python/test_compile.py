"""torch.compile on npu modules: eager backends exactly, the default backend with captured graphs."""

import warnings

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def network():
    torch.manual_seed(0)
    return nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU())), nn.Linear(8, 2)).npu()


def gradients(function, net, x):
    net.zero_grad()
    function(x).square().sum().backward()
    return [p.grad.clone() for p in net.parameters()]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_eager_backends(backend):
    torch._dynamo.reset()
    net, x = network(), torch.randn(4, 8, device="npu")
    compiled = torch.compile(net, backend=backend, fullgraph=True)
    assert torch.equal(compiled(x), net(x))
    for a, b in zip(gradients(compiled, net, x), gradients(net, net, x)):
        torch.testing.assert_close(a, b)


def test_default_backend_captures_and_says_nothing():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    net = network()
    compiled = torch.compile(net)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "The AccumulateGrad node")
        for rows in (4, 4, 6, 6, 8, 8, 4):  # the third size makes the sizes symbolic
            x = torch.randn(rows, 8, device="npu")
            assert torch.equal(compiled(x), net(x))
            for a, b in zip(gradients(compiled, net, x), gradients(net, net, x)):
                torch.testing.assert_close(a, b)
    assert torch._dynamo.utils.counters["npu"]["replays"] > 0


def test_small_graphs_run_eagerly_with_one_reason(check):
    printed = check("""
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("default")
    for function in (lambda t: t.sin() + 1, lambda t: t[1:], lambda t: t * 2):
        compiled, x = torch.compile(function), torch.randn(4, device="npu", requires_grad=True)
        assert torch.equal(compiled(x), function(x))
        compiled(x).sum().backward()
print([str(w.message) for w in caught])
print(torch._dynamo.utils.counters["npu"])
""")
    assert printed.count("fewer than 12 operators") == 1 and "'small graphs': 3" in printed


@pytest.mark.parametrize("options", [{"mode": "max-autotune-no-cudagraphs"}, {"options": {"triton.cudagraphs": False}}])
def test_graphs_can_be_switched_off(options):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    net, x = network(), torch.randn(4, 8, device="npu")
    compiled = torch.compile(net, **options)
    for _ in range(3):
        assert torch.equal(compiled(x), net(x))
    counters = torch._dynamo.utils.counters["npu"]
    assert (counters["captures"], counters["eager runs"]) == (0, 3)


def test_exported_programs_run():
    net, x = network().eval(), torch.randn(4, 8, device="npu")
    program = torch.export.export(net, (x,), dynamic_shapes=({0: torch.export.Dim("rows", min=2)},))
    other = torch.randn(7, 8, device="npu")
    torch.testing.assert_close(program.module()(other), net(other))


@pytest.mark.parametrize("trains", [False, True])
def test_compiled_functions_are_saved_and_loaded(check, tmp_path, trains):
    """In another process, too: with upstream's aot_compile."""
    program = f"""
import sys, torch._dynamo
trains, path = {trains}, {str(tmp_path / "function")!r}
def function(x, weight):
    return ((x @ weight).relu() @ weight).sin().exp()  # few operators, that do not run eagerly for it
torch.manual_seed(0)
x, weight = torch.randn(4, 4).npu(), torch.randn(4, 4).npu().requires_grad_(trains)
"""
    check(program + """
with torch.set_grad_enabled(trains):
    torch.compile(function, fullgraph=True).aot_compile(((x, weight), {})).save_compiled_function(path)
""")
    printed = check(program + """
with open(path, "rb") as file:
    loaded = torch.compiler.load_compiled_function(file)
for _ in range(6):
    with torch.set_grad_enabled(trains):
        result, wanted = loaded(x, weight), function(x, weight)
    assert torch.equal(result, wanted)
    if trains:
        assert torch.equal(*(torch.autograd.grad(each.sum(), weight)[0] for each in (result, wanted)))
print(torch._dynamo.utils.counters["npu"]["replays"])
""")
    assert int(printed) >= 2 * (1 + trains)


def test_fake_tensors_have_the_real_shapes():
    net = network()
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        out = net(torch.empty(4, 8, device="npu"))
    assert out.shape == (4, 2) and out.device.type == "npu"


def test_graph_breaks_are_not_errors():
    torch._dynamo.reset()
    net = network()

    def step(x):
        y = net(x)
        if y.sum().item() > 1e9:  # depends on data: a graph break
            return x
        return y * 2

    x = torch.randn(4, 8, device="npu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.equal(torch.compile(step, backend="aot_eager")(x), step(x))


@pytest.mark.filterwarnings("ignore:torch.compile. a graph is not captured")
@pytest.mark.parametrize(
    "function",
    [
        lambda a: a.sum(),
        lambda a: a.argmax(),
        lambda a: a.var(),
        lambda a: a * a.sum().item(),
        lambda a: torch.zeros_like(torch.rand(3, device="npu")),
    ],
)
def test_default_backend_asks_about_the_card_while_it_lowers_a_graph(function):
    torch._dynamo.reset()
    a = torch.randn(4, 4, device="npu")
    assert torch.equal(torch.compile(function)(a), function(a))


def test_dynamo_knows_the_npu_but_import_torch_does_not_import_dynamo(check):
    printed = check("""
import sys
print("torch._dynamo" in sys.modules)
from torch._dynamo.device_interface import get_interface_for_device
npu = get_interface_for_device("npu")
torch.npu.set_device(1)
print(npu.current_device(), npu.Worker.get_device_properties("npu:0").name == npu.get_device_properties(0).name)
print(npu.exchange_device(0), npu.maybe_exchange_device(1), npu.get_raw_stream(1) == torch.npu.current_stream(1).npu_stream)
""")
    assert printed.split("\n") == ["False", "1 True", "1 0 True"]


def test_a_compile_worker_answers_without_the_card(monkeypatch):
    """It has what the parent stored before it forked."""
    from torch._dynamo import device_interface

    worker = device_interface.get_interface_for_device("npu").Worker
    monkeypatch.setattr(device_interface, "caching_worker_current_devices", current := {})
    monkeypatch.setattr(device_interface, "caching_worker_device_properties", properties := {})
    monkeypatch.setitem(vars(__import__("torch_npu.dynamo.interface", fromlist=["_"])), "caching_worker_current_devices", current)
    monkeypatch.setitem(vars(__import__("torch_npu.dynamo.interface", fromlist=["_"])), "caching_worker_device_properties", properties)
    assert worker.current_device() == torch.npu.current_device()
    worker.set_device(1)
    assert worker.current_device() == 1
    properties["npu"] = ["first", "second", "third"]
    assert [worker.get_device_properties(device) for device in (None, 0, "npu:2", torch.device("npu:1"), torch.device("npu"))] == [
        "second", "first", "third", "second", "second"]
