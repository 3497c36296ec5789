"""Compares one optimiser of torch's optim_db on npu with the CPU: a few steps in each of its implementations."""

from __future__ import annotations

import torch
from opinfo import Result, describe_error, recover
from torch.testing._internal.common_optimizers import optim_db

OPTIMIZERS = {info.optim_cls.__name__: info for info in optim_db}
STEPS = 3
SHAPES = ((4, 3), (3,), (2, 2, 2), ())


def pairs() -> list[tuple[str, torch.dtype]]:
    return [(name, torch.float32) for name in OPTIMIZERS]


class Comparison:
    """One check for each implementation: a loop over parameters, foreach, fused."""

    def __init__(self, name: str, dtype: torch.dtype, limit: int | None = None, device: str = "npu"):
        self.info, self.dtype, self.limit, self.device = OPTIMIZERS[name], dtype, limit, device

    def run(self) -> dict[str, Result]:
        results = {"forloop": self.check({"foreach": False} if "foreach" in self.info.supported_impls else {})}
        for implementation in ("foreach", "fused"):
            if implementation in self.info.supported_impls:
                results[implementation] = self.check({implementation: True})
        return results

    def check(self, choice: dict[str, bool]) -> Result:
        result = Result()
        for number, given in enumerate(self.info.optim_inputs_func(device="cpu")[:self.limit]):
            kwargs = {**given.kwargs, **choice}
            try:
                expected = self.train("cpu", kwargs)
            except Exception:  # what the CPU refuses is no sample
                continue
            try:
                actual = self.train(self.device, kwargs)
                for a, e in zip(actual, expected):
                    torch.testing.assert_close(a.detach().cpu(), e.detach())
                result.status, result.samples = "pass", result.samples + 1
            except Exception as error:
                result.status = "fallback" if "no npu kernel" in str(error) else "fail"
                result.detail = f"input {number} ({given.desc}) {kwargs}: {describe_error(error)}"
                recover()
                return result
        return result

    def train(self, device: str, kwargs: dict) -> list[torch.Tensor]:
        torch.manual_seed(0)
        shapes = [s for s in SHAPES if len(s) == 2] if self.info.optim_cls.__name__ == "Muon" else SHAPES
        parameters = [torch.randn(s, dtype=self.dtype).to(device).requires_grad_() for s in shapes]
        kwargs = {k: v.to(device) if isinstance(v, torch.Tensor) and k == "lr" and kwargs.get("fused") else v for k, v in kwargs.items()}
        optimizer = self.info.optim_cls(parameters, **kwargs)
        gradients = [[torch.randn(p.shape, dtype=self.dtype).to(device) for p in parameters] for _ in range(STEPS)]

        def closure():
            optimizer.zero_grad()
            loss = sum((p * p).sum() for p in parameters)
            loss.backward()
            return loss

        for step in gradients:
            for parameter, gradient in zip(parameters, step):
                parameter.grad = gradient
            optimizer.step(closure if self.info.step_requires_closure else None)
        return parameters
