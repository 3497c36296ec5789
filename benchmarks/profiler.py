"""What torch_npu.profiler costs: training steps of a small GPT with no profile, while one records, and after it.

    python benchmarks/profiler.py [--steps 20] [--rounds 5] [--width 256] [--cpu]

Prints JSON: milliseconds per step (the median over rounds that take turns), their ratios to no profile, the sum of the launches' times
against events around the same steps, and what writing the profile took. --cpu takes the process's time on the cores, which with
OMP_NUM_THREADS=1 is what a step costs on a machine that others use as well.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

import torch_npu
from torch_npu import profiler

_clock = time.perf_counter


class Block(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.first(x)).split(width, -1)
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.down(functional.gelu(self.up(self.second(x))))


class Gpt(nn.Module):
    def __init__(self, width: int = 256, blocks: int = 2, heads: int = 4, words: int = 512, length: int = 64):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(blocks)))
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.blocks(x))


def make_step(width: int):
    torch.manual_seed(0)
    model = Gpt(width).npu()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    tokens = torch.randint(0, 512, (4, 65))

    def step():
        here = tokens.npu()
        loss = functional.cross_entropy(model(here[:, :-1]).flatten(0, 1), here[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


def milliseconds(step, steps: int, after=None) -> float:
    start = _clock()
    for _ in range(steps):
        step()
        if after:
            after()
    torch.npu.synchronize()
    return (_clock() - start) * 1000 / steps


def recorded(step, steps: int, folder: str, **settings) -> dict:
    """A round while a profile records: per step, and what stopping and writing took."""
    profile = profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(folder), **settings)
    profile.start()
    begin, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    begin.record()
    spent = milliseconds(step, steps, profile.step)
    end.record()
    end.synchronize()
    start = time.perf_counter()
    profile.stop()
    rows = (profile.folder / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv").read_text().splitlines()
    place = rows[0].split(",").index("Duration(us)")
    launches = sum(float(row.split(",")[place]) for row in rows[1:]) / 1000
    return {"ms": spent, "launches_ms": launches / steps, "events_ms": begin.elapsed_time(end) / steps, "launches": len(rows) - 1,
            "stop_and_write_ms": (time.perf_counter() - start) * 1000}


def microseconds_per_launch(count: int = 2000) -> float:
    """Of the smallest operator: what a recording adds to each launch shows here undiluted."""
    x = torch.ones(8, device="npu")
    x.add_(1)
    start = _clock()
    for _ in range(count):
        x.add_(1)
    torch.npu.synchronize()
    return (_clock() - start) * 1e6 / count


def small_launches(rounds: int, folder: str) -> dict:
    off, on = [], []
    for _ in range(rounds):
        off.append(microseconds_per_launch())
        with profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(folder, analyse_flag=False)):
            on.append(microseconds_per_launch())
    return {"off": statistics.median(off), "on": statistics.median(on)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    if options.cpu:
        global _clock
        _clock = time.process_time
    step = make_step(options.width)
    milliseconds(step, 3)
    plain, after, on, detailed = [], [], [], []
    first = [milliseconds(step, options.steps) for _ in range(options.rounds)]  # nothing was ever profiled
    with tempfile.TemporaryDirectory() as folder:
        everything = {"record_shapes": True, "profile_memory": True, "with_stack": True}
        for _ in range(options.rounds):
            plain.append(milliseconds(step, options.steps))
            on.append(recorded(step, options.steps, str(Path(folder) / "plain")))
            after.append(milliseconds(step, options.steps))
            detailed.append(recorded(step, options.steps, str(Path(folder) / "detailed"), **everything))
        small = small_launches(options.rounds, str(Path(folder) / "small"))
    base = statistics.median(plain)
    median = {name: statistics.median(entry[name] for entry in on) for name in on[0]}
    print(json.dumps({
        "version": torch_npu.__version__, "steps": options.steps, "rounds": options.rounds, "threads": torch.get_num_threads(),
        "clock": "process" if options.cpu else "wall",
        "ms": {"never": statistics.median(first), "off": base, "on": median["ms"], "after": statistics.median(after),
               "on, shapes, memory, stacks": statistics.median(entry["ms"] for entry in detailed)},
        "on / off": median["ms"] / base, "after / off": statistics.median(after) / base,
        "on, shapes, memory, stacks / off": statistics.median(entry["ms"] for entry in detailed) / base,
        "launches": median["launches"], "launches ms / events ms": median["launches_ms"] / median["events_ms"],
        "stop and write ms": median["stop_and_write_ms"], "us per x.add_(1)": small,
    }, indent=2))


if __name__ == "__main__":
    main()
