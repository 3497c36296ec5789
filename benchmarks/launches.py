"""Counts what a call hands to the device, with the counters that the operator tests use."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).resolve().parent.parent / "test/ops"))

from counters import Counted  # noqa: E402


def launches(function: Callable[[], object]) -> int:
    """Tasks of the second call; the first one makes state and fills caches."""
    function()
    torch.npu.synchronize()
    with Counted() as count:
        function()
        torch.npu.synchronize()
    return count.tasks
