"""One side of compare_official.py: runs slices of the rows below on request. Arguments: ours, official or cpu.

Requests are JSON lines on stdin, {"row": name, "calls": n}; the answer to each is {"cpu": ns, "wall": ns} per call, of the
calling thread. The device is idle when a slice begins. Only torch's public API is used, so both plugins run the same code.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

import torch


def rows(device: str) -> dict[str, Callable[[], object]]:
    x, y = torch.randn(16, device=device), torch.randn(16, device=device)
    matrix, one, host = torch.randn(4, 4, device=device), torch.ones(1, device=device), torch.ones(1)
    npu = device == "npu"
    synchronize = torch.npu.synchronize if npu else (lambda: None)

    def add_and_synchronize():
        x + y
        synchronize()

    def ten_adds_and_synchronize():
        for _ in range(10):
            x + y
        synchronize()

    table = {
        "z = x + y": lambda: x + y,
        "x.add_(y)": lambda: x.add_(y),
        "x * 2.0": lambda: x * 2.0,
        "a.mm(a), 4 x 4": lambda: matrix.mm(matrix),
        "torch.empty(16)": lambda: torch.empty(16, device=device),
        "z = x + y, synchronize": add_and_synchronize,
        "10 times z = x + y, synchronize": ten_adds_and_synchronize,
        "x.sum().item()": lambda: x.sum().item(),
        "to the device, 4 B": lambda: host.to(device) if npu else host.clone(),
        ".cpu(), 4 B": lambda: one.cpu() if npu else one.clone(),
    }
    if npu:
        event = torch.npu.Event()

        def record_and_synchronize():
            event.record()
            event.synchronize()

        def add_and_synchronize_event():
            x + y
            event.record()
            event.synchronize()

        table |= {
            "event.record()": lambda: event.record(),
            "event.record(), event.synchronize()": record_and_synchronize,
            "z = x + y, event.record(), event.synchronize()": add_and_synchronize_event,
            "current_stream()": lambda: torch.npu.current_stream(),
            "synchronize(), idle": synchronize,
        }
    return table


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not get between the answers
    side, threads = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(threads)
    if side != "cpu":
        import torch_npu  # noqa: F401
    table = rows("cpu" if side == "cpu" else "npu")
    idle = (lambda: None) if side == "cpu" else torch.npu.synchronize
    print(json.dumps(list(table)), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        function, calls = table[request["row"]], request["calls"]
        idle()
        wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
        for _ in range(calls):
            function()
        cpu, wall = time.thread_time_ns() - cpu, time.perf_counter_ns() - wall
        idle()
        print(json.dumps({"cpu": cpu / calls, "wall": wall / calls}), file=answers, flush=True)


if __name__ == "__main__":
    main()
