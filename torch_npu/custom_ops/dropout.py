"""Dropout with masks that the caller keeps. A packed mask has one bit per element, in whole blocks of 128."""

import torch

_BLOCK = 128


def _shifts(device):
    return torch.arange(8, dtype=torch.uint8, device=device)


def _bits_of(mask, size):
    """The packed mask as booleans of the given size."""
    bits = (mask.unsqueeze(1) >> _shifts(mask.device)) & 1
    count = size.numel()
    return bits.reshape(-1)[:count].view(size).bool()


def npu_dropout_gen_mask(size, p, *, dtype=None, layout=None, device=None, pin_memory=None):
    """A packed mask; a bit is one with probability 1 - p."""
    elements = torch.Size(size).numel()
    blocks = -(-elements // _BLOCK)
    kept = (torch.rand(blocks * _BLOCK // 8, 8, device=device) >= p).to(torch.uint8)
    return (kept << _shifts(kept.device)).sum(1, dtype=torch.uint8)


def npu_dropout_do_mask(self, mask, p):
    """(dropout, mask)."""
    kept = _bits_of(mask, self.shape).to(self.dtype)
    return (self * kept / (1.0 - p) if p < 1 else self * 0.0), mask


def _npu_dropout(self, p):
    """(dropout, packed mask)."""
    return npu_dropout_do_mask(self, npu_dropout_gen_mask(self.shape, p, device=self.device), p)


def npu_dropout_backward(grad_output, mask, p):
    return npu_dropout_do_mask(grad_output, mask, p)[0]


def _dropout_with_byte_mask(self, p):
    """(dropout, mask with one byte per element)."""
    kept = (torch.rand(self.shape, device=self.device) >= p).to(torch.uint8)
    return (self * kept.to(self.dtype) / (1.0 - p) if p < 1 else self * 0.0), kept


def dropout_with_byte_mask(self, p, train):
    return _dropout_with_byte_mask(self, p)[0] if train else self.clone()
