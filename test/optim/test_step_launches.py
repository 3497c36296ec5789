"""Launches of a step, by softnpu's counter: a few, whatever the number of parameters."""

import sys
from pathlib import Path

import pytest
import torch
from rules import CASES, NAMES, RULES

from torch_npu.optim.base import Bucket

sys.path.append(str(Path(__file__).resolve().parent.parent / "ops"))

import counters  # noqa: E402

SHAPES = [(4, 3), (5,), (2, 3, 2), (), (3, 2, 1, 2)]
MOST = 6


def launches(cls, count: int, **options) -> int:
    """Of the third step, when state and buffers are there. Nothing is copied to the host or waited for."""
    params = [torch.nn.Parameter(torch.randn(SHAPES[i % len(SHAPES)], device="npu")) for i in range(count)]
    if isinstance(options["lr"], list):
        options["lr"] = options["lr"][0]
    optimizer = cls(params, **options)
    for p in params:
        p.grad = torch.ones_like(p)
    for _ in range(2):
        optimizer.step()
    torch.npu.synchronize()
    with counters.Counted() as counted:
        optimizer.step()
        torch.npu.synchronize()
    assert counted.d2h_copies == counted.h2d_copies == 0
    return counted.tasks


@pytest.mark.parametrize("cls, option", CASES, ids=NAMES)
def test_a_step_is_a_few_launches(cls, option):
    _, base, cases = RULES[cls]
    found = [launches(cls, count, **{**base, **cases[option]}) for count in (5, 50, 200)]
    assert max(found) <= MOST
    assert len(set(found)) == 1


@pytest.mark.parametrize("cls", RULES, ids=lambda cls: cls.__name__)
def test_without_fused_kernels_the_number_does_not_depend_on_the_parameters(cls, monkeypatch):
    """As on CANN, which has none of them. AdamP looks at each parameter: as many as one launch of a foreach operator takes."""
    monkeypatch.setattr(Bucket, "is_fused", lambda self, operator: False)
    _, base, cases = RULES[cls]
    everything = {name: value for case in cases.values() for name, value in case.items() if name not in ("dampening", "lr")}
    found = {launches(cls, count, **{**base, **everything}) for count in ((5, 12) if cls.__name__ == "NpuFusedAdamP" else (5, 50, 200))}
    assert len(found) == 1
