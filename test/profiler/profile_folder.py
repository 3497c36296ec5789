"""A small training step, and a profile of it as the tests read it."""

import csv
import json

import torch

from torch_npu import profiler


def make_step():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 8)).npu()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    data = torch.randn(16, 32)

    def step():
        loss = model(data.npu()).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


def rows(folder, name):
    with open(folder / "ASCEND_PROFILER_OUTPUT" / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


class Recorded:
    """A folder, what is in it, and what softnpu has counted for one step without a profile."""

    def __init__(self, folder, count):
        self.folder, self.count = folder, count
        self.output = folder / "ASCEND_PROFILER_OUTPUT"
        self.kernels = rows(folder, "kernel_details")
        self.view = json.loads((self.output / "trace_view.json").read_text())

    def rows(self, name):
        return rows(self.folder, name)


def settings(**changes):
    return profiler._ExperimentalConfig(**{"profiler_level": profiler.ProfilerLevel.Level1, "data_simplification": False} | changes)
