"""Packing of int4 weights, for which no aclnn operator exists."""

import torch


def npu_convert_weight_to_int4pack(weight, inner_k_tiles=0):
    """Eight int4 numbers of a row in one int32, the first in the lowest bits. inner_k_tiles is for other devices: there is one layout."""
    if weight.dtype != torch.int32 or weight.shape[-1] % 8:
        raise ValueError("npu_convert_weight_to_int4pack: weight must be int32 with a multiple of 8 numbers in a row")
    numbers = (weight & 15).to(torch.int64).unflatten(-1, (-1, 8))
    packed = (numbers << (4 * torch.arange(8, device=weight.device))).sum(-1)
    return torch.where(packed >= 1 << 31, packed - (1 << 32), packed).to(torch.int32)
