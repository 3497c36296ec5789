"""What a bug report needs to say: `python -m torch_npu.utils.collect_env`. Touches no card."""

import os
import platform
import warnings
from collections import namedtuple

import torch

import torch_npu
from torch_npu import _C, npu
from torch_npu.npu import utils as _npu_utils
from torch_npu.utils._path_manager import PathManager

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


TORCH_AVAILABLE = TORCH_NPU_AVAILABLE = True  # else this module could not be imported

SystemEnv = namedtuple("SystemEnv", [
    "torch_version", "torch_npu_version", "is_debug_build", "gcc_version", "clang_version", "cmake_version", "os", "libc_version",
    "python_version", "python_platform", "pip_version", "pip_packages", "conda_packages", "caching_allocator_config",
    "is_xnnpack_available", "cpu_info", "cann_version"])  # fmt: skip
env_info_fmt = "\n".join(f"{name.replace('_', ' ')}: {{{name}}}" for name in SystemEnv._fields)


def get_env_info():
    """What torch.utils.collect_env finds of the machine, and the versions of this package and of CANN."""
    from torch.utils import collect_env as upstream

    found = upstream.get_env_info()._asdict()
    ours = {"torch_npu_version": torch_npu.__version__, "cann_version": get_cann_version()}
    return SystemEnv(**{name: ours.get(name, found.get(name)) for name in SystemEnv._fields})


def pretty_str(envinfo):
    """The fields of get_env_info() as text, a line for each."""
    return env_info_fmt.format(**envinfo._asdict())


def check_directory_path_readable(path):
    """RuntimeError if there is no such path; a warning if it is a link or may not be read."""
    PathManager.check_directory_path_readable(path)


def check_path_owner_consistent(path: str):
    """RuntimeError if there is no such path; a warning if it is another user's."""
    if not os.path.exists(path):
        raise RuntimeError(f"{path} does not exist")
    if os.stat(path).st_uid not in (0, os.geteuid()):
        warnings.warn(f"{path} is another user's", stacklevel=2)


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
