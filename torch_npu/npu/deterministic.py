"""Deterministic algorithms for a part of a network, forward and backward: torch.npu.enable_/disable_deterministic_with_backward."""

from __future__ import annotations

import torch

__all__ = ["disable_deterministic_with_backward", "enable_deterministic_with_backward"]


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
