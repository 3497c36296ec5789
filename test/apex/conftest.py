"""apex is a distribution of its own; its source folder is on the path, so that no wheel has to be built for its tests."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "apex"))

import torch_npu  # noqa: F401, E402


@pytest.fixture(autouse=True)
def end_casting():
    """O1 casts until told otherwise."""
    yield
    from apex.amp import casting

    casting.disable()
