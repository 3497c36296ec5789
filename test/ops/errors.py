"""Compares one error input of torch's OpInfo database on npu with the CPU: the same type of exception must be raised.

A pair is named "operator#number of the error input".
"""

from __future__ import annotations

import torch
from opinfo import OPS, Result, describe, describe_error, place, recover


def inputs(name: str) -> list:
    op = OPS[name]
    torch.manual_seed(0)
    try:
        return list(op.error_inputs("cpu")) if op.error_inputs_func is not None else []
    except Exception:  # made for another device
        return []


def pairs() -> list[tuple[str, torch.dtype]]:
    return [(f"{name}#{number}", torch.float32) for name in OPS for number in range(len(inputs(name)))]


class Comparison:
    def __init__(self, name: str, dtype: torch.dtype, limit: int | None = None, device: str = "npu"):
        self.name, _, number = name.rpartition("#")
        self.given, self.device = inputs(self.name)[int(number)].sample_input, device

    def run(self) -> dict[str, Result]:
        return {"raises": self.compare()}

    def error(self, device: str) -> Exception | None:
        try:
            value, args, kwargs = place((self.given.input, self.given.args, self.given.kwargs), device)
            OPS[self.name](value, *args, **kwargs)
            torch.npu.synchronize()
        except Exception as error:
            recover()
            return error
        return None

    def compare(self) -> Result:
        expected = self.error("cpu")
        if expected is None:
            return Result()
        actual = self.error(self.device)
        if type(actual) is type(expected):
            return Result("pass", 1)
        found = describe_error(actual) if actual else "nothing"
        return Result("fail", 1, f"{describe(self.given)}: raises {found}; the CPU {describe_error(expected)[:200]}")
