"""The CPU fallback is forbidden: what is tested here runs on the npu."""

import os
import sys
from pathlib import Path

import pytest

os.environ["TORCH_NPU_FALLBACK_CPU_DISABLE"] = "1"

import torch_npu  # noqa: F401

sys.path.insert(0, str(Path(__file__).resolve().parent))


@pytest.fixture(scope="session")
def library():
    """softnpu's operators, for abi.run()."""
    import abi

    return abi.load() or pytest.skip("the operators come from another provider than softnpu")
