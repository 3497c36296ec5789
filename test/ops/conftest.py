"""Tests of this folder import its modules, which are programs of the sweeps too."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import pool  # noqa: E402


@pytest.fixture(scope="session")
def comparer():
    """A worker process that compares what tests ask for; pytest-xdist has one for each of its own."""
    import torch

    if not torch.npu.is_available():
        pytest.skip("no npu is available")
    comparer = pool.Comparer()
    yield comparer
    comparer.stop()
