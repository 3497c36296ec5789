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
from torch_npu import _C, _environment, npu

# Not TORCH_NPU_FALLBACK_CPU_DISABLE, which the kit sets. Others, and what they hold, stay on the machine.
VARIABLES = tuple(name for name in _environment.VARIABLES if name != "TORCH_NPU_FALLBACK_CPU_DISABLE")
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
