"""One operator of the kit: a function of tensors, how its tensors are made, and in which types it is tried.

Tables of operators/ are lists of these; check_operator.py runs them. Inputs are described, not made: a list of 300 costs nothing, and the
same seed gives the same numbers on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
FLOAT32 = (torch.float32,)
INTEGERS = (torch.int64, torch.int32)
NUMBERS = (*FLOATS, *INTEGERS)


@dataclass(frozen=True)
class Input:
    """A tensor of numbers between `low` and `high`; "value" ones take the type that is tried, the others keep theirs."""

    shape: tuple[int, ...]
    low: float = -2.0
    high: float = 2.0
    kind: str = "value"  # value, index, mask, float, bytes (int8), order (a permutation of 0 .. n-1 in each row)

    def make(self, dtype: torch.dtype, seed: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        if self.kind == "mask":
            return torch.rand(self.shape, generator=generator) > 0.5
        if self.kind == "index":
            return torch.randint(int(self.low), int(self.high), self.shape, generator=generator)
        if self.kind == "bytes":
            return torch.randint(int(self.low), int(self.high), self.shape, generator=generator, dtype=torch.int8)
        if self.kind == "order":
            return torch.rand(self.shape, generator=generator).argsort(-1)
        if self.kind == "value" and not dtype.is_floating_point:
            low = int(self.low) if self.low != Input.low else -9
            high = int(self.high) + 1 if self.high != Input.high else 10
            return torch.randint(low, max(high, low + 1), self.shape, generator=generator, dtype=dtype)
        numbers = torch.rand(self.shape, generator=generator) * (self.high - self.low) + self.low
        return numbers.to(dtype if self.kind == "value" else torch.float32)


def f(*shape: int, low: float = -2.0, high: float = 2.0) -> Input:
    return Input(shape, low, high)


def index(*shape: int, high: int, low: int = 0) -> Input:
    return Input(shape, low, high, "index")


def int8(*shape: int) -> Input:
    return Input(shape, -100, 100, "bytes")


def float32(*shape: int, low: float = -2.0, high: float = 2.0) -> Input:
    return Input(shape, low, high, "float")


def order(*shape: int) -> Input:
    return Input(shape, kind="order")


def mask(*shape: int) -> Input:
    return Input(shape, kind="mask")


@dataclass(frozen=True)
class Operator:
    """`function` gets the tensors of `inputs` and returns a tensor or several, the same ones on every device."""

    name: str
    function: Callable
    inputs: tuple[Input, ...] = ()
    types: tuple[torch.dtype, ...] = FLOATS
    gradient: bool = True  # whether the floating inputs are differentiated
    loose: float = 1.0  # factor of the tolerances, for sums of many or badly conditioned numbers
    reference: Callable | None = None  # what the CPU computes in its place


def each(names: str, of: object, *inputs: Input, prefix: str = "", **options) -> list[Operator]:
    """Operators that differ in their name only."""
    return [Operator(prefix + name, getattr(of, name), inputs, **options) for name in names.split()]
