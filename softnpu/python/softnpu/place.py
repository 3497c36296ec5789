"""Where the libraries with CANN's names lie, and the environment in which a client of CANN finds them."""

import ctypes
import re
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


@cache
def toolkit() -> Path:
    """The folder that takes the place of CANN's toolkit (ASCEND_HOME_PATH): this package's, in a checkout that of its build,
    else that of an installed torch_npu, which brings the same files."""
    candidates = [PACKAGE / "toolkit", PACKAGE.parents[2] / "build/torch_npu/softnpu"]
    spec = find_spec("torch_npu")
    if spec and spec.submodule_search_locations:
        candidates += [Path(folder) / "softnpu" for folder in spec.submodule_search_locations]
    for folder in candidates:
        if (folder / "lib64/libsoftnpu.so").exists():
            return folder
    raise FileNotFoundError(f"softnpu's libraries are not in {candidates[0]}; reinstall it, or in a checkout: bash ci/build.sh --softnpu")


def library_folder() -> Path:
    return toolkit() / "lib64"


def sourced_file() -> Path:
    """What a shell sources to get client_environment()."""
    file = toolkit() / "use_softnpu.sh"
    return file if file.exists() else toolkit() / "set_env.sh"  # of a torch_npu's toolkit


def conformance_program() -> Path:
    """test/abi as a program; in the toolkit's folder `bin`, or in torch_npu's `lib`."""
    inside = toolkit() / "bin/abi_conformance"
    return inside if inside.exists() else toolkit().parent / "lib/abi_conformance"


def torch_folder() -> Path | None:
    """Where libopapi.so, which computes with torch's CPU kernels, finds torch by itself. Elsewhere the client must have loaded it."""
    folder = toolkit().parent.parent / "torch/lib"
    return folder if (folder / "libtorch_cpu.so").exists() else None


def operators() -> list[str]:
    """The operators that softnpu has an entry for."""
    names = re.findall(rb"(?<=\0)(acl\w+)GetWorkspaceSize(?=\0)", (library_folder() / "libopapi.so").read_bytes())
    return sorted({name.decode() for name in names})


def _is_cann(folder: str) -> bool:
    return (Path(folder) / "libascendcl.so").exists() and not (Path(folder) / "libsoftnpu.so").exists()


def client_environment(base: Mapping[str, str]) -> dict[str, str]:
    """What a client of CANN needs to find softnpu, whatever CANN `base` has in use."""
    home, libraries = toolkit(), str(library_folder())
    paths = [path for path in base.get("LD_LIBRARY_PATH", "").split(":") if path and path != libraries and not _is_cann(path)]
    return {
        "ASCEND_HOME_PATH": str(home),
        "ASCEND_TOOLKIT_HOME": str(home),
        "ASCEND_OPP_PATH": str(home / "opp"),
        "TORCH_NPU_RUNTIME": "soft",
        "LD_LIBRARY_PATH": ":".join([libraries, *paths]),
    }


def loaded() -> str | None:
    """The libsoftnpu.so that this process has loaded."""
    with open("/proc/self/maps") as maps:
        return next((line.split(maxsplit=5)[5].rstrip("\n") for line in maps if line.rstrip().endswith("/libsoftnpu.so")), None)


def open_runtime() -> ctypes.CDLL:
    """libascendcl.so of softnpu, in this process; of the client that already has it, if there is one."""
    folder = Path(found).parent if (found := loaded()) else library_folder()
    ctypes.CDLL(str(folder / "libsoftnpu.so"))  # first, by its path: LD_LIBRARY_PATH may name another
    return ctypes.CDLL(str(folder / "libascendcl.so"))
