"""Compares elementwise operators and reductions on npu with the CPU on random inputs: strided, broadcast, 0-dimensional, without
elements, of mixed types.

A pair is named "operator#seed": the same seed makes the same inputs, so a failing pair can be repeated.
"""

from __future__ import annotations

import random

import torch
from opinfo import OPS, Result, describe_error, place, recover
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, ReductionOpInfo, UnaryUfuncInfo

KINDS = (UnaryUfuncInfo, BinaryUfuncInfo, ReductionOpInfo)
NAMES = [name for name, op in OPS.items() if isinstance(op, KINDS)]
SEEDS = 3
SIZES = (0, 1, 1, 2, 3, 5, 17, 64)
TYPES = (torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool,
         torch.complex64)


def pairs() -> list[tuple[str, torch.dtype]]:
    return [(f"{name}#{seed}", torch.float32) for name in NAMES for seed in range(SEEDS)]


def values(pick: random.Random, shape: list[int], dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(pick.randrange(2**31))
    if dtype is torch.bool:
        return torch.rand(shape, generator=generator) > 0.5
    if not dtype.is_floating_point and not dtype.is_complex:
        return torch.randint(1, 5, shape, generator=generator, dtype=dtype)
    return torch.randn(shape, generator=generator, dtype=torch.complex64 if dtype.is_complex else torch.float32).to(dtype)


def tensor(pick: random.Random, shape: list[int], dtype: torch.dtype) -> torch.Tensor:
    """Of `shape`, laid out as a transposed tensor, every second element, a part, or an expansion."""
    layout = pick.choice(("contiguous", "transposed", "stepped", "part", "expanded"))
    if layout == "transposed" and shape:
        order = pick.sample(range(len(shape)), len(shape))
        return values(pick, [shape[d] for d in order], dtype).permute([order.index(d) for d in range(len(shape))])
    if layout == "stepped" and shape:
        return values(pick, [2 * n for n in shape], dtype)[tuple(slice(None, None, 2) for _ in shape)]
    if layout == "part" and shape:
        return values(pick, [n + 2 for n in shape], dtype)[tuple(slice(1, n + 1) for n in shape)]
    if layout == "expanded" and shape:
        return values(pick, [1 if pick.random() < 0.5 else n for n in shape], dtype).expand(shape)
    return values(pick, shape, dtype)


class Comparison:
    def __init__(self, name: str, dtype: torch.dtype, limit: int | None = None, device: str = "npu"):
        self.name, _, seed = name.rpartition("#")
        self.op, self.device = OPS[self.name], device
        pick = random.Random(f"{self.name}{seed}")
        shape = [pick.choice(SIZES) for _ in range(pick.randrange(5))]
        self.args = [tensor(pick, shape, pick.choice(TYPES))]
        self.kwargs = {}
        if isinstance(self.op, BinaryUfuncInfo):
            other = [1 if pick.random() < 0.3 else n for n in shape[pick.randrange(len(shape) + 1):]]
            self.args.append(tensor(pick, other, pick.choice((self.args[0].dtype, pick.choice(TYPES)))))
        elif isinstance(self.op, ReductionOpInfo) and shape and pick.random() < 0.7:
            self.kwargs = {"dim": pick.randrange(-len(shape), len(shape)), "keepdim": pick.random() < 0.5}

    def run(self) -> dict[str, Result]:
        return {"forward": self.compare()}

    def compute(self, device: str):
        args = place(self.args, device)
        result = self.op(*args, **self.kwargs)
        return [t.cpu() for t in (result if isinstance(result, (tuple, list)) else [result])]

    def compare(self) -> Result:
        try:
            expected = self.compute("cpu")
        except Exception as error:
            expected = error
        try:
            actual = self.compute(self.device)
        except Exception as error:
            actual = error
        recover()
        given = [(t.dtype, list(t.shape), t.stride()) for t in self.args]
        if isinstance(expected, Exception) or isinstance(actual, Exception):
            # The npu may have a type that the CPU lacks. Which exception is raised is compared by errors.py.
            if isinstance(expected, Exception):
                return Result("pass" if isinstance(actual, Exception) else "none", 1)
            return Result("fail", 1, f"{given} {self.kwargs}: {describe_error(actual) if isinstance(actual, Exception) else 'no error'}")
        try:
            torch.testing.assert_close(actual, expected, equal_nan=True)
        except AssertionError as error:
            return Result("fail", 1, f"{given} {self.kwargs}: {describe_error(error)}")
        return Result("pass", 1)
