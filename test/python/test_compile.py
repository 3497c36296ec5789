"""torch.compile on npu modules: eager backends exactly, the default backend eagerly and with one reason."""

import warnings

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 2)).npu()


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


def test_default_backend_runs_eagerly_with_one_reason(check):
    printed = check("""
import warnings
from torch import nn
net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)).npu()
compiled = torch.compile(net)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for rows in (4, 4, 6):
        x = torch.randn(rows, 8, device="npu")
        assert torch.equal(compiled(x), net(x))
        compiled(x).sum().backward()
    other = torch.compile(lambda t: t.sin() + 1)
    assert torch.equal(other(x), x.sin() + 1)
print([str(w.message) for w in caught if "Inductor" in str(w.message)])
""")
    assert printed.count("run eagerly") == 1


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


@pytest.mark.filterwarnings("ignore:torch.compile. Inductor has no code generator")
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
    monkeypatch.setitem(vars(__import__("torch_npu.npu._dynamo", fromlist=["_"])), "caching_worker_current_devices", current)
    monkeypatch.setitem(vars(__import__("torch_npu.npu._dynamo", fromlist=["_"])), "caching_worker_device_properties", properties)
    assert worker.current_device() == torch.npu.current_device()
    worker.set_device(1)
    assert worker.current_device() == 1
    properties["npu"] = ["first", "second", "third"]
    assert [worker.get_device_properties(device) for device in (None, 0, "npu:2", torch.device("npu:1"), torch.device("npu"))] == [
        "second", "first", "third", "second", "second"]
