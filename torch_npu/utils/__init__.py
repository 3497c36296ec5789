"""Tools around the device: what fell back to the CPU, which runtime is in use."""

from torch_npu import _C
from torch_npu.npu.utils import get_cann_version

__all__ = ["fallback_counts", "get_cann_version", "reset_fallback_counts"]


def fallback_counts() -> dict[str, int]:
    """Operators that ran on the CPU because the npu has no kernel for them, most frequent first, and how often."""
    return dict(_C.fallback_counts())


def reset_fallback_counts() -> None:
    """Starts counting anew."""
    _C.reset_fallback_counts()
