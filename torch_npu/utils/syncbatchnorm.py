"""torch.nn.SyncBatchNorm's function under the official plugin's name; the module itself needs nothing from here."""

from __future__ import annotations

import torch
from torch.nn.modules._functions import SyncBatchNorm as _SyncBatchNorm

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(torch.autograd.Function):
    """Upstream's, with the official order of arguments."""

    @staticmethod
    def forward(self, input_tensor, weight, bias, running_mean, running_var, eps, momentum, process_group, world_size):
        return _SyncBatchNorm.forward(self, input_tensor, weight, bias, running_mean, running_var, eps, momentum, process_group, world_size)

    @staticmethod
    def backward(self, grad_output):
        return _SyncBatchNorm.backward(self, grad_output)
