"""Overflows as the client's GradScaler of saturation mode asks for them: the float status of the card."""

import torch

import torch_npu
from torch_npu.npu.amp import GradScaler


def check_the_float_status_reports_overflows():
    numbers = torch.zeros(8).npu()
    assert torch_npu.npu_alloc_float_status(numbers).tolist() == [0.0] * 8
    torch_npu.npu_clear_float_status(numbers)
    large = torch.full((40,), 60000.0).half().npu()
    _ = large * 0.5
    assert torch_npu.npu_get_float_status(numbers).tolist() == [0] * 8
    _ = large * 2
    assert torch_npu.npu_get_float_status(numbers).tolist()[0] != 0
    torch_npu.npu_clear_float_status(numbers)
    assert torch_npu.npu_get_float_status(numbers).tolist() == [0] * 8


def check_the_scaler_reads_the_float_status():
    GradScaler.clear_npu_overflow_flag()
    weight = torch.full((4,), 300.0).half().npu().requires_grad_()
    (weight * weight).sum().backward()
    assert GradScaler.get_npu_overflow_flag()
    GradScaler.clear_npu_overflow_flag()
    assert not GradScaler.get_npu_overflow_flag()
