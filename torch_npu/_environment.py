"""The environment variables that torch_npu and softnpu know, and a word about those that look like one and are none."""

import os
import re
import warnings

# Those of docs/environment.md; a test compares.
VARIABLES = (
    "TORCH_NPU_RUNTIME", "ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH", "ASCEND_CUSTOM_OPP_PATH",
    "TORCH_ACL_INIT_CONFIG_PATH", "ACL_DUMP_DATA", "TORCH_NPU_DUMP", "TORCH_DEVICE_BACKEND_AUTOLOAD", "TORCH_TRANSFER_TO_NPU",
    "TORCH_NPU_TRANSFER_EXCLUDE", "ASCEND_RT_VISIBLE_DEVICES", "TORCH_NPU_DEVICE_CAPABILITY", "RANK", "TASK_QUEUE_ENABLE",
    "ASCEND_LAUNCH_BLOCKING", "ACL_STREAM_TIMEOUT", "ACL_DEVICE_SYNC_TIMEOUT", "COMBINED_ENABLE", "ASCEND_WORK_PATH",
    "TORCH_NPU_FALLBACK_CPU_DISABLE", "TORCH_NPU_COMPACT_ERROR_OUTPUT", "TORCH_NPU_ERROR_ORIGIN", "TORCH_NPU_SANITIZER",
    "PYTORCH_NPU_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NO_NPU_MEMORY_CACHING", "TORCH_HCCL_BLOCKING_WAIT", "HCCL_BLOCKING_WAIT",
    "TORCH_HCCL_ASYNC_ERROR_HANDLING", "HCCL_ASYNC_ERROR_HANDLING", "TORCH_HCCL_HIGH_PRIORITY", "TORCH_HCCL_ENABLE_TIMING",
    "TORCH_HCCL_TRACE_BUFFER_SIZE", "TORCH_HCCL_TRACE_CPP_STACK", "TORCH_HCCL_DUMP_ON_TIMEOUT", "TORCH_HCCL_DEBUG_INFO_TEMP_FILE",
    "HCCL_BUFFSIZE", "P2P_HCCL_BUFFSIZE", "HCCL_DETERMINISTIC", "TORCH_NPU_HCCL_TRANSPORT", "SOFTNPU_SOC", "SOFTNPU_DEVICES",
    "SOFTNPU_MEMORY", "SOFTNPU_ASYNC", "SOFTNPU_THREADS", "SOFTNPU_WORKSPACE", "SOFTNPU_TRACE", "SOFTNPU_RECORD",
    "SOFTNPU_RECORD_ONCE", "ACLNN_CACHE_LIMIT", "SOFTNPU_STRICT", "SOFTNPU_HOSTILE", "SOFTNPU_FAULT", "SOFTNPU_POOL",
    "HCCL_CONNECT_TIMEOUT", "HCCL_EXEC_TIMEOUT", "ASCEND_GLOBAL_LOG_LEVEL", "OMP_NUM_THREADS", "XDG_RUNTIME_DIR", "TMPDIR",
)
_OF_SCRIPTS = ("SOFTNPU_PREFIX", "SOFTNPU_MUTANT")  # of ci/ and test/mutation
_OURS = ("TORCH_NPU_", "SOFTNPU_")


_NUMBERS = (  # whose other text counts as nothing
    "ACL_DUMP_DATA", "TASK_QUEUE_ENABLE", "ASCEND_LAUNCH_BLOCKING", "ACL_STREAM_TIMEOUT", "ACL_DEVICE_SYNC_TIMEOUT",
    "TORCH_NPU_FALLBACK_CPU_DISABLE", "TORCH_NPU_COMPACT_ERROR_OUTPUT", "TORCH_NPU_ERROR_ORIGIN", "TORCH_NPU_SANITIZER",
)


def not_numbers() -> list[str]:
    """Variables with a text such as "yes" or "true", which does not switch them on."""
    return [name for name in _NUMBERS if not re.fullmatch(r"\s*([+-]?\d+\s*)?", os.environ.get(name, ""))]


def unknown() -> list[tuple[str, str | None]]:
    """Variables of ours that nothing reads, each with the nearest name that there is."""
    found = []
    for name in sorted(os.environ):
        if name.startswith(_OURS) and name not in VARIABLES and name not in _OF_SCRIPTS:
            from difflib import get_close_matches

            near = get_close_matches(name, [known for known in VARIABLES if known.startswith(_OURS)], n=1)
            found.append((name, near[0] if near else None))
    return found


def warn_of_unknown() -> None:
    """Once for each: a setting that is misspelt would be silently without effect."""
    for name, near in unknown():
        meant = f"did you mean {near}?" if near else "unset it;"
        warnings.warn(f"Nothing reads the environment variable {name}: {meant} docs/environment.md lists what there is.", stacklevel=2)
    for name in not_numbers():
        warnings.warn(f"The environment variable {name} takes a number; {os.environ[name]!r} has no effect.", stacklevel=2)
