"""The names that code written for Ascend imports from torch_npu.npu.utils."""

from torch_npu import _C
from torch_npu.npu.devices import (
    current_device,
    device,
    device_of,
    get_soc_version,
    get_task_queue_enable,
    is_bf16_supported,
    set_device,
    set_task_queue_enable,
    synchronize,
)
from torch_npu.npu.overflow import (
    clear_npu_overflow_flag,
    get_npu_overflow_flag,
    is_force_overflow_check,
    is_support_inf_nan,
    npu_check_overflow,
)
from torch_npu.npu.streams import StreamContext, current_stream, default_stream, set_stream, stream

__all__ = [
    "StreamContext",
    "clear_npu_overflow_flag",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_of",
    "get_cann_version",
    "get_npu_overflow_flag",
    "get_soc_version",
    "get_task_queue_enable",
    "is_bf16_supported",
    "is_force_overflow_check",
    "is_support_inf_nan",
    "npu_check_overflow",
    "set_device",
    "set_stream",
    "set_task_queue_enable",
    "stream",
    "synchronize",
]


_PACKAGES = ("CANN", "RUNTIME", "COMPILER", "HCCL", "TOOLKIT", "OPP", "OPP_KERNEL", "DRIVER")  # in the order of aclCANNPackageName


def get_cann_version(module: str = "CANN") -> str:
    """The version of a package of the runtime behind the npu, empty when the runtime does not know it.

    All packages of softnpu have one version.
    """
    if module not in _PACKAGES:
        raise ValueError(f"module must be one of {', '.join(_PACKAGES)}, but got {module!r}")
    return _C.package_version(_PACKAGES.index(module))
