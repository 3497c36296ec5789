"""A program of 200 operators gives the same bits at every level of the task queue."""

import os
import subprocess
import sys

import pytest
import torch

import torch_npu  # noqa: F401

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program.py")
pytestmark = pytest.mark.skipif(not torch.npu.is_available(), reason="no npu is available")


def run(level: int, **environment: str) -> list[str]:
    environment = {**os.environ, "TASK_QUEUE_ENABLE": str(level), "TORCH_NPU_FALLBACK_CPU_DISABLE": "1", **environment}
    process = subprocess.run([sys.executable, PROGRAM], env=environment, capture_output=True, text=True, timeout=600)
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()


@pytest.fixture(scope="module")
def reference() -> list[str]:
    return run(0)


def test_the_program_runs(reference):
    assert len(reference) == 200
    assert not [line for line in reference if line.split()[1].endswith("Error")]


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("asynchronous", ["0", "1"])
def test_equal_bits(reference, level, asynchronous):
    assert run(level, SOFTNPU_ASYNC=asynchronous) == reference
