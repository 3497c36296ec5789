"""Tools around the device: what fell back to the CPU, which runtime is in use, tensors combined in one buffer."""

from torch_npu import _C
from torch_npu.npu.utils import get_cann_version
from torch_npu.utils.combine_tensors import get_part_combined_tensor, is_combined_tensor_valid, npu_combine_tensors
from torch_npu.utils.op_support import op_support
from torch_npu.utils.serialization import save_async

__all__ = [
    "fallback_counts",
    "get_cann_version",
    "get_part_combined_tensor",
    "is_combined_tensor_valid",
    "npu_combine_tensors",
    "op_support",
    "reset_fallback_counts",
    "save_async",
]


def fallback_counts() -> dict[str, int]:
    """Operators that ran on the CPU because the npu has no kernel for them, most frequent first, and how often."""
    return dict(_C.fallback_counts())


def reset_fallback_counts() -> None:
    """Starts counting anew."""
    _C.reset_fallback_counts()
