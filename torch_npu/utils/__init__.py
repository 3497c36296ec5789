"""Tools around the device: what fell back to the CPU, which runtime is in use, tensors combined in one buffer."""

from torch_npu import _C
from torch_npu.npu.utils import get_cann_version
from torch_npu.utils._compatibility import compatibility
from torch_npu.utils._silent_faults import register_asd_hook as register_asd_hook, set_asd_loss_scale as set_asd_loss_scale
from torch_npu.utils.affinity import reset_thread_affinity, set_thread_affinity
from torch_npu.utils.combine_tensors import get_part_combined_tensor, is_combined_tensor_valid, npu_combine_tensors
from torch_npu.utils.op_support import op_support
from torch_npu.utils.serialization import save_async

__all__ = [
    "FlopsCounter",
    "compatibility",
    "fallback_counts",
    "get_cann_version",
    "get_part_combined_tensor",
    "is_combined_tensor_valid",
    "npu_combine_tensors",
    "op_support",
    "reset_fallback_counts",
    "reset_thread_affinity",
    "save_async",
    "set_thread_affinity",
]


def fallback_counts() -> dict[str, int]:
    """Operators that ran on the CPU because the npu has no kernel for them, most frequent first, and how often."""
    return dict(_C.fallback_counts())


def reset_fallback_counts() -> None:
    """Starts counting anew."""
    _C.reset_fallback_counts()


def __getattr__(name: str):
    if name == "FlopsCounter":  # upstream's counter takes time to import
        from torch_npu.utils.flops_count import FlopsCounter

        return FlopsCounter
    if name in ("collect_env", "cpp_extension", "dlpack", "flops_count", "patch_getenv", "profiler", "storage", "syncbatchnorm"):
        from importlib import import_module

        return import_module(f"torch_npu.utils.{name}")
    if name == "utils":  # the official file of this package's functions
        import sys

        return sys.modules[__name__]
    raise AttributeError(f"module 'torch_npu.utils' has no attribute '{name}'")
