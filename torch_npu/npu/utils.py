"""The names that code written for Ascend imports from torch_npu.npu.utils."""

import re

from torch_npu import _C
from torch_npu.npu._dump import finalize_dump, init_dump, set_dump
from torch_npu.npu._further import (
    current_blas_handle,
    obfuscation_calculate,
    obfuscation_finalize,
    obfuscation_initialize,
)
from torch_npu.npu._recovery import check_uce_in_memory, stress_detect
from torch_npu.npu.core_limits import set_op_timeout_ms
from torch_npu.npu.devices import (
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_soc_version,
    get_task_queue_enable,
    ipc_collect,
    is_bf16_supported,
    set_device,
    set_task_queue_enable,
    synchronize,
    utilization,
)
from torch_npu.npu.memory import mem_get_info
from torch_npu.npu.overflow import (
    clear_npu_overflow_flag,
    get_npu_overflow_flag,
    is_force_overflow_check,
    is_support_inf_nan,
    npu_check_overflow,
)
from torch_npu.npu.streams import StreamContext, current_stream, default_stream, set_stream, stream
from torch_npu.npu.sync_debug import get_sync_debug_mode, set_sync_debug_mode

__all__ = [
    "StreamContext",
    "can_device_access_peer",
    "check_uce_in_memory",
    "clear_npu_overflow_flag",
    "current_blas_handle",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "finalize_dump",
    "get_cann_version",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_npu_overflow_flag",
    "get_soc_version",
    "get_sync_debug_mode",
    "get_task_queue_enable",
    "init_dump",
    "ipc_collect",
    "is_bf16_supported",
    "is_force_overflow_check",
    "is_support_inf_nan",
    "mem_get_info",
    "npu_check_overflow",
    "obfuscation_calculate",
    "obfuscation_finalize",
    "obfuscation_initialize",
    "set_device",
    "set_dump",
    "set_op_timeout_ms",
    "set_stream",
    "set_sync_debug_mode",
    "set_task_queue_enable",
    "stream",
    "stress_detect",
    "synchronize",
    "utilization",
]


_PACKAGES = ("CANN", "RUNTIME", "COMPILER", "HCCL", "TOOLKIT", "OPP", "OPP_KERNEL", "DRIVER")  # in the order of aclCANNPackageName


def get_cann_version(module: str = "CANN") -> str:
    """The version of a package of the runtime behind the npu, empty when the runtime does not know it.

    All packages of softnpu have one version.
    """
    if module not in _PACKAGES:
        raise ValueError(f"module must be one of {', '.join(_PACKAGES)}, but got {module!r}")
    return _C.package_version(_PACKAGES.index(module))


def _is_gte_cann_version(version: str, module: str = "CANN") -> bool:
    """Whether a package of the runtime has this version (for example "8.3.RC1") or a later one. softnpu's version counts as it is."""
    wanted, there = _version_key(version), _version_key(get_cann_version(module))
    if not wanted:
        raise ValueError(f'version must be a version such as "8.3.RC1", got {version!r}')
    return bool(there) and there >= wanted


def _version_key(version: str) -> tuple:
    """Comparable: 8.3 < 8.3.RC1 < 8.3.0 < 8.3.1; what follows is not read. Empty for what is no version."""
    match = re.match(r"\D*(\d+)\.(\d+)(?:\.(RC|alpha|beta|T)?(\d+))?", version, re.IGNORECASE)
    if match is None:
        return ()
    if match[4] is None:
        return int(match[1]), int(match[2])
    stage = {"": 3, "rc": 2, "beta": 1, "t": 1, "alpha": 0}[(match[3] or "").lower()]
    return int(match[1]), int(match[2]), stage, int(match[4])
