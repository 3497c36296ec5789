"""Captures by the thousand, of every kind and with every end: nothing may stay behind. Run: python test/stress/captures.py [COUNT]

Each round captures a network, random numbers, several streams, graphs that share a pool and a backward pass, and captures
that fail: a wait for the card, an error of the program, memory that runs out, a graph that dies while it captures. Prints what the process
has of its own memory, of the card's and of open files before and after; fails if any of it has grown.
"""

from __future__ import annotations

import gc
import os
import sys
import time
import warnings

import torch

import torch_npu  # noqa: F401

n = torch.npu
WARM_UP = 50  # rounds
MOST_KB = 4096  # of the host's memory: what an allocator may keep
MODEL = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Dropout(0.1), torch.nn.ReLU(), torch.nn.Linear(16, 4)).npu()
X = torch.randn(3, 16).npu()
SIDE = n.Stream()


def captured(function, **options):
    graph = n.NPUGraph()
    with n.graph(graph, **options):
        result = function()
    graph.replay()
    return graph, result


def failing(function):
    try:
        captured(function)
    except (RuntimeError, ZeroDivisionError):
        return
    raise AssertionError("a capture that cannot end well did")


def on_two_streams():
    current = n.current_stream()
    SIDE.wait_stream(current)
    with n.stream(SIDE):
        y = X * 2
    current.wait_stream(SIDE)
    return y + 1


def backward():
    MODEL.zero_grad(set_to_none=True)
    MODEL(X).square().mean().backward()


def that_dies():
    graph = n.NPUGraph()
    with n.stream(SIDE):
        graph.capture_begin()
        X + 1
    del graph


def one_round() -> int:
    with torch.no_grad():
        captured(lambda: MODEL(X))
    captured(lambda: torch.randn(4, device="npu"))
    captured(on_two_streams)
    captured(backward)
    MODEL.zero_grad(set_to_none=True)
    first, _ = captured(lambda: X.sin())
    captured(lambda: X.cos(), pool=first.pool())
    failing(lambda: X.sum().item())
    failing(lambda: 1 / 0)
    failing(lambda: torch.empty(2**40, device="npu"))
    that_dies()
    return 10


def held() -> dict[str, int]:
    n.synchronize()
    gc.collect()
    n.empty_cache()
    with open("/proc/self/status") as status:
        resident = next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))
    return {"host memory, kB": resident, "card memory, bytes": n.memory_allocated(), "reserved of the card, bytes": n.memory_reserved(),
            "open files": len(os.listdir("/proc/self/fd")),
            "threads": len(os.listdir("/proc/self/task"))}


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10000
    warnings.simplefilter("ignore")
    for _ in range(WARM_UP):
        one_round()
    before, start, done = held(), time.perf_counter(), 0
    while done < count:
        done += one_round()
    seconds, after = time.perf_counter() - start, held()
    grown = [what for what in before if after[what] - before[what] > (MOST_KB if what == "host memory, kB" else 0)]
    for what in before:
        print(f"{what}: {before[what]} -> {after[what]}{' GROWN' if what in grown else ''}")
    print(f"{done} captures in {seconds:.0f} s: {'nothing stays behind' if not grown else 'something stays behind'}")
    sys.exit(bool(grown))


if __name__ == "__main__":
    main()
