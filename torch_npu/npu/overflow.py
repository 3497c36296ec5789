"""How an overflow shows: as inf and nan in the result, the only mode in which this package computes, and in the card's float status.

Chips of the first generation could saturate instead, and told by the float status alone. Its operators are there on every chip; the
functions here that stand for saturation mode say what to use instead.
"""

import warnings

import torch

__all__ = ["clear_npu_overflow_flag", "get_npu_overflow_flag", "is_force_overflow_check", "is_support_inf_nan", "npu_check_overflow"]


def is_support_inf_nan() -> bool:
    """Whether results that overflow are inf or nan. Always."""
    return True


def is_force_overflow_check() -> bool:
    """Whether the float status is asked for in place of the results. Never: results are what is looked at."""
    return False


def npu_check_overflow(grad: torch.Tensor | float) -> bool:
    """Whether a gradient, or a number computed from gradients, holds inf or nan. Waits for the card."""
    if not isinstance(grad, (torch.Tensor, float, int)):
        raise TypeError(f"grad must be a tensor or a number, got {type(grad).__name__}")
    return not bool(torch.isfinite(torch.as_tensor(grad)).all())


def read_float_status() -> bool:
    """Whether an operator of the current card has overflowed since clear_float_status(). Waits for the card."""
    return bool(torch.ops.npu.npu_get_float_status(torch.empty(8, device="npu"))[0])


def clear_float_status() -> None:
    """Forgets the overflows of the current card."""
    torch.ops.npu.npu_clear_float_status(torch.empty(8, device="npu"))


def get_npu_overflow_flag() -> bool:
    """Raises: the flag belongs to saturation mode."""
    raise RuntimeError("the npu computes with inf and nan and has no overflow flag; use torch.npu.utils.npu_check_overflow(tensor)")


def clear_npu_overflow_flag() -> None:
    """Warns: the flag belongs to saturation mode, and nobody can have read it."""
    warnings.warn("the npu computes with inf and nan and has no overflow flag; remove clear_npu_overflow_flag()", stacklevel=2)
