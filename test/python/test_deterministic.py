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
