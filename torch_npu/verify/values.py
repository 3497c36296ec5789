"""How far a result of the card is from the CPU's: used by every check that compares numbers.

A result is "close" within torch.testing's tolerances of its type, "near" within wider ones that a card of reduced products (HF32) and other
elementary functions may need, and "wrong" beyond. Types, sizes and integers allow nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

# rtol and atol: those of torch.testing.assert_close, and wider ones.
CLOSE = {torch.float32: (1.3e-6, 1e-5), torch.float16: (1e-3, 1e-5), torch.bfloat16: (1.6e-2, 1e-5), torch.float64: (1e-7, 1e-7)}
NEAR = {torch.float32: (2e-3, 2e-3), torch.float16: (1e-2, 1e-2), torch.bfloat16: (5e-2, 5e-2), torch.float64: (1e-3, 1e-3)}


@dataclass
class Difference:
    """The worst element of one tensor."""

    verdict: str = "close"  # close, near, wrong
    max_abs: float = 0.0
    max_rel: float = 0.0  # to the element and the tensor's mean magnitude together: numbers near 0 would tell nothing
    wrong: int = 0  # elements beyond the wider tolerance
    first: str = ""  # the first of these: its place, what the card has, what the CPU has
    text: str = ""  # another type or shape


def _bounds(expected: torch.Tensor, tolerance: tuple[float, float], loose: float) -> torch.Tensor:
    """What an element may be off: also a part of the tensor's mean magnitude, which sums that cancel out need."""
    size = expected.abs().nan_to_num(0, 0, 0)
    return loose * (tolerance[1] + tolerance[0] * (size + size.mean()))


def measure(actual: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype, loose: float = 1.0) -> Difference:
    """`dtype` is the type that was computed in: a float32 sum of float16 numbers has float16's errors."""
    if (actual.dtype, actual.shape) != (expected.dtype, expected.shape):
        text = f"{describe(actual)} where the CPU has {describe(expected)}"
        return Difference("wrong", text=text)
    if not expected.numel():
        return Difference()
    if expected.is_complex():
        actual, expected = torch.view_as_real(actual), torch.view_as_real(expected)
    a, e = actual.double(), expected.double()
    same = (a == e) | (a.isnan() & e.isnan())
    distance = torch.where(same, 0.0, (a - e).abs())
    if not expected.is_floating_point():
        beyond = ~same & (distance > 1) if expected.dtype == torch.int8 else ~same  # quantised: a half may be rounded either way
        verdict = "wrong" if beyond.any() else "close" if same.all() else "near"
    else:
        coarse = max((expected.dtype, dtype), key=lambda t: CLOSE.get(t, (0.0,))[0])
        near = _bounds(e, NEAR.get(coarse, (0.0, 0.0)), loose)
        beyond = ~same & ~(distance <= near)
        is_close = bool((same | (distance <= _bounds(e, CLOSE.get(coarse, (0.0, 0.0)), loose))).all())
        verdict = "wrong" if beyond.any() else "close" if is_close else "near"
    finite = distance.nan_to_num(math.inf, math.inf)
    size = e.abs().nan_to_num(0, 0, 0)
    relative = torch.where(same, 0.0, finite / (size + size.mean()).clamp_min(1e-12))
    first = ""
    if verdict == "wrong":
        place = tuple(beyond.nonzero()[0].tolist())
        first = f"at {list(place)} {actual[place].item():.6g}, the CPU has {expected[place].item():.6g}"
    return Difference(verdict, float(finite.max()), float(relative.max()), int(beyond.sum()), first)


def worst(differences: list[Difference]) -> Difference:
    """The one to report of several tensors."""
    return max(differences, key=lambda d: (("close", "near", "wrong").index(d.verdict), d.max_rel), default=Difference())


def describe(value: object) -> str:
    """float16[33, 64] strides [1, 33] format FRACTAL_NZ; what is usual is left out."""
    if not isinstance(value, torch.Tensor):
        return str(value)
    text = f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if value.layout is torch.strided and not value.is_contiguous():
        text += f" strides {list(value.stride())}"
    if value.device.type == "npu":
        import torch_npu

        format_ = torch_npu.get_npu_format(value)
        if format_ not in (-1, 0, 2, 30, 47):  # ND and the plain orders of dimensions
            text += f" format {format_}"
    return text
