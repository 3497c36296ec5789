#!/usr/bin/env python3
"""Trains a small network for 2,000 steps: memory of the process and of the card must not grow by more than 5 %.

Usage: python test/models/flatness.py [--steps 2000]. Exit code 1 if it grows.
"""

import argparse
import os
import sys

os.environ["TORCH_NPU_FALLBACK_CPU_DISABLE"] = "1"

import torch
import zoo

import torch_npu  # noqa: F401


def resident():
    """Bytes of this process in memory, without the card's."""
    with open("/proc/self/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    return int(fields["RssAnon"].split()[0]) * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000)
    steps = parser.parse_args().steps
    network = next(n for n in zoo.NETWORKS if n.name == "cnn")
    model = network.make().npu()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("npu")
    data = torch.Generator().manual_seed(0)
    baseline = None
    for step in range(steps):
        batch = tuple(t.npu() for t in network.batch(data))
        optimizer.zero_grad()
        with torch.autocast("npu"):
            loss = network.loss(model, batch)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if step == steps // 10:  # caches are filled
            baseline = resident(), torch.npu.memory_reserved()
    growth = resident() / baseline[0], torch.npu.memory_reserved() / baseline[1]
    print(f"after {steps} steps: process x{growth[0]:.3f}, card x{growth[1]:.3f} (limit x1.05), loss {loss.item():.4f}")
    return int(max(growth) > 1.05)


if __name__ == "__main__":
    sys.exit(main())
