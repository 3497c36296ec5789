"""What a few things take, in microseconds: numbers for the report, not judged. Called in the worker process."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from torch_npu import npu
from torch_npu.verify.networks import network
from torch_npu.verify.outcome import Outcome


def microseconds(function: Callable[[], object], quick: bool) -> float:
    """The median of runs that end with the card idle, for a second at most; each is several calls."""
    calls = 5 if quick else 20
    function()
    npu.synchronize()
    found: list[float] = []
    end = time.monotonic() + (0.2 if quick else 1.0)
    while len(found) < 15 and (not found or time.monotonic() < end):
        start = time.perf_counter()
        done = 0
        while done < calls and time.monotonic() < end:
            function()
            done += 1
        npu.synchronize()
        found.append((time.perf_counter() - start) / max(done, 1))
    return round(sorted(found)[len(found) // 2] * 1e6, 1)


def training_step() -> Callable[[], object]:
    torch.manual_seed(3)
    net, x, target, make_optimiser = network("gpt")
    net, x, target = net.to("npu"), x.to("npu"), target.to("npu")
    optimiser = make_optimiser(net.parameters())

    def step() -> None:
        torch.nn.functional.cross_entropy(net(x), target).backward()
        optimiser.step()
        optimiser.zero_grad()

    return step


def run(quick: bool, outcome: Outcome) -> None:
    small, square = torch.ones(16, 16).to("npu"), torch.rand(512, 512).half().to("npu")
    host = torch.rand(1 << 22)
    card = host.to("npu")
    programs: dict[str, Callable[[], object]] = {
        "add 16x16": lambda: small + small,
        "item": lambda: small[0, 0].item(),
        "matmul 512 float16": lambda: square @ square,
        "copy 16 MB to the card": lambda: card.copy_(host),
        "copy 16 MB to the host": card.cpu,
        "step of a small GPT": training_step(),
    }
    for name, program in programs.items():
        with outcome.attempt(name):
            outcome.numbers[name] = microseconds(program, quick)
