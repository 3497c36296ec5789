"""Launches of one step over 50 tensors, by softnpu's counter, for every optimiser. Run: python benchmarks/optimizers.py

torch.optim's classes as a loop over tensors, as foreach and fused; torch_npu.optim's on combined buffers.
"""

from __future__ import annotations

import ctypes
import inspect

import torch
from slices import table

from torch_npu import optim

TENSORS = 50


def counter():
    with open("/proc/self/maps") as maps:
        library = ctypes.CDLL(next(line.split()[-1] for line in maps if "libsoftnpu" in line))
    library.softnpu_counter.restype = ctypes.c_uint64
    return lambda: library.softnpu_counter(b"tasks")


def launches(optimizer, **options) -> int:
    parameters = [torch.randn(4, 3, device="npu", requires_grad=True) for _ in range(TENSORS)]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    step = optimizer(parameters, **options).step
    step()  # makes the state
    torch.npu.synchronize()
    count = counter()
    before = count()
    step()
    return count() - before


def main() -> None:
    rows = []
    for name, optimizer in sorted(vars(torch.optim).items()):
        is_optimizer = inspect.isclass(optimizer) and issubclass(optimizer, torch.optim.Optimizer)
        if not is_optimizer or name in ("Optimizer", "SparseAdam", "LBFGS"):
            continue
        known = inspect.signature(optimizer).parameters
        if "foreach" not in known:
            continue
        fused = launches(optimizer, fused=True) if "fused" in known else "-"
        rows.append((f"torch.optim.{name}", launches(optimizer, foreach=False), launches(optimizer, foreach=True), fused))
    for name in sorted(optim.__all__):
        if name != "NpuFusedOptimizerBase":
            rows.append((f"torch_npu.optim.{name}", "-", "-", launches(getattr(optim, name))))
    print(table(rows, (f"launches of a step, {TENSORS} tensors", "loop", "foreach", "fused")))


if __name__ == "__main__":
    main()
