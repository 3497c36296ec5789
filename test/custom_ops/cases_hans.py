"""Lossless compression of floating numbers: the distribution of the exponents, and that decoding gives the numbers back."""

import torch
from cases import Case, rand

WIDTHS = {torch.float32: torch.int32, torch.float16: torch.int16, torch.bfloat16: torch.int16}


def parts(x):
    """The byte with the exponent of each number, and its other bits with the sign behind them."""
    size = x.element_size()
    bits = x.contiguous().view(WIDTHS[x.dtype]).flatten().long() % (1 << 8 * size)
    turned = (bits << 1) % (1 << 8 * size) + (bits >> (8 * size - 1))
    return turned >> 8 * (size - 1), turned % (1 << 8 * (size - 1))


def buffers(x, fixed=None):
    """pdf, mantissa, fixed and var, as callers make them."""
    size, count = x.element_size(), x.numel()
    return [torch.zeros(256, dtype=torch.int32), *(torch.zeros(n, dtype=x.dtype)
            for n in (count * (size - 1) // size, count if fixed is None else fixed, count))]


def encoded(x, fixed=None):
    exponents, others = parts(x)
    _, mantissa, first, more = buffers(x, fixed)
    size = x.element_size()
    low = torch.stack([others >> 8 * i & 255 for i in range(size - 1)], -1).flatten().to(torch.uint8)
    mantissa.view(torch.uint8)[: len(low)] = low
    room = first.numel() * size
    first.view(torch.uint8)[: min(room, len(exponents))] = exponents[:room].to(torch.uint8)
    more.view(torch.uint8)[: max(len(exponents) - room, 0)] = exponents[room:].to(torch.uint8)
    return mantissa, first, more, torch.zeros(256, dtype=torch.int32)


def distribution(x, statistic=False, reshuff=False, out=()):
    pdf = torch.bincount(parts(x)[0], minlength=256).to(torch.int32) if statistic else out[0]
    return pdf if x.dtype == torch.float16 else (pdf, *encoded(x, out[2].numel())[:3])  # in float16 some of the bits are NaN


def gives_back(x):
    return lambda *_, out: x


CASES = [
    *(Case("npu_hans_encode.out", (rand(8, 16, dtype=dtype), True), distribution, {"out": buffers(rand(8, 16, dtype=dtype))},
           label=str(dtype)) for dtype in WIDTHS),
    Case("npu_hans_encode.out", (rand(8, 16), False, True), distribution, {"out": buffers(rand(8, 16))}, label="distribution as given"),
    Case("npu_hans_encode.out", (rand(8, 16), True), distribution, {"out": buffers(rand(8, 16), 20)}, label="and var"),
    *(Case("npu_hans_decode.out", encoded(rand(8, 16, dtype=dtype), fixed), gives_back(rand(8, 16, dtype=dtype)),
           {"out": torch.zeros(8, 16, dtype=dtype)}, label=f"{dtype}{' and var' if fixed else ''}")
      for dtype in (torch.float16, torch.bfloat16) for fixed in (None, 20)),
]
