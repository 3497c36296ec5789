"""Activations that torch has by now, under their older names."""

from torch import nn
from torch.nn import functional as F

__all__ = ["Mish", "SiLU", "Swish"]


class Mish(nn.Module):
    """torch.nn.Mish."""

    def __init__(self) -> None:
        super().__init__()

    def forward(self, x):
        return F.mish(x)


class SiLU(nn.Module):
    """torch.nn.SiLU."""

    def __init__(self) -> None:
        super().__init__()

    def forward(self, x):
        return F.silu(x)


class Swish(SiLU):
    """x * sigmoid(x)."""
