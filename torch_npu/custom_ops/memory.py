"""Tensors in other memory than that of the card."""

import torch

from torch_npu import _C


def empty_with_swapped_memory(size, *, dtype=None, device=None):
    """A tensor of the npu whose memory is the host's: the card reads and writes it over the bus, and its own stays free."""
    device = torch.device("npu" if device is None else device)
    if device.type != "npu":
        raise ValueError(f"empty_with_swapped_memory: device must be an npu, got {device}")
    torch.npu.init()
    dtype = torch.get_default_dtype() if dtype is None else dtype
    size = torch.Size(size)
    return _C.empty_swapped_memory(size.numel() * dtype.itemsize, device).view(dtype).view(size)
