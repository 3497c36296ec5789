"""Dropout with masks that the caller keeps. A packed mask has one bit per element, in whole blocks of 128."""

import torch

_BLOCK = 128


def _shifts(device):
    return torch.arange(8, dtype=torch.uint8, device=device)


def bits_of(mask, size):
    """The packed mask as booleans of the given size."""
    bits = (mask.unsqueeze(1) >> _shifts(mask.device)) & 1
    count = size.numel()
    return bits.reshape(-1)[:count].view(size).bool()


def packed(kept):
    """Booleans as bits, filled up with zeros to whole blocks."""
    bits = kept.flatten().to(torch.uint8)
    bits = torch.cat([bits, bits.new_zeros(-len(bits) % _BLOCK)]).view(-1, 8)
    return (bits << _shifts(bits.device)).sum(1, dtype=torch.uint8)


def npu_dropout_gen_mask(size, p, *, dtype=None, layout=None, device=None, pin_memory=None):
    """A packed mask; a bit is one with probability 1 - p. It is uint8 and strided: dtype, layout and pin_memory say nothing of it."""
    return packed(torch.rand(torch.Size(size).numel(), device=device) >= p)


def npu_dropout_do_mask(self, mask, p):
    """(dropout, mask)."""
    kept = bits_of(mask, self.shape).to(self.dtype)
    return (self * kept / (1.0 - p) if p < 1 else self * 0.0), mask


def _dropout_with_byte_mask(self, p):
    """(dropout, mask with one byte per element)."""
    kept = (torch.rand(self.shape, device=self.device) >= p).to(torch.uint8)
    return (self * kept.to(self.dtype) / (1.0 - p) if p < 1 else self * 0.0), kept


def dropout_with_byte_mask(self, p, train):
    return _dropout_with_byte_mask(self, p)[0] if train else self.clone()


def _dropout_with_byte_mask_backward(grad_output, mask, p):
    kept = mask.flatten()[: grad_output.numel()].view_as(grad_output).to(grad_output.dtype)
    return grad_output * kept / (1.0 - p) if p < 1 else grad_output * 0.0
