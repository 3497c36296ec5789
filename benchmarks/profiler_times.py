"""Whether the profiler's times of launches agree with events that the program records itself: training steps of a small GPT.

    python benchmarks/profiler_times.py [--widths 128 256 512] [--rounds 5]

A step is measured by events around it, by events around each operator (a dispatch mode, which knows nothing of the profiler) and by the
profile. As a program runs, the card waits for the host between launches, and that is in the events around the step and in "free". Behind
other work the card has the whole step before it begins: no gaps, so that all three must agree. A replayed graph is one launch. On softnpu
the second case runs with SOFTNPU_ASYNC=1, in a process of its own. Prints JSON, medians over rounds.
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from profiler import Gpt
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

import torch_npu
from torch_npu import profiler


def make_step(width: int):
    """A step that never waits for the card."""
    torch.manual_seed(0)
    model = Gpt(width).npu()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    tokens = torch.randint(0, 512, (4, 65)).npu()

    def step():
        functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


class Pair:
    """Two events around what is done inside."""

    def __enter__(self):
        self.begin, self.end = (torch.npu.Event(enable_timing=True) for _ in range(2))
        self.begin.record()
        return self

    def __exit__(self, *_):
        self.end.record()

    def ms(self) -> float:
        self.end.synchronize()
        return self.begin.elapsed_time(self.end)


class AroundOperators(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.pairs: list[Pair] = []

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        with Pair() as pair:
            result = function(*arguments, **(named or {}))
        self.pairs.append(pair)
        return result


def put_behind(work: torch.Tensor, turns: int) -> None:
    """The current stream waits until another one has done `turns` products."""
    beside = torch.npu.Stream()
    with torch.npu.stream(beside):
        for _ in range(turns):
            work @ work
    torch.npu.current_stream().wait_stream(beside)


def profiled(step, before=lambda: None) -> dict:
    """Milliseconds of one step: by events around it, by events around each of its operators, and as the profile has them."""
    torch.npu.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        with profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(folder)) as profile:
            torch.zeros(1, device="npu")  # the profile's first launch waits for the card
            before()
            with Pair() as whole:
                step()
        launches, times = read(profile.folder / "ASCEND_PROFILER_OUTPUT")
    torch.npu.synchronize()
    before()
    with AroundOperators() as around:  # apart from the profile: its own events would stand between these
        step()
    operators = sum(pair.ms() for pair in around.pairs)
    return {"around the step": whole.ms(), "around operators": operators, "launches": sum(launches), "count": len(launches)} | times


def read(output: Path) -> tuple[list[float], dict]:
    """The launches of the current stream but the first, and how the card's time divides."""
    view = json.loads((output / "trace_view.json").read_text())
    stream = torch.npu.current_stream().stream_id
    own = [event for event in view if event.get("args", {}).get("Stream Id") == stream]
    own.sort(key=lambda event: float(event["ts"]))
    with open(output / "step_trace_time.csv", newline="") as file:
        (row,) = csv.DictReader(file)
    return [event["dur"] / 1000 for event in own[1:]], {name.lower(): float(row[name]) / 1000 for name in ("Computing", "Free")}


def replayed(step) -> dict:
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        step()
    graph.replay()
    return profiled(graph.replay)


def median(measure, rounds: int) -> dict:
    found = [measure() for _ in range(rounds)]
    return {name: statistics.median(entry[name] for entry in found) for name in found[0]}


def row(width: int, case: str, times: dict) -> dict:
    ratios = {"launches / around the step": times["launches"] / times["around the step"]}
    if times["around operators"]:  # a replay has none
        ratios["launches / around operators"] = times["launches"] / times["around operators"]
    shown = ["around the step", "around operators", "launches"]
    if case == "as it runs":  # elsewhere what stands before the step is in them
        shown += ["computing", "free"]
        ratios["(computing + free) / around the step"] = (times["computing"] + times["free"]) / times["around the step"]
    return {"width": width, "case": case, "launches": times["count"],
            "ms": {name: round(times[name], 3) for name in shown if times[name]},
            **{name: round(value, 3) for name, value in ratios.items()}}


def without_waiting(options) -> list[dict]:
    """The rows of a card that takes work without running it at once: any, but softnpu only when asked."""
    if torch_npu.is_softnpu() and os.environ.get("SOFTNPU_ASYNC") != "1":
        command = [sys.executable, __file__, "--behind", "--rounds", str(options.rounds), "--widths", *map(str, options.widths)]
        return json.loads(subprocess.run(command, env={**os.environ, "SOFTNPU_ASYNC": "1"}, stdout=subprocess.PIPE, check=True).stdout)
    found, work = [], torch.randn(1024, 1024).npu()
    for width in options.widths:
        step = make_step(width)
        step()
        with Pair() as one:
            step()
        with Pair() as product:
            work @ work
        turns = 10 + int(20 * one.ms() / product.ms())
        found.append(row(width, "behind other work", median(lambda: profiled(step, lambda: put_behind(work, turns)), options.rounds)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--widths", type=int, nargs="+", default=[128, 256, 512])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--behind", action="store_true", help="only the case of a card that has the whole step before it begins")
    options = parser.parse_args()
    if options.behind:
        print(json.dumps(without_waiting(options)))
        return
    rows = without_waiting(options)
    for width in options.widths:
        step = make_step(width)
        step()
        rows.append(row(width, "as it runs", median(lambda: profiled(step), options.rounds)))
        rows.append(row(width, "replayed graph", median(lambda: replayed(step), options.rounds)))
    print(json.dumps({"version": torch_npu.__version__, "rounds": options.rounds, "threads": torch.get_num_threads(), "rows": rows},
                     indent=2))


if __name__ == "__main__":
    main()
