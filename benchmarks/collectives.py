#!/usr/bin/env python3
"""hccl on npu tensors against gloo on CPU tensors, in one run: all_reduce, all_gather, reduce_scatter.

Usage: collectives.py [--ranks 2 4 8] [--sizes 4K 64M] [--seconds 1.0] [--realtime]. Prints one JSON line per operation,
size and number of ranks: median seconds of both, in turns, and their ratio; the bandwidth with which hccl goes through
memory (cost_model.py) as a share of memcpy's; the share of one core that a rank uses while it waits for a late one.
--realtime takes the cores from everybody else (needs root): on a machine that does other things, only this is stable.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "distributed"))
from cost_model import traffic  # noqa: E402
from world import free_port  # noqa: E402

UNITS = {"K": 1 << 10, "M": 1 << 20}
TURNS = 5
BUDGET = {("all_reduce", 4 << 10, 2): 10, ("all_reduce", 64 << 20, 2): 4, ("all_reduce", 64 << 20, 4): 3, ("all_reduce", 64 << 20, 8): 3}


def agreed(value):
    """The largest of all ranks' values."""
    import torch
    import torch.distributed as dist

    box = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(box, dist.ReduceOp.MAX)
    return box.item()


def rounds_for(step, seconds):
    for _ in range(3):
        step()
    begin = time.perf_counter()
    step()
    once = agreed(time.perf_counter() - begin)
    return max(1, min(200, int(seconds / TURNS / max(once, 1e-6))))


def compare(steps, seconds):
    """Median seconds of each step. They take turns, so that what else the machine does meets all of them."""
    rounds = [rounds_for(step, seconds) for step in steps]
    times = [[] for _ in steps]
    for _ in range(TURNS):
        for step, count, own in zip(steps, rounds, times):
            agreed(0)
            for _ in range(count):
                begin = time.perf_counter()
                step()
                own.append(time.perf_counter() - begin)
    return [agreed(statistics.median(own)) for own in times]


def operations(size, device, finish):
    import torch
    import torch.distributed as dist

    ranks = dist.get_world_size()
    elements = size // 4
    share = max(1, elements // ranks)
    x = torch.ones(elements, device=device)
    whole, part = torch.ones(share * ranks, device=device), torch.ones(share, device=device)
    calls = {
        "all_reduce": lambda: dist.all_reduce(x, dist.ReduceOp.MAX),
        "all_gather": lambda: dist.all_gather_single(whole, part),
        "reduce_scatter": lambda: dist.reduce_scatter_single(part, whole, dist.ReduceOp.MAX),
    }
    return {name: (lambda call=call: (call(), finish())) for name, call in calls.items()}


def memcpy_seconds(size):
    import torch

    source, target = torch.ones(size // 4), torch.empty(size // 4)
    target.copy_(source)
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        target.copy_(source)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def waiting_share():
    """CPU time of rank 0 in the second in which it waits for the others, as a share of one core."""
    import torch
    import torch.distributed as dist

    x = torch.ones(4, device="npu")
    dist.all_reduce(x)
    torch.npu.synchronize()
    if dist.get_rank() != 0:
        time.sleep(1.0)
    wall, cpu = time.perf_counter(), time.process_time()
    dist.all_reduce(x)
    torch.npu.synchronize()
    return (time.process_time() - cpu) / (time.perf_counter() - wall)


def rank_main(sizes, seconds):
    import torch
    import torch.distributed as dist

    import torch_npu  # noqa: F401

    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    torch.npu.set_device(rank % torch.npu.device_count())
    dist.init_process_group("cpu:gloo,npu:hccl")
    ranks = dist.get_world_size()
    waiting = waiting_share()
    for size in sizes:
        memcpy = agreed(memcpy_seconds(size) if rank == 0 else 0.0)
        npu, cpu = operations(size, "npu", torch.npu.synchronize), operations(size, "cpu", lambda: None)
        for name in npu:
            hccl, gloo = compare([npu[name], cpu[name]], seconds)
            if rank != 0:
                continue
            line = {
                "operation": name,
                "ranks": ranks,
                "bytes": size,
                "hccl_us": round(hccl * 1e6, 1),
                "gloo_us": round(gloo * 1e6, 1),
                "gloo/hccl": round(gloo / hccl, 1),
                "budget": BUDGET.get((name, size, ranks)),
                "share_of_memcpy": round(traffic(name, ranks, size) / hccl / (2 * size / memcpy), 2),
                "waiting_rank_core_share": round(waiting, 3),
            }
            print(json.dumps(line), flush=True)
    dist.destroy_process_group()


def start(ranks, realtime):
    """This script as `ranks` processes. Echoes what rank 0 prints, and returns its JSON lines."""
    common = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    if realtime:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    command = [sys.executable, *sys.argv]
    processes = [
        subprocess.Popen(command, env={**os.environ, **common, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in range(ranks)
    ]
    lines = []
    for text in processes[0].stdout:
        print(text, end="", flush=True)
        lines.append(json.loads(text))
    codes = [process.wait() for process in processes]
    if any(codes):
        sys.exit(f"a rank of {ranks} failed")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--sizes", nargs="+", default=["4K", "64K", "1M", "16M", "64M", "256M"])
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--realtime", action="store_true")
    arguments = parser.parse_args()
    sizes = [int(text[:-1]) * UNITS[text[-1]] for text in arguments.sizes]
    if "RANK" in os.environ:
        return rank_main(sizes, arguments.seconds)
    for ranks in arguments.ranks:
        start(ranks, arguments.realtime)


if __name__ == "__main__":
    main()
