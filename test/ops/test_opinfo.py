"""Every operator of torch's OpInfo database on npu equals the CPU, with the CPU fallback forbidden.

Two float32 samples of each operator, in worker processes; test/ops/sweep.py takes all samples and types. What is not
supported or fails for now is listed in test/expect.
"""

import os

import expect
import opinfo
import pool
import pytest
import torch

import torch_npu  # noqa: F401

SAMPLES = 2
PAIRS = [(op, "float32") for op, _ in opinfo.pairs([torch.float32])]


@pytest.fixture(scope="session")
def answers(request):
    """Of all pairs that were selected for this run; they are compared side by side."""
    if not torch.npu.is_available():
        pytest.skip("no npu is available")
    chosen = [item.callspec.params["pair"] for item in request.session.items
              if getattr(item, "originalname", "") == "test_equals_the_cpu"]
    return pool.run(chosen, SAMPLES, os.cpu_count())


@pytest.mark.parametrize("pair", PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_equals_the_cpu(pair, answers):
    checks = answers[pair]["checks"]
    surprises = expect.surprises(*pair, checks)
    assert not surprises, "\n".join(surprises)
    if all(check["status"] == "none" for check in checks.values()):
        pytest.skip("the CPU has no samples for this type")
