"""Deterministic algorithms: their level, and a part of a network that has them in both passes (torch.npu.enable_deterministic_...)."""

from __future__ import annotations

import torch

from torch_npu import _C

__all__ = ["disable_deterministic_with_backward", "enable_deterministic_with_backward", "set_deterministic_level"]


def set_deterministic_level(level: int) -> None:
    """0 is `torch.use_deterministic_algorithms(False)`, 1 is True, 2 and 3 are True with a level that CANN's operators are told.

    softnpu's operators are deterministic at every level.
    """
    if not isinstance(level, int) or isinstance(level, bool) or not 0 <= level <= 3:
        raise ValueError(f"set_deterministic_level: level must be 0, 1, 2 or 3, got {level!r}")
    _C.set_deterministic_level(max(level, 1))
    torch.use_deterministic_algorithms(level > 0)


class _Switch(torch.autograd.Function):
    """Sets torch.use_deterministic_algorithms in the forward pass, and its opposite when the gradient comes by."""

    @staticmethod
    def forward(ctx, tensor, enabled):
        ctx.enabled = enabled
        torch.use_deterministic_algorithms(enabled)
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx, gradient):
        torch.use_deterministic_algorithms(not ctx.enabled)
        return gradient, None


def enable_deterministic_with_backward(tensor: torch.Tensor) -> torch.Tensor:
    """Begins a deterministic part of a network; `tensor` goes into it. The backward pass of the part is deterministic too."""
    return _switched(tensor, True)


def disable_deterministic_with_backward(tensor: torch.Tensor) -> torch.Tensor:
    """Ends a deterministic part; `tensor` comes out of it."""
    return _switched(tensor, False)


def _switched(tensor: torch.Tensor, enabled: bool) -> torch.Tensor:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"tensor must be a torch.Tensor, got {type(tensor).__name__}")
    return _Switch.apply(tensor, enabled)
