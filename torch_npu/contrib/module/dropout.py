"""Dropout and drop path under the names of code that prepares masks ahead. Masks are drawn when needed; the results are
those of torch.nn.Dropout, and enable_*_ensemble, which asks for the preparation, changes nothing."""

import torch
from torch import nn

__all__ = ["DropoutWithByteMask", "NpuCachedDropout", "NpuDropPath", "NpuFairseqDropout", "NpuPreGenDropout"]


class DropoutWithByteMask(nn.Dropout):
    """torch.nn.Dropout; max_seed is accepted for compatibility."""

    def __init__(self, p=0.5, inplace=False, max_seed=1023) -> None:
        super().__init__(p, inplace)

    def forward(self, input1):
        return super().forward(input1)


class NpuCachedDropout(nn.Dropout):
    """torch.nn.Dropout; module_name is a label."""

    def __init__(self, p, module_name=None) -> None:
        super().__init__(p)
        self.module_name = module_name

    def forward(self, x):
        return super().forward(x)

    @classmethod
    def enable_dropout_ensemble(cls, model) -> None:
        """Nothing to prepare."""


class NpuFairseqDropout(NpuCachedDropout):
    """fairseq's dropout."""


class NpuPreGenDropout(NpuCachedDropout):
    """torch.nn.Dropout."""


class NpuDropPath(nn.Module):
    """Stochastic depth: whole samples are dropped, the others scaled up."""

    def __init__(self, drop_prob=None) -> None:
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x):
        if not self.drop_prob or not self.training:
            return x
        keep = 1 - self.drop_prob
        mask = torch.rand((x.shape[0],) + (1,) * (x.dim() - 1), device=x.device) < keep
        return x * mask.to(x.dtype) / keep

    @classmethod
    def enable_droppath_ensemble(cls, model) -> None:
        """Nothing to prepare."""
