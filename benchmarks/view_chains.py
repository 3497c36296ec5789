"""Copies through chains of views: launches and time, with COMBINED_ENABLE=0 and 1 and with one copy after every view.

    python benchmarks/view_chains.py [--json]

A chain ends in one copy, whatever the views before it. The reference makes every step contiguous, as a device without strided
copies has to. The variable changes nothing here; both columns are measured, in processes of their own, in CPU time of one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable

import torch
from launches import launches
from slices import interleaved, table

import torch_npu  # noqa: F401

View = Callable[[torch.Tensor], torch.Tensor]
SHAPE = (64, 48, 128)
CHAINS: dict[str, tuple[View, ...]] = {
    "permute, slice": (lambda t: t.permute(2, 0, 1), lambda t: t[:, 8:56]),
    "slice, permute": (lambda t: t[:, ::2], lambda t: t.permute(0, 2, 1)),
    "transpose, select": (lambda t: t.transpose(0, 1), lambda t: t.select(2, 5)),
    "select, transpose": (lambda t: t.select(1, 7), lambda t: t.t()),
    "transpose, narrow": (lambda t: t.transpose(1, 2), lambda t: t.narrow(0, 3, 16)),
    "select, expand": (lambda t: t.select(2, 2), lambda t: t.expand(16, 64, 48)),
    "narrow, expand": (lambda t: t.narrow(1, 4, 1), lambda t: t.expand(64, 48, 128)),
    "slice, slice": (lambda t: t[:, ::2], lambda t: t[..., ::2]),
    "permute, slice, select": (lambda t: t.permute(1, 2, 0), lambda t: t[:, 16:112], lambda t: t.select(2, 9)),
    "transpose, narrow, expand": (lambda t: t.transpose(0, 2), lambda t: t.narrow(1, 5, 1), lambda t: t.expand(128, 40, 64)),
}


def measure(slices: int) -> dict[str, dict[str, float]]:
    torch.set_num_threads(1)
    base = torch.arange(64 * 48 * 128, dtype=torch.float32).reshape(SHAPE).npu()
    rows = {}
    for name, views in CHAINS.items():
        def combined(views=views):
            t = base
            for view in views:
                t = view(t)
            return t.contiguous()

        def stepwise(views=views):
            t = base
            for view in views:
                t = view(t).contiguous()
            return t

        assert torch.equal(combined().cpu(), stepwise().cpu()), name
        times = interleaved({"chain": combined, "steps": stepwise}, slices, 3)
        rows[name] = {"launches": launches(combined), "us": times["chain"] / 1e3, "launches by steps": launches(stepwise),
                      "us by steps": times["steps"] / 1e3}
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--slices", type=int, default=100)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.slices)))
        return
    found = {}
    for value in ("0", "1"):
        command = [sys.executable, os.path.abspath(__file__), "--measure", "--slices", str(options.slices)]
        found[value] = json.loads(subprocess.run(command, env={**os.environ, "COMBINED_ENABLE": value}, check=True,
                                                 capture_output=True, text=True).stdout)
    if options.json:
        print(json.dumps(found, indent=1))
        return
    rows = []
    for name in CHAINS:
        off, on = found["0"][name], found["1"][name]
        rows.append((name, off["launches"], on["launches"], off["launches by steps"], f"{off['us']:.0f}", f"{on['us']:.0f}",
                     f"{off['us by steps']:.0f}", f"{off['us by steps'] / off['us']:.1f}"))
    print(table(rows, ("chain", "launches =0", "=1", "by steps", "us =0", "us =1", "us by steps", "steps : chain")))
    pairs = [found["0"][name]["us by steps"] / found["0"][name]["us"] for name, views in CHAINS.items() if len(views) == 2]
    print(f"geometric mean of the chains of two: {statistics.geometric_mean(pairs):.2f}")


if __name__ == "__main__":
    main()
