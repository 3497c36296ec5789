"""Launches of one step over 50 tensors, by softnpu's counter, for every optimiser. Run: python benchmarks/optimizers.py

torch.optim's classes as a loop over tensors, as foreach and fused; torch_npu.optim's on combined buffers.
"""

from __future__ import annotations

import inspect

import torch
from launches import launches
from slices import table

from torch_npu import optim

TENSORS = 50


def step_launches(optimizer, **options) -> int:
    parameters = [torch.randn(4, 3, device="npu", requires_grad=True) for _ in range(TENSORS)]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    return launches(optimizer(parameters, **options).step)


def main() -> None:
    rows = []
    for name, optimizer in sorted(vars(torch.optim).items()):
        is_optimizer = inspect.isclass(optimizer) and issubclass(optimizer, torch.optim.Optimizer)
        if not is_optimizer or name in ("Optimizer", "SparseAdam", "LBFGS"):
            continue
        known = inspect.signature(optimizer).parameters
        if "foreach" not in known:
            continue
        fused = step_launches(optimizer, fused=True) if "fused" in known else "-"
        rows.append((f"torch.optim.{name}", step_launches(optimizer, foreach=False), step_launches(optimizer, foreach=True), fused))
    for name in sorted(optim.__all__):
        if name != "NpuFusedOptimizerBase":
            rows.append((f"torch_npu.optim.{name}", "-", "-", step_launches(getattr(optim, name))))
    print(table(rows, (f"launches of a step, {TENSORS} tensors", "loop", "foreach", "fused")))


if __name__ == "__main__":
    main()
