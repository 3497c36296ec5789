"""Rebuilding tensors of checkpoints that the official plugin wrote."""

from __future__ import annotations

import torch

from torch_npu._refusal import refuse

__all__: list[str] = []


def _rebuild_npu_tensor(storage, storage_offset, size, stride, requires_grad, backward_hooks, npu_storage_info):
    """A tensor of the given storage; npu_storage_info is the number of its storage format."""
    tensor = torch._utils._rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks)
    if npu_storage_info not in (-1, 0, 2) and tensor.device.type == "npu":
        return torch.ops.npu.npu_format_cast(tensor, npu_storage_info)
    return tensor


save_npu_tensor = refuse("torch_npu.utils.storage.save_npu_tensor", "torch.save writes npu tensors by itself")
