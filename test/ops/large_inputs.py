"""Compares common operators on npu with the CPU on tensors of more than 2^31 bytes, those of bytes with more than 2^31 elements too.

A pair is named "large:case". A case makes its inputs on the device from a short pattern, so that no second copy of them exists, and
takes at most 9 GiB in all: run one at a time.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from opinfo import Result, describe_error, recover

ROWS, COLUMNS = 46349, 46351  # primes; as bytes just above 2^31 elements
FAR = ROWS * COLUMNS - 5
CHUNK = 1 << 27  # elements compared at once


def matrix(device: str, dtype: torch.dtype = torch.uint8, rows: int = ROWS, columns: int = COLUMNS) -> torch.Tensor:
    """Of more than 2^31 bytes, with values that differ between neighbouring rows and columns."""
    pattern = torch.arange(251, dtype=torch.int16).to(torch.uint8).to(device).to(dtype)
    flat = torch.empty(rows * columns, dtype=dtype, device=device)
    whole = rows * columns // 251
    flat[:whole * 251].view(whole, 251).copy_(pattern.expand(whole, 251))
    flat[whole * 251:].copy_(pattern[:rows * columns - whole * 251])
    return flat.view(rows, columns)


def reals(device: str, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Small numbers around zero."""
    rows = ROWS // torch.empty(0, dtype=dtype).element_size() + 1
    return matrix(device, dtype, rows).sub_(125).mul_(1 / 128)


def flat(device: str) -> torch.Tensor:
    return matrix(device).view(-1)


def index(device: str, *values: int) -> torch.Tensor:
    return torch.tensor(values).to(device)


CASES: dict[str, Callable[[str], torch.Tensor]] = {
    # elementwise
    "add": lambda d: matrix(d).add(7),
    "add tensors": lambda d: matrix(d).add_(flat(d).flip(0)[:COLUMNS]),
    "mul": lambda d: matrix(d).mul_(3),
    "bitwise_xor": lambda d: matrix(d).bitwise_xor_(matrix(d)[:1]),
    "lt": lambda d: matrix(d).lt(100),
    "where": lambda d: torch.where(matrix(d) > 100, index(d, 7)[0].to(torch.uint8), index(d, 9)[0].to(torch.uint8)),
    "clamp": lambda d: matrix(d).clamp_(10, 100),
    "masked_fill": lambda d: matrix(d).masked_fill_((torch.arange(COLUMNS) % 2 == 0).to(d), 3),
    "exp": lambda d: reals(d).exp_(),
    "relu": lambda d: reals(d).relu_(),
    "sigmoid": lambda d: reals(d, torch.bfloat16).sigmoid_(),
    "div": lambda d: reals(d, torch.float16).div_(3),
    # reductions
    "sum": lambda d: matrix(d).sum(),
    "sum of rows": lambda d: matrix(d).sum(0),
    "sum of floats": lambda d: reals(d).abs_().sum(1),
    "mean": lambda d: reals(d).mean(0),
    "max": lambda d: torch.stack(matrix(d).max(1)).long(),
    "argmax": lambda d: flat(d).index_fill_(0, index(d, FAR), 255).argmax(),
    "any": lambda d: flat(d).zero_().index_fill_(0, index(d, FAR), 1).bool().any(),
    "norm": lambda d: reals(d).norm(dim=1),
    "softmax": lambda d: torch.softmax(reals(d, torch.bfloat16), 1),
    # copies
    "to": lambda d: reals(d).to(torch.bfloat16),
    "transpose": lambda d: matrix(d).t().contiguous(),
    "slice": lambda d: matrix(d)[:, 1:-1:2].clone(),
    "copy": lambda d: torch.zeros(ROWS, COLUMNS, dtype=torch.uint8, device=d).copy_(matrix(d)),
    "cat": lambda d: torch.cat([matrix(d)[:ROWS // 2], matrix(d)[ROWS // 2:]]),
    "cat of two": lambda d: torch.cat([matrix(d, rows=ROWS // 2 + 1)] * 2, 1),
    "stack": lambda d: torch.stack([matrix(d, rows=ROWS // 2 + 1)] * 2),
    "flip": lambda d: matrix(d).flip(0),
    "roll": lambda d: flat(d).roll(3),
    "repeat": lambda d: torch.arange(200, dtype=torch.uint8).to(d).repeat(2**31 // 200 + 3),
    "pad": lambda d: torch.nn.functional.pad(matrix(d), (1, 1)),
    # indices
    "index": lambda d: flat(d)[index(d, 0, FAR, 2**31, 2**31 - 1)],
    "index of rows": lambda d: matrix(d)[torch.arange(ROWS - 1, -1, -1).to(d)],
    "index_put": lambda d: flat(d).index_put_((index(d, FAR, 1),), index(d, 77, 78).to(torch.uint8)),
    "index_select": lambda d: matrix(d).index_select(0, torch.arange(0, ROWS, 1).flip(0).to(d)),
    "index_add": lambda d: matrix(d).index_add_(0, index(d, ROWS - 1), matrix(d, rows=1)),
    "gather": lambda d: flat(d).gather(0, index(d, FAR, 2**31 + 1, 5)),
    "scatter": lambda d: flat(d).scatter_(0, index(d, FAR, 2**31, 0), 99),
    "take": lambda d: matrix(d).take(index(d, FAR, 2**31 - 1)),
    "embedding": lambda d: torch.nn.functional.embedding(index(d, 0, 4194305, 7), matrix(d, torch.float32, 4194306, 128)),
    "nonzero": lambda d: flat(d).zero_().index_fill_(0, index(d, FAR, 3), 1).nonzero(),
    "masked_select": lambda d: flat(d).masked_select(flat(d) == 250).sum(),
    # products
    "mm": lambda d: reals(d) @ reals("cpu")[:50, :8].repeat(1000, 1)[:COLUMNS].to(d),
    "mm of a wide result": lambda d: torch.mm(reals("cpu")[:23200, :2].to(d), reals("cpu")[:2, :23200].to(d)),
    "addmv": lambda d: reals(d).mv(torch.ones(COLUMNS).to(d)),
    "layer_norm": lambda d: torch.nn.functional.layer_norm(reals(d, torch.bfloat16), (COLUMNS,)),
}
PREFIX = "large:"


def pairs() -> list[tuple[str, torch.dtype]]:
    return [(PREFIX + name, torch.float32) for name in CASES]


class Comparison:
    def __init__(self, name: str, dtype: torch.dtype, limit: int | None = None, device: str = "npu"):
        self.case, self.device = CASES[name.removeprefix(PREFIX)], device

    def run(self) -> dict[str, Result]:
        try:
            expected = self.case("cpu")
            compare(self.case(self.device), expected)
        except Exception as error:
            recover()
            return {"forward": Result("fail", 1, describe_error(error))}
        finally:
            expected = None
            torch.npu.empty_cache()
        return {"forward": Result("pass", 1)}


def compare(actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype), f"{actual.dtype}{list(actual.shape)}"
    actual, expected = actual.reshape(-1), expected.reshape(-1)
    for first in range(0, max(expected.numel(), 1), CHUNK):
        mine, theirs = actual[first:first + CHUNK].cpu(), expected[first:first + CHUNK]
        if not torch.equal(mine, theirs):
            torch.testing.assert_close(mine, theirs, equal_nan=True)
