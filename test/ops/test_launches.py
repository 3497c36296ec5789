"""How often operators reach the device, by softnpu's counters."""

import counters
import pytest
import torch

from torch_npu import optim

pytestmark = pytest.mark.skipif(not torch.npu.is_available(), reason="no npu is available")


@pytest.fixture(autouse=True)
def warm():
    torch.ones(1, device="npu").add(1).item()


def count_of_a_step(optimizer, **options):
    """What the second step of fifty tensors costs."""
    parameters = [torch.randn(4, 3, device="npu", requires_grad=True) for _ in range(50)]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    step = optimizer(parameters, **options).step
    step()  # makes the state
    torch.npu.synchronize()
    with counters.Counted() as count:
        step()
    assert count.d2h_copies == count.h2d_copies == count.synchronizations == 0
    return count.tasks


def test_a_fused_step_of_fifty_tensors_is_one_launch():
    assert count_of_a_step(torch.optim.SGD, fused=True) == 1


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.Adam, torch.optim.Adagrad])
def test_torch_advances_its_step_counters_by_launches_of_their_own(optimizer):
    assert count_of_a_step(optimizer, fused=True) == 3  # two, of 48 counters at most


@pytest.mark.parametrize("optimizer, options", [
    (optim.NpuFusedSGD, {}), (optim.NpuFusedSGD, {"momentum": 0.9, "weight_decay": 0.1}),
    (optim.NpuFusedAdam, {}), (optim.NpuFusedAdam, {"amsgrad": True}), (optim.NpuFusedAdamW, {}),
])
def test_a_combined_step_of_fifty_tensors_is_one_launch(optimizer, options):
    assert count_of_a_step(optimizer, **options) == 1


@pytest.mark.parametrize("operator, lists, launches", [
    (torch._foreach_abs_, 1, 3), (torch._foreach_abs, 1, 5), (torch._foreach_add_, 2, 5), (torch._foreach_add, 2, 7),
    (torch._foreach_addcmul_, 3, 7), (torch._foreach_addcmul, 3, 9),
])
def test_a_launch_of_a_foreach_operator_takes_48_tensors_at_most(operator, lists, launches):
    """100 of each list, which the operator reads and writes: what the official client was seen to send in one call."""
    arguments = [[torch.randn(5, device="npu") for _ in range(100)] for _ in range(lists)]
    expected = operator(*([t.cpu() for t in each] for each in arguments))
    with counters.Counted() as count:
        actual = operator(*arguments)
    assert count.tasks == launches
    if actual is not None:
        torch.testing.assert_close([t.cpu() for t in actual], list(expected))


def test_a_foreach_operator_of_a_few_tensors_is_one_launch():
    left, right = ([torch.randn(5, device="npu") for _ in range(16)] for _ in range(2))
    with counters.Counted() as count:
        torch._foreach_add(left, right)
    assert count.tasks == 1


def test_a_layer_of_an_lstm_is_one_launch_whatever_its_length():
    net = torch.nn.LSTM(4, 8, device="npu")

    def launches(length):
        x, state = torch.randn(length, 2, 4, device="npu"), torch.zeros(1, 2, 8, device="npu")
        with counters.Counted() as count:
            net(x, (state, state))[0].sum().backward()
        return count.tasks

    launches(3)
    assert launches(3) == launches(30)


@pytest.mark.parametrize("compute", [
    lambda x: x + x, lambda x: x @ x, lambda x: x.softmax(-1), lambda x: x.sum(), lambda x: x.sort()[0], lambda x: x[x.argmax(0)],
    lambda x: x.var(), lambda x: torch.nn.functional.layer_norm(x, (8,)), lambda x: torch.linalg.inv_ex(x).inverse,
    lambda x: torch.fft.fft(x), lambda x: x.cumsum(0), lambda x: torch.where(x > 0, x, 0.0), lambda x: x.bernoulli(0.5),
    lambda x: x.index_fill(0, torch.arange(2, device="npu"), x[0, 0]), lambda x: torch.nonzero_static(x, size=3),
])
def test_operators_do_not_wait_for_the_device(compute):
    x = torch.randn(8, 8, device="npu")
    compute(x)
    with counters.Counted() as count:
        compute(x)
    assert count.d2h_copies == count.synchronizations == 0
