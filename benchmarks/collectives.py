#!/usr/bin/env python3
"""hccl on npu tensors against gloo on CPU tensors, in one run: all_reduce, all_gather, reduce_scatter.

Usage: collectives.py [--ranks 2 4 8] [--sizes 4K 64M] [--seconds 1.0]. Prints one JSON line per operation, size and number
of ranks: median seconds of both, their ratio, hccl's bandwidth as a share of memcpy's, and the share of one core that a
rank uses while it waits for a late one.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "distributed"))
from world import free_port  # noqa: E402

UNITS = {"K": 1 << 10, "M": 1 << 20}


def measure(step, finish, seconds):
    """Median over rounds; all ranks make the same number of them."""
    import torch
    import torch.distributed as dist

    for _ in range(3):
        step()
    finish()
    begin = time.perf_counter()
    step()
    finish()
    once = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
    dist.all_reduce(once, dist.ReduceOp.MAX)
    rounds = max(5, min(300, int(seconds / max(once.item(), 1e-6))))
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        step()
        finish()
        times.append(time.perf_counter() - begin)
    median = torch.tensor([statistics.median(times)], dtype=torch.float64)
    dist.all_reduce(median, dist.ReduceOp.MAX)
    return median.item()


def operations(size, device):
    import torch
    import torch.distributed as dist

    ranks = dist.get_world_size()
    elements = size // 4
    share = max(1, elements // ranks)
    x = torch.ones(elements, device=device)
    whole, part = torch.ones(share * ranks, device=device), torch.ones(share, device=device)
    return {
        "all_reduce": lambda: dist.all_reduce(x, dist.ReduceOp.MAX),
        "all_gather": lambda: dist.all_gather_single(whole, part),
        "reduce_scatter": lambda: dist.reduce_scatter_single(part, whole, dist.ReduceOp.MAX),
    }


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
    share = waiting_share()
    for size in sizes:
        memcpy = memcpy_seconds(size) if rank == 0 else 0.0
        dist.barrier()
        npu, cpu = operations(size, "npu"), operations(size, "cpu")
        for name in npu:
            hccl = measure(npu[name], torch.npu.synchronize, seconds)
            gloo = measure(cpu[name], lambda: None, seconds)
            if rank == 0:
                line = {
                    "operation": name,
                    "ranks": dist.get_world_size(),
                    "bytes": size,
                    "hccl_us": round(hccl * 1e6, 1),
                    "gloo_us": round(gloo * 1e6, 1),
                    "gloo/hccl": round(gloo / hccl, 1),
                    "share_of_memcpy": round(memcpy / hccl, 2),
                    "waiting_rank_core_share": round(share, 3),
                }
                print(json.dumps(line), flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--sizes", nargs="+", default=["4K", "64K", "1M", "16M", "64M", "256M"])
    parser.add_argument("--seconds", type=float, default=1.0)
    arguments = parser.parse_args()
    sizes = [int(text[:-1]) * UNITS[text[-1]] for text in arguments.sizes]
    if "RANK" in os.environ:
        return rank_main(sizes, arguments.seconds)
    for ranks in arguments.ranks:
        common = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
        processes = [
            subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, **common, "RANK": str(rank)})
            for rank in range(ranks)
        ]
        codes = [process.wait() for process in processes]
        if any(codes):
            sys.exit(f"a rank of {ranks} failed")


if __name__ == "__main__":
    main()
