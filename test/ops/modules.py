"""Compares one module of torch's ModuleInfo database on npu with the CPU: forward and backward, training and evaluation."""

from __future__ import annotations

import copy

import torch
from opinfo import Result, describe_error, place, recover, tensors
from torch.testing._internal.common_modules import module_db

MODULES = {info.name: info for info in module_db}
DTYPES = (torch.float32,)


def pairs() -> list[tuple[str, torch.dtype]]:
    return [(name, dtype) for name in MODULES for dtype in DTYPES]


def leaves(value, requires_grad: bool):
    """Arguments as leaves that collect gradients where the database asks for them."""
    return [t for t in tensors(value) if t.requires_grad and t.is_leaf] if requires_grad else []


class Comparison:
    """The checks of one module on at most `limit` inputs of each mode."""

    def __init__(self, name: str, dtype: torch.dtype, limit: int | None = None, device: str = "npu"):
        self.info, self.dtype, self.limit, self.device = MODULES[name], dtype, limit, device

    def run(self) -> dict[str, Result]:
        results = {"forward": Result(), "backward": Result()}
        for training in (True, False):
            torch.manual_seed(0)
            inputs = self.info.module_inputs_func(self.info, device="cpu", dtype=self.dtype, requires_grad=True, training=training)
            for number, each in enumerate(list(inputs)[:self.limit]):
                for check, backward in (("forward", False), ("backward", True)):
                    self.check(results[check], number, each, training, backward)
        return results

    def check(self, result: Result, number: int, each, training: bool, backward: bool) -> None:
        if result.status not in ("none", "pass"):
            return
        try:
            given = each.constructor_input
            module = self.info.module_cls(*given.args, **{**given.kwargs, "device": "cpu", "dtype": self.dtype})
        except TypeError:  # modules without parameters take neither
            module = self.info.module_cls(*given.args, **given.kwargs)
        module.train(training)
        if any(isinstance(p, torch.nn.parameter.UninitializedParameter) for p in module.parameters()):
            module(*place(each.forward_input.args, "cpu"), **place(each.forward_input.kwargs, "cpu"))  # lazy modules get their parameters
        try:
            expected = self.results(copy.deepcopy(module), each.forward_input, "cpu", backward)
        except Exception:  # what the CPU refuses is no sample
            return
        try:
            actual = self.results(copy.deepcopy(module).to(self.device), each.forward_input, self.device, backward)
            compare(actual, expected)
            result.status, result.samples = "pass", result.samples + 1
        except Exception as error:
            result.status = "fallback" if "no npu kernel" in str(error) else "fail"
            result.detail = f"input {number}, {'training' if training else 'evaluation'}: {describe_error(error)}"
            recover()

    @staticmethod
    def results(module: torch.nn.Module, given, device: str, backward: bool) -> list[torch.Tensor | None]:
        args, kwargs = place((given.args, given.kwargs), device)
        torch.manual_seed(1)
        output = module(*args, **kwargs)
        if not backward:
            return [*tensors(output), *module.buffers()]
        outputs = [t for t in tensors(output) if t.requires_grad]
        wanted = [*leaves((args, kwargs), True), *(p for p in module.parameters() if p.requires_grad)]
        if not outputs or not wanted:
            return []
        torch.manual_seed(2)
        seeds = [torch.randn(t.shape, dtype=t.dtype).to(device) for t in outputs]
        return list(torch.autograd.grad(outputs, wanted, seeds, allow_unused=True))


def compare(actual: list, expected: list) -> None:
    assert len(actual) == len(expected), f"{len(actual)} results, the CPU has {len(expected)}"
    for a, e in zip(actual, expected):
        if e is None:
            assert a is None, "a gradient that the CPU does not have"
            continue
        torch.testing.assert_close(a.detach().cpu(), e.detach(), equal_nan=True, rtol=1.3e-6, atol=2e-5)
