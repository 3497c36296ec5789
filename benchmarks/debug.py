"""What debugging costs: chains of small operators with nothing watched, with origins of errors, and with a dump of statistics and of data.

    python benchmarks/debug.py [--operators 200] [--rounds 15]

Prints JSON: microseconds per operator (the median over rounds that take turns) and the ratios to nothing watched.
"""

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time

import torch

from torch_npu import _C


def chain(x: torch.Tensor, operators: int) -> float:
    """Seconds per operator."""
    torch.npu.synchronize()
    begin = time.perf_counter()
    for _ in range(operators):
        x = x + 1
    torch.npu.synchronize()
    return (time.perf_counter() - begin) / operators


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
    options = parser.parse_args()
    x = torch.ones(64, device="npu")
    names = ("off", "origin", "dump of statistics", "dump")
    times: dict[str, list[float]] = {name: [] for name in names}
    folder = tempfile.mkdtemp()
    try:
        chain(x, options.operators)
        for _ in range(options.rounds):
            for name in names:
                with Mode(name, folder):
                    times[name].append(chain(x, options.operators))
    finally:
        shutil.rmtree(folder)
    medians = {name: statistics.median(values) for name, values in times.items()}
    print(json.dumps({"microseconds": {name: round(1e6 * value, 2) for name, value in medians.items()},
                      "ratio": {name: round(value / medians["off"], 2) for name, value in medians.items()}}))


if __name__ == "__main__":
    main()
