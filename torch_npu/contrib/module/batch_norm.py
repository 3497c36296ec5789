"""Batch norms whose counter of batches is int32, cheaper on cards without fast int64. State dicts are torch's."""

import torch
from torch import nn

__all__ = ["FastBatchNorm1d", "FastBatchNorm2d", "FastBatchNorm3d", "FastSyncBatchNorm"]


class _Int32Counter:
    num_batches_tracked: torch.Tensor | None

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        if self.num_batches_tracked is not None:
            self.num_batches_tracked = self.num_batches_tracked.to(torch.int32)


class FastBatchNorm1d(_Int32Counter, nn.BatchNorm1d):
    """torch.nn.BatchNorm1d."""


class FastBatchNorm2d(_Int32Counter, nn.BatchNorm2d):
    """torch.nn.BatchNorm2d."""


class FastBatchNorm3d(_Int32Counter, nn.BatchNorm3d):
    """torch.nn.BatchNorm3d."""


class FastSyncBatchNorm(_Int32Counter, nn.SyncBatchNorm):
    """torch.nn.SyncBatchNorm; statistics over the ranks of a process group."""

    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        """A copy of the module tree in which every batch norm is this one."""
        converted = nn.SyncBatchNorm.convert_sync_batchnorm(module, process_group)
        for child in converted.modules():
            if type(child) is nn.SyncBatchNorm:
                child.__class__ = cls
                if child.num_batches_tracked is not None:
                    child.num_batches_tracked = child.num_batches_tracked.to(torch.int32)
        return converted
