"""Random numbers have no counterpart on the CPU: the same seed must repeat them, another one not, and their moments must fit."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from torch_npu import npu
from torch_npu.verify.outcome import Outcome

COUNT = 1 << 16


def flat(value: float) -> torch.Tensor:
    return torch.full((COUNT,), float(value), device="npu")


# name: what is drawn, its mean and its standard deviation
DRAWS: dict[str, tuple[Callable[[], torch.Tensor], float, float]] = {
    "rand": (lambda: torch.rand(COUNT, device="npu"), 0.5, 12**-0.5),
    "randn": (lambda: torch.randn(COUNT, device="npu"), 0.0, 1.0),
    "randint": (lambda: torch.randint(0, 10, (COUNT,), device="npu").float(), 4.5, 8.25**0.5),
    "normal_": (lambda: flat(0).normal_(2.0, 3.0), 2.0, 3.0),
    "uniform_": (lambda: flat(0).uniform_(-1, 1), 0.0, 3**-0.5),
    "bernoulli": (lambda: torch.bernoulli(flat(0.3)), 0.3, 0.21**0.5),
    "exponential_": (lambda: flat(0).exponential_(2.0), 0.5, 0.5),
    "multinomial": (lambda: torch.multinomial(torch.tensor([0.5, 0.5], device="npu"), COUNT, True).float(), 0.5, 0.5),
    "dropout": (lambda: F.dropout(flat(1), 0.25), 1.0, 3**-0.5),
    "randperm": (lambda: torch.randperm(COUNT, device="npu").float(), (COUNT - 1) / 2, COUNT * 12**-0.5),
}


def run(name: str, outcome: Outcome) -> None:
    draw, mean, deviation = DRAWS[name]
    with outcome.attempt("float32", f"{COUNT} numbers"):
        drawn = []
        for seed in (5, 5, 6):
            npu.manual_seed_all(seed)
            drawn.append(draw().cpu())
        first, again, other = drawn
        if not torch.equal(first, again):
            outcome.problem("wrong", "two runs with the same seed differ")
        if torch.equal(first, other):
            outcome.problem("wrong", "two runs with different seeds are equal")
        got, spread = first.double().mean().item(), first.double().std().item()
        if abs(got - mean) > 6 * deviation / COUNT**0.5 or abs(spread - deviation) > 0.05 * deviation:
            outcome.problem("wrong", f"mean {got:.5g} and deviation {spread:.5g} where {mean:.5g} and {deviation:.5g} are expected")
