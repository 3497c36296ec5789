"""What debugging costs: chains of small operators with nothing watched, with origins of errors, and with a dump of statistics and of data;
and in processes of their own that nobody asks, and that are asked the dashboard's questions each second.

    python benchmarks/debug.py [--operators 200] [--rounds 15]

Prints JSON: microseconds per operator (the median of rounds that take turns) and the ratios to nothing watched ("dashboard": to "alone").
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import torch

from torch_npu import _C, _inspection
from torch_npu.dashboard.snapshots import PARTS


def chain(x: torch.Tensor, operators: int) -> float:
    """Seconds per operator."""
    torch.npu.synchronize()
    begin = time.perf_counter()
    for _ in range(operators):
        x = x + 1
    torch.npu.synchronize()
    return (time.perf_counter() - begin) / operators


class Worker:
    """The same chain in another process, which can be asked what it does."""

    def __init__(self, operators: int):
        command = [sys.executable, __file__, "--operators", str(operators), "--worker"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.chain()

    def chain(self) -> float:
        assert self.process.stdin and self.process.stdout
        print(flush=True, file=self.process.stdin)
        return float(self.process.stdout.readline())

    def end(self) -> None:
        self.process.communicate()


def ask_each_second(pid: int, over: threading.Event) -> None:
    while not over.wait(1):
        _inspection.ask(pid, *PARTS)


def work(x: torch.Tensor, operators: int) -> None:
    for _ in sys.stdin:
        print(chain(x, operators), flush=True)


class Mode:
    def __init__(self, name: str, folder: str):
        self.name, self.folder = name, folder

    def __enter__(self):
        if self.name == "origin":
            _C.keep_origins(True)
        elif self.name.startswith("dump"):
            data = "stats" if self.name == "dump of statistics" else "tensor"
            os.environ["TORCH_NPU_DUMP"] = f"path={self.folder},data={data}"
            torch.npu.init_dump()

    def __exit__(self, *_):
        if self.name == "origin":
            _C.keep_origins(False)
        elif self.name.startswith("dump"):
            torch.npu.finalize_dump()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--operators", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    x = torch.ones(64, device="npu")
    if options.worker:
        return work(x, options.operators)
    names = ("off", "origin", "dump of statistics", "dump", "alone", "dashboard")
    times: dict[str, list[float]] = {name: [] for name in names}
    folder = tempfile.mkdtemp()
    workers = {"alone": Worker(options.operators), "dashboard": Worker(options.operators)}
    over = threading.Event()
    asking = threading.Thread(target=ask_each_second, args=(workers["dashboard"].process.pid, over))
    asking.start()
    try:
        chain(x, options.operators)
        for _ in range(options.rounds):
            for name in names:
                if name in workers:
                    times[name].append(workers[name].chain())
                    continue
                with Mode(name, folder):
                    times[name].append(chain(x, options.operators))
    finally:
        over.set()
        asking.join()
        for worker in workers.values():
            worker.end()
        shutil.rmtree(folder)
    medians = {name: statistics.median(values) for name, values in times.items()}
    reference = {name: medians["alone" if name in workers else "off"] for name in names}
    print(json.dumps({"microseconds": {name: round(1e6 * value, 2) for name, value in medians.items()},
                      "ratio": {name: round(value / reference[name], 2) for name, value in medians.items()}}))


if __name__ == "__main__":
    main()
