"""Tests of this folder import its modules."""

import sys
from pathlib import Path

import pytest

import torch_npu  # noqa: F401

sys.path.insert(0, str(Path(__file__).resolve().parent))


@pytest.fixture(scope="session")
def library():
    """softnpu's operators, for abi.run()."""
    import abi

    return abi.load() or pytest.skip("the operators come from another provider than softnpu")
