"""Synchronising and reading values under torch's modes: kernels must not be seen by them, nor fail because of them."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Spy(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.calls.append((str(function), {a.device.type for a in args if isinstance(a, torch.Tensor)}))
        return function(*args, **(kwargs or {}))


def value(x):
    torch.npu.synchronize()
    return (x @ x).sum().item()


@pytest.fixture
def x():
    return torch.ones(4, 4, device="npu")


def test_dispatch_mode_sees_what_the_user_called_and_nothing_of_the_device(x):
    with Spy() as spy:
        assert value(x) == 64
    assert [name for name, _ in spy.calls] == ["aten.mm.default", "aten.sum.default", "aten._local_scalar_dense.default"]
    assert all(devices == {"npu"} for _, devices in spy.calls)


def test_fake_tensor_mode(x):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True):
        fake = torch.empty(3, 5, device="npu")
        product = fake @ fake.t()
        assert (product.device, product.shape) == (torch.device("npu:0"), (3, 3))
        torch.npu.synchronize()
    assert value(x) == 64


def test_vmap(x):
    doubled = torch.vmap(lambda row: row * 2 + row.sum())(x)
    torch.npu.synchronize()
    assert doubled.sum().item() == 4 * 4 * 6


def test_autocast_of_the_cpu(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert value(x) == 64
        assert (x @ x).dtype == torch.float32


def test_inference_mode_and_no_grad(x):
    with torch.inference_mode():
        assert value(x) == 64
    with torch.no_grad():
        assert value(x) == 64


def test_profiler(x):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        assert value(x) == 64
    names = [event.key for event in profile.key_averages()]
    assert names.count("aten::matmul") == 1
    assert next(event.count for event in profile.key_averages() if event.key == "aten::matmul") == 1


@pytest.mark.parametrize("level", [0, 1, 2])
def test_profiler_shows_launches_with_their_time_and_operator(level):
    from torch.profiler import ProfilerActivity, profile

    before = torch.npu.get_task_queue_enable()
    torch.npu.set_task_queue_enable(level)
    try:
        x = torch.ones(64, 64, device="npu", requires_grad=True)
        for activities in ([ProfilerActivity.CPU, ProfilerActivity.PrivateUse1], [ProfilerActivity.PrivateUse1]):
            with profile(activities=activities) as prof:
                x.mm(x).relu().sum().backward()
                torch.ones(64, 64) @ torch.ones(64, 64)  # none of the card's business
            launches = [e for e in prof.events() if e.device_type == torch.autograd.DeviceType.PrivateUse1]
            assert [e.name for e in launches].count("aclnnMm") == 3
            assert all(e.time_range.elapsed_us() > 0 and e.device_index == 0 for e in launches)
            assert launches == sorted(launches, key=lambda e: e.time_range.start)
            if ProfilerActivity.CPU in activities:
                averages = {e.key: e for e in prof.key_averages()}
                products = averages["aclnnMm"].device_time_total
                assert averages["aten::mm"].device_time_total == pytest.approx(products)
                assert 0 < averages["aten::relu"].device_time_total
    finally:
        torch.npu.set_task_queue_enable(before)
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        x @ x
    assert all(e.device_type == torch.autograd.DeviceType.CPU for e in prof.events())


def test_profiler_measures_time_on_the_card(x, capfd):
    with torch.autograd.profiler.profile(use_device="npu") as profile:
        assert value(x) == 64
    product = next(event for event in profile.key_averages() if event.key == "aten::matmul")
    assert product.count == 1 and 0 < product.device_time_total < 60e6
    assert all(event.device_time_total >= 0 for event in profile.key_averages())
    assert "PrivateUse1" not in capfd.readouterr().err


def test_anomaly_mode():
    x = torch.ones(3, device="npu", requires_grad=True)
    with torch.autograd.detect_anomaly(check_nan=True):
        (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize("level", ["0", "1", "2"])
def test_the_device_learns_of_deterministic_algorithms_at_any_time(check, level):
    code = """
import ctypes
runtime = ctypes.CDLL(torch_npu.__path__[0] + "/softnpu/lib64/libascendcl.so")
def told():
    torch.npu.synchronize()
    value = ctypes.c_int64(-1)
    assert runtime.aclrtGetSysParamOpt(0, ctypes.byref(value)) == 0
    return value.value
x = torch.ones(3, 4, device="npu")
x + x
assert told() == 0
torch.use_deterministic_algorithms(True)
assert (x + x).sum().item() == 24 and told() == 1  # built anew, although the same call is in the cache
torch.use_deterministic_algorithms(False)
x.view(4, 3) * 2
assert told() == 0
"""
    check(code, TORCH_NPU_RUNTIME="soft", TASK_QUEUE_ENABLE=level)
