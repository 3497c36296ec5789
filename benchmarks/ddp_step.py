#!/usr/bin/env python3
"""A step of DistributedDataParallel: hccl on npu against gloo on CPU, in one run.

Usage: ddp_step.py [--ranks 2 4] [--megabytes 1 4 16 32] [--seconds 3] [--realtime] [--plot FILE.png]. Prints one JSON line per
number of ranks and megabytes of parameters: median seconds of both, in turns, and their ratio. --plot draws the ratios.
"""

import argparse
import json
import os

from collectives import compare, start


def make_step(device, megabytes):
    import torch
    from torch.nn.parallel import DistributedDataParallel

    width = 512  # a layer of 1 MB
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width, bias=False) for _ in range(megabytes))).to(device)
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(4, width, device=device)

    def step():
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        if device == "npu":
            torch.npu.synchronize()

    return step


def rank_main(sizes, seconds):
    import torch
    import torch.distributed as dist

    import torch_npu  # noqa: F401

    torch.set_num_threads(1)
    torch.npu.set_device(int(os.environ["RANK"]))
    dist.init_process_group("cpu:gloo,npu:hccl")
    for megabytes in sizes:
        hccl, gloo = compare([make_step("npu", megabytes), make_step("cpu", megabytes)], seconds)
        if dist.get_rank() == 0:
            line = {
                "ranks": dist.get_world_size(),
                "megabytes": megabytes,
                "hccl_ms": round(hccl * 1e3, 2),
                "gloo_ms": round(gloo * 1e3, 2),
                "gloo/hccl": round(gloo / hccl, 2),
            }
            print(json.dumps(line), flush=True)
    dist.destroy_process_group()


def draw(lines, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
    for ranks in sorted({line["ranks"] for line in lines}):
        own = [line for line in lines if line["ranks"] == ranks]
        sizes = [line["megabytes"] for line in own]
        (drawn,) = left.plot(sizes, [line["hccl_ms"] for line in own], "o-", label=f"hccl, {ranks} ranks")
        left.plot(sizes, [line["gloo_ms"] for line in own], "s--", color=drawn.get_color(), label=f"gloo, {ranks} ranks")
        right.plot(sizes, [line["gloo/hccl"] for line in own], "o-", label=f"{ranks} ranks")
    left.set(xscale="log", yscale="log", xlabel="parameters, MB", ylabel="DDP step, ms")
    right.set(xscale="log", xlabel="parameters, MB", ylabel="gloo : hccl", ylim=(0, None))
    right.axhline(1, color="grey", linewidth=0.8)
    for axes in (left, right):
        axes.legend(fontsize=8)
        axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--megabytes", type=int, nargs="+", default=[1, 4, 16, 32])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--realtime", action="store_true")
    parser.add_argument("--plot")
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        return rank_main(arguments.megabytes, arguments.seconds)
    lines = [line for ranks in arguments.ranks for line in start(ranks, arguments.realtime)]
    if arguments.plot:
        draw(lines, arguments.plot)


if __name__ == "__main__":
    main()
