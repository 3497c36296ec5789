"""Copies through chains of views with COMBINED_ENABLE=0 and 1: launches and time.

    python benchmarks/view_chains.py [--slices N] [--json]

With 1 a chain is one copy, with 0 each kind of view in it is one. Both sides run in a process of their own and answer one short
slice at a time, in turn; a time is the median of the slices' thread-CPU time, on one thread. Each result is compared with the CPU's.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import statistics
import sys
from collections.abc import Callable

import torch
from slices import slice_ns, table

View = Callable[[torch.Tensor], torch.Tensor]
SHAPES = ((8, 6, 16), (64, 48, 128))
CHAINS: dict[str, View] = {  # of a tensor [a, b, c]
    "permute, slice": lambda t: t.permute(2, 0, 1)[:, ::2],
    "slice, permute": lambda t: t[:, ::2].permute(0, 2, 1),
    "transpose, select": lambda t: t.transpose(0, 2).select(1, 5),
    "select, transpose": lambda t: t.select(1, 5).t(),
    "transpose, narrow": lambda t: t.transpose(1, 2).narrow(2, 1, 4),
    "select, expand": lambda t: t.select(1, 2).expand(2, -1, -1),
    "narrow, expand": lambda t: t.narrow(1, 4, 1).expand(-1, 2, -1),
    "transpose, expand": lambda t: t.transpose(0, 1).unsqueeze(1).expand(-1, 2, -1, -1),
    "permute, slice, select": lambda t: t.permute(2, 0, 1)[:, ::2].select(2, 3),
    "transpose, narrow, expand": lambda t: t.transpose(0, 2).narrow(1, 1, 4).unsqueeze(0).expand(2, -1, -1, -1),
}
OF_TWO = [name for name in CHAINS if name.count(",") == 1]


def serve(combined: str, requests) -> None:
    """The process of one side: answers (shape, chain, None) with the launches, (shape, chain, calls) with nanoseconds a call."""
    os.environ["COMBINED_ENABLE"] = combined
    from launches import launches

    import torch_npu  # noqa: F401

    torch.set_num_threads(1)
    host = {shape: torch.arange(math.prod(shape), dtype=torch.float32).reshape(shape) for shape in SHAPES}
    card = {(shape, name): chain(t.npu()) for shape, t in host.items() for name, chain in CHAINS.items()}
    for shape, name, calls in iter(requests.recv, None):
        copy = card[shape, name].contiguous
        if calls is None:
            assert torch.equal(copy().cpu(), CHAINS[name](host[shape])), f"{name} of {shape} differs from the CPU's"
            requests.send(launches(copy))
        else:
            requests.send(slice_ns(copy, calls))


def measure(slices: int) -> list[dict]:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # both sides on one core, which is no faster for one of them
    context, sides = multiprocessing.get_context("spawn"), {}
    for combined in ("0", "1"):
        sides[combined], there = context.Pipe()
        context.Process(target=serve, args=(combined, there), daemon=True).start()

    def ask(combined: str, *request):
        sides[combined].send(request)
        return sides[combined].recv()

    rows = []
    for shape in SHAPES:
        for name in CHAINS:
            row = {"shape": shape, "chain": name, "launches": {side: ask(side, shape, name, None) for side in sides}}
            calls = max(3, int(5e5 / ask("1", shape, name, 20)))
            samples = {side: [] for side in sides}
            for i in range(slices):
                for side in sorted(sides, reverse=bool(i % 2)):
                    samples[side].append(ask(side, shape, name, calls))
            row["us"] = {side: statistics.median(ns) / 1e3 for side, ns in samples.items()}
            row["0 : 1"] = row["us"]["0"] / row["us"]["1"]
            rows.append(row)
            print(f"{name} of {shape}: {2 * slices} slices", file=sys.stderr)
    for side in sides.values():
        side.send(None)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--slices", type=int, default=100)
    options = parser.parse_args()
    rows = measure(options.slices)
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    print(table([(list(r["shape"]), r["chain"], r["launches"]["0"], r["launches"]["1"], f"{r['us']['0']:.1f}", f"{r['us']['1']:.1f}",
                  f"{r['0 : 1']:.2f}") for r in rows],
                ("shape", "chain", "launches =0", "=1", "us =0", "=1", "time 0 : 1")))
    for shape in SHAPES:
        pairs = [r["0 : 1"] for r in rows if r["shape"] == shape and r["chain"] in OF_TWO]
        print(f"chains of two, {list(shape)}: geometric mean {statistics.geometric_mean(pairs):.2f}, least {min(pairs):.2f}")


if __name__ == "__main__":
    main()
