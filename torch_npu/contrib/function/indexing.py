"""Assignment by condition, rolling."""

import torch

__all__ = ["npu_fast_condition_index_put", "roll"]


def npu_fast_condition_index_put(x: torch.Tensor, condition: torch.Tensor, value: float) -> torch.Tensor:
    """x with `value` where the condition, of x's shape or of its leading dimensions, holds; shapes do not depend on data."""
    if condition.dtype not in (torch.bool, torch.uint8):
        raise TypeError(f"condition must be bool, not {condition.dtype}")
    condition = condition.bool().reshape(condition.shape + (1,) * (x.dim() - condition.dim()))
    return torch.where(condition, torch.full((), value, dtype=x.dtype, device=x.device), x)


def roll(x: torch.Tensor, shifts, dims) -> torch.Tensor:
    """torch.roll."""
    return torch.roll(x, shifts, dims)
