"""How often operators reach the device, by softnpu's counters."""

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import counters
import torch

import torch_npu  # noqa: F401

pytestmark = pytest.mark.skipif(not torch.npu.is_available(), reason="no npu is available")


@pytest.fixture(autouse=True)
def warm():
    torch.ones(1, device="npu").add(1).item()


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD, torch.optim.Adagrad])
def test_a_fused_step_of_fifty_tensors_is_one_launch(optimizer):
    parameters = [torch.randn(4, 3, device="npu", requires_grad=True) for _ in range(50)]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    step = optimizer(parameters, fused=True).step
    step()  # makes the state
    torch.npu.synchronize()
    with counters.Counted() as count:
        step()
    # Step counters of the parameters are advanced by one launch of their own.
    assert count.tasks <= 2
    assert count.d2h_copies == count.synchronizations == 0


def test_a_foreach_operator_is_one_launch():
    left, right = ([torch.randn(5, device="npu") for _ in range(20)] for _ in range(2))
    with counters.Counted() as count:
        torch._foreach_add(left, right)
    assert count.tasks == 1


@pytest.mark.parametrize("compute", [
    lambda x: x + x, lambda x: x @ x, lambda x: x.softmax(-1), lambda x: x.sum(), lambda x: x.sort()[0], lambda x: x[x.argmax(0)],
    lambda x: x.var(), lambda x: torch.nn.functional.layer_norm(x, (8,)), lambda x: torch.linalg.inv_ex(x).inverse,
    lambda x: torch.fft.fft(x), lambda x: x.cumsum(0), lambda x: torch.where(x > 0, x, 0.0), lambda x: x.bernoulli(0.5),
])
def test_operators_do_not_wait_for_the_device(compute):
    x = torch.randn(8, 8, device="npu")
    compute(x)
    with counters.Counted() as count:
        compute(x)
    assert count.d2h_copies == count.synchronizations == 0
