"""Limits of time on the card."""

import torch

from torch_npu import _C


def set_op_timeout_ms(timeout):
    """How long an operator may run on the current card before CANN ends it. softnpu takes the number and never ends an operator."""
    if timeout < 0:
        raise ValueError(f"set_op_timeout_ms: timeout must not be negative, got {timeout}")
    torch.npu.set_device(torch.npu.current_device())  # opened: opening sets a limit of its own
    _C.set_op_timeout_us(timeout * 1000)
