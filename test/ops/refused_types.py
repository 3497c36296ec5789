"""Compares what npu and CPU say to types that an operator of torch's OpInfo database does not have on the CPU.

One sample of each type that the OpInfo does not list. If the CPU raises, the npu must raise the same type of exception, from the
call itself and not when somebody waits later. It may have the type.
"""

from __future__ import annotations

import torch
from opinfo import OPS, Result, describe, describe_error, place, recover
from torch.utils._pytree import tree_map

TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64,
         torch.complex32, torch.uint16)
# Types whose samples can be converted to another one.
SOURCES = (torch.float32, torch.int64, torch.bool, torch.complex64)


def pairs() -> list[tuple[str, torch.dtype]]:
    return [(name, dtype) for name, op in OPS.items() for dtype in TYPES if dtype not in op.supported_dtypes("cpu")]


class Comparison:
    def __init__(self, name: str, dtype: torch.dtype, limit: int | None = None, device: str = "npu"):
        self.op, self.dtype, self.device = OPS[name], dtype, device

    def run(self) -> dict[str, Result]:
        return {"refused": self.compare()}

    def sample(self):
        """A sample of a type that the operator has, with its tensors of that type converted."""
        source = next(dtype for dtype in SOURCES if dtype in self.op.supported_dtypes("cpu"))
        torch.manual_seed(0)
        found = next(s for s in self.op.sample_inputs("cpu", source) if not isinstance(s.input, torch.Tensor) or s.input.numel())

        def convert(leaf):
            return leaf.to(self.dtype) if isinstance(leaf, torch.Tensor) and leaf.dtype is source and leaf.layout is torch.strided else leaf

        return tree_map(convert, (found.input, found.args, found.kwargs))

    def error(self, given, device: str) -> Exception | None:
        value, args, kwargs = place(given, device)
        try:
            self.op(value, *args, **kwargs)
        except Exception as error:
            return error
        return None

    def compare(self) -> Result:
        try:
            given = self.sample()
        except Exception as error:  # there is nothing to convert
            return Result(detail=f"no samples: {error}")
        expected = self.error(given, "cpu")
        if expected is None:
            return Result()
        actual = self.error(given, self.device)
        late = None
        try:
            torch.npu.synchronize()
        except RuntimeError as error:
            late = error
            recover()
        if type(actual) is type(expected) and late is None:
            return Result("pass", 1)
        if actual is None and late is None:
            return Result(detail="the npu has the type")
        found = describe_error(actual) if actual else f"later {describe_error(late)}"
        return Result("fail", 1, f"{describe_given(given)}: raises {found[:300]}; the CPU {describe_error(expected)[:200]}")


def describe_given(given) -> str:
    class Sample:
        input, args, kwargs = given

    return describe(Sample)
