"""Deterministic parts of a network: what torch.are_deterministic_algorithms_enabled() says on the way, as with the official client."""

import pytest
import torch


@pytest.fixture(autouse=True)
def restore():
    yield
    torch.use_deterministic_algorithms(False)


def test_a_part_is_deterministic_forward_and_backward():
    enabled, seen = torch.are_deterministic_algorithms_enabled, {}
    x = torch.ones(3, requires_grad=True)
    y = x.npu()
    inside = torch.npu.enable_deterministic_with_backward(y)
    seen["inside"] = enabled()
    inside = inside * 2
    inside.register_hook(lambda gradient: seen.update(backward=enabled()))
    y.register_hook(lambda gradient: seen.update(behind=enabled()))
    outside = torch.npu.disable_deterministic_with_backward(inside)
    seen["outside"] = enabled()
    outside.sum().backward()
    assert seen == {"inside": True, "outside": False, "backward": True, "behind": False}
    assert x.grad.tolist() == [2, 2, 2] and not enabled()


def test_what_is_no_tensor_is_named():
    with pytest.raises(TypeError, match="tensor must be a torch.Tensor, got int"):
        torch.npu.enable_deterministic_with_backward(3)


@pytest.mark.parametrize("queue", ["0", "1", "2"])
def test_the_provider_is_told_the_level_as_the_official_client_does(check, queue):
    """What aclrtGetSysParamOpt gives behind an operator; the client gives 0 1 2 3 0."""
    assert check("""
import ctypes
softnpu, value, told = ctypes.CDLL(torch_npu._C.runtime_path() + "/libsoftnpu.so"), ctypes.c_int64(), []
for level in (0, 1, 2, 3, 0):
    torch.npu.set_deterministic_level(level)
    (torch.ones(3).npu() + 1).sum().item()
    assert softnpu.aclrtGetSysParamOpt(0, ctypes.byref(value)) == 0
    told.append(value.value)
    assert torch.are_deterministic_algorithms_enabled() == (level > 0)
torch.use_deterministic_algorithms(True)
(torch.ones(3).npu() + 1).sum().item()
softnpu.aclrtGetSysParamOpt(0, ctypes.byref(value))
print(*told, value.value)
""", TASK_QUEUE_ENABLE=queue) == "0 1 2 3 0 1"


@pytest.mark.parametrize("level", [-1, 4, True, "1", 1.0])
def test_unknown_levels_are_named(level):
    with pytest.raises(ValueError, match="level must be 0, 1, 2 or 3, got "):
        torch.npu.set_deterministic_level(level)
