"""How an overflow shows: as inf and nan in the result, the only mode in which this package computes.

Chips of the first generation could saturate instead and raise a flag of the card. The names of that mode exist, so that
programs can ask which mode they are in; its flag cannot be read.
"""

import torch

__all__ = ["clear_npu_overflow_flag", "get_npu_overflow_flag", "is_force_overflow_check", "is_support_inf_nan", "npu_check_overflow"]

_NO_FLAG = "the npu computes with inf and nan and has no overflow flag; use torch.npu.utils.npu_check_overflow(tensor)"


def is_support_inf_nan() -> bool:
    """Whether results that overflow are inf or nan. Always."""
    return True


def is_force_overflow_check() -> bool:
    """Whether the flag of saturation mode is polled after each operator. Never: there is no such mode."""
    return False


def npu_check_overflow(grad: torch.Tensor | float) -> bool:
    """Whether a gradient, or a number computed from gradients, holds inf or nan. Waits for the card."""
    return not bool(torch.isfinite(torch.as_tensor(grad)).all())


def get_npu_overflow_flag() -> bool:
    """Raises: the flag belongs to saturation mode."""
    raise RuntimeError(_NO_FLAG)


def clear_npu_overflow_flag() -> None:
    """Raises: the flag belongs to saturation mode."""
    raise RuntimeError(_NO_FLAG)
