"""Lists and shapes that do not fit: an exception of the CPU's type, never a crash."""

import pytest
import torch
import torch.nn.functional as F


def raises_as_the_cpu(function):
    with pytest.raises(Exception) as cpu:
        function("cpu")
    with pytest.raises(cpu.type):
        function("npu")


@pytest.mark.parametrize("kernel", [(), (2,), (2, 2, 2)])
def test_unfold_and_fold_want_two_numbers(kernel):
    raises_as_the_cpu(lambda device: F.unfold(torch.ones(1, 1, 4, 4, device=device), kernel))
    raises_as_the_cpu(lambda device: F.fold(torch.ones(1, 4, 4, device=device), (3, 3), kernel))


def test_gradient_of_layer_norm_checks_its_shape():
    def backward(device):
        x, statistics = torch.ones(2, 3, device=device), torch.ones(2, 1, device=device)
        torch.ops.aten.native_layer_norm_backward(x, x, [0], statistics, statistics, None, None, [True, False, False])

    raises_as_the_cpu(backward)


def test_lstm_cell_refuses_gates_that_do_not_fit_its_state():
    gates, state = torch.ones(2, 7, device="npu"), torch.ones(2, 3, device="npu")
    with pytest.raises(RuntimeError):
        torch.ops.aten._thnn_fused_lstm_cell(gates, gates, state)
        torch.npu.synchronize()


def test_gradient_of_gru_cell_refuses_a_workspace_that_does_not_fit():
    with pytest.raises(RuntimeError):
        torch.ops.aten._thnn_fused_gru_cell_backward(torch.ones(2, 3, device="npu"), torch.ones(2, 7, device="npu"), False)
        torch.npu.synchronize()
