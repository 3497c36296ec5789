"""What a report says about the machine, and how texts lose what is private: names of users and hosts, folders, addresses of the network."""

from __future__ import annotations

import getpass
import os
import platform
import re
import socket
from pathlib import Path

import torch

import torch_npu
from torch_npu import _C, npu

# The variables of docs/environment.md; a test compares. Not TORCH_NPU_FALLBACK_CPU_DISABLE, which the kit sets. Others, and
# what they hold, stay on the machine.
VARIABLES = (
    "TORCH_NPU_RUNTIME", "ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH", "ASCEND_CUSTOM_OPP_PATH",
    "TORCH_ACL_INIT_CONFIG_PATH", "ACL_DUMP_DATA", "TORCH_DEVICE_BACKEND_AUTOLOAD", "TORCH_TRANSFER_TO_NPU",
    "TORCH_NPU_TRANSFER_EXCLUDE", "ASCEND_RT_VISIBLE_DEVICES", "TORCH_NPU_DEVICE_CAPABILITY", "RANK", "TASK_QUEUE_ENABLE",
    "ASCEND_LAUNCH_BLOCKING", "ACL_STREAM_TIMEOUT", "ACL_DEVICE_SYNC_TIMEOUT", "COMBINED_ENABLE", "TORCH_NPU_COMPACT_ERROR_OUTPUT",
    "PYTORCH_NPU_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NO_NPU_MEMORY_CACHING", "TORCH_HCCL_BLOCKING_WAIT", "HCCL_BLOCKING_WAIT",
    "TORCH_HCCL_ASYNC_ERROR_HANDLING", "HCCL_ASYNC_ERROR_HANDLING", "TORCH_HCCL_HIGH_PRIORITY", "TORCH_HCCL_ENABLE_TIMING",
    "TORCH_HCCL_TRACE_BUFFER_SIZE", "TORCH_HCCL_TRACE_CPP_STACK", "TORCH_HCCL_DUMP_ON_TIMEOUT", "TORCH_HCCL_DEBUG_INFO_TEMP_FILE",
    "HCCL_BUFFSIZE", "P2P_HCCL_BUFFSIZE", "HCCL_DETERMINISTIC", "TORCH_NPU_HCCL_TRANSPORT", "SOFTNPU_SOC", "SOFTNPU_DEVICES",
    "SOFTNPU_MEMORY", "SOFTNPU_ASYNC", "SOFTNPU_THREADS", "SOFTNPU_WORKSPACE", "SOFTNPU_TRACE", "SOFTNPU_RECORD",
    "SOFTNPU_RECORD_ONCE", "ACLNN_CACHE_LIMIT", "SOFTNPU_STRICT", "SOFTNPU_HOSTILE", "HCCL_CONNECT_TIMEOUT", "HCCL_EXEC_TIMEOUT",
    "ASCEND_GLOBAL_LOG_LEVEL", "OMP_NUM_THREADS", "XDG_RUNTIME_DIR", "TMPDIR",
)
_DRIVER = Path("/usr/local/Ascend/driver/version.info")


def describe() -> dict[str, str]:
    """Needs a card: opens the first one."""
    properties = npu.get_device_properties(0)
    found = {
        "torch_npu": torch_npu.__version__,
        "torch": torch.__version__,
        "provider": "softnpu" if torch_npu.is_softnpu() else "CANN",
        "CANN": torch_npu.utils.get_cann_version() or "unknown",
        "driver": driver(),
        "SoC": _C.get_soc_name(),
        "cards": f"{npu.device_count()} of {properties.total_memory / 2**30:.1f} GiB",
        "python": platform.python_version(),
        "libc": " ".join(platform.libc_ver()),
        "machine": f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores, Linux {platform.release()}",
        "library folder": clean(_C.runtime_path()),
    }
    variables = {name: clean(os.environ[name]) for name in VARIABLES if name in os.environ}
    return found | {f"${name}": value for name, value in variables.items()}


def driver() -> str:
    """The version of the card's driver, which its installer notes in one place."""
    try:
        found = re.search(r"^Version=(\S+)", _DRIVER.read_text(errors="replace"), re.MULTILINE | re.IGNORECASE)
    except OSError:
        return "none"
    return found[1] if found else "unknown"


def _names() -> list[tuple[str, str]]:
    private = [(socket.gethostname(), "<host>")]
    try:
        private.append((getpass.getuser(), "<user>"))
    except (OSError, KeyError):
        pass
    return [(name, stand_in) for name, stand_in in private if len(name) > 2 and name not in ("root", "localhost")]


def clean(text: str) -> str:
    """Without the folders of paths, the names of user and host, and addresses other than this machine's own."""
    text = re.sub(r"(?<![\w.<])/(?:[\w.+@~-]+/)+([\w.+@~-]*)", lambda found: f".../{found[1]}", text)
    text = re.sub(r"\b(?!127\.)\d{1,3}(?:\.\d{1,3}){3}\b(?!\.)", "<address>", text)
    for name, stand_in in _names():
        text = re.sub(rf"\b{re.escape(name)}\b", stand_in, text)
    return text


def clean_all(value):
    """`clean` for every text in a tree of JSON."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {key: clean_all(entry) for key, entry in value.items()}
    return [clean_all(entry) for entry in value] if isinstance(value, list) else value
