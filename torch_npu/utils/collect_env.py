"""What a bug report needs to say: `python -m torch_npu.utils.collect_env`. Touches no card."""

import os
import platform

import torch

import torch_npu
from torch_npu import _C, npu
from torch_npu.npu import utils as _npu_utils

_PREFIXES = ("ASCEND_", "ACL_", "HCCL_", "SOFTNPU_", "TORCH_NPU_", "PYTORCH_", "TASK_QUEUE_", "OMP_NUM_THREADS")


def collect_env() -> dict[str, str]:
    """Versions, the runtime in use, the cards it shows and the variables that change its behaviour."""
    report = {
        "Python": f"{platform.python_version()} on {platform.platform()}",
        "torch": torch.__version__,
        "torch_npu": f"{torch_npu.__version__} in {torch_npu.__path__[0]}",
    }
    if reason := _C.why_unavailable():
        report["npu"] = f"not available: {reason}"
    else:
        provider = "softnpu, the embedded software NPU" if torch_npu.is_softnpu() else "CANN"
        report["runtime"] = f"{provider} {_npu_utils.get_cann_version()} in {_C.runtime_path()}"
        for index in range(npu.device_count()):
            report[f"npu:{index}"] = str(npu.get_device_properties(index))
    for name in sorted(os.environ):
        if name.startswith(_PREFIXES):
            report[name] = os.environ[name]
    return report


def get_cann_version() -> str:
    """The version of CANN, or of the softnpu that stands in for it."""
    return _npu_utils.get_cann_version()


def get_torch_npu_version() -> str:
    """As pip shows it."""
    return torch_npu.__version__


def get_torch_npu_install_path() -> str:
    """The folder that holds the package."""
    return os.path.dirname(torch_npu.__path__[0])


def get_pretty_env_info() -> str:
    """collect_env() as text, a line for each entry."""
    return "\n".join(f"{name}: {value}" for name, value in collect_env().items())


def main() -> None:
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
