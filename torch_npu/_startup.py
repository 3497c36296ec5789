"""What `import torch_npu` does: load the extension module, then tell torch about the device.

Runs inside `import torch` as well. There it must never fail: what goes wrong becomes a warning, torch stays usable,
and torch.npu says why on first use.
"""

import os
import sys

import torch

from torch_npu import _dump_settings, _environment


def start(package_path: list, version: str, autoloading: bool) -> None:
    try:
        _check_torch(version)
        _check_alone()
        _environment.warn_of_unknown()
        transfer = _transfer_is_wanted()
        _dump_settings.check()
        _load_extension(package_path, version)
        from torch_npu import _debug, _register

        _register.register()
        _debug.start(package_path[0])
        if transfer:
            from torch_npu.contrib import transfer_to_npu  # noqa: F401  (redirects when imported)
    except Exception as error:
        if not autoloading:
            raise
        from torch_npu import _unavailable

        _unavailable.register(str(error))


def _check_torch(version: str) -> None:
    release = version.partition("+")[0]
    series = release.rpartition(".")[0]
    if not torch.__version__.startswith(series + "."):
        raise ImportError(
            f"torch_npu {version} needs torch {series} but found torch {torch.__version__}; "
            f"cure: pip install torch=={release}"
        )


def _check_alone() -> None:
    name = torch._C._get_privateuse1_backend_name()
    if name != "privateuseone":
        raise ImportError(
            f"another torch backend has already registered the device '{name}', and torch has room for one; "
            "cure: uninstall it, or set TORCH_DEVICE_BACKEND_AUTOLOAD=0 and import only the one you want"
        )


def _transfer_is_wanted() -> bool:
    value = os.environ.get("TORCH_TRANSFER_TO_NPU", "0")
    if value not in ("", "0", "1"):
        raise ValueError(f"TORCH_TRANSFER_TO_NPU must be 0 or 1, but is: {value}")
    return value == "1"


def _load_extension(package_path: list, version: str) -> None:
    folder = package_path[0]
    if not _is_built(folder):
        folder = _built_elsewhere(folder)
        package_path[:] = [folder]
    if _is_mixed(folder):  # before the extension is loaded: the other package's would take the place of the device
        raise ImportError(_reinstall(folder))
    try:
        from torch_npu import _C
    except ImportError as error:
        old = any(f"version `{name}_" in str(error) for name in ("GLIBCXX", "CXXABI", "GLIBC"))
        raise ImportError(f"{error}\n{_OLD_SYSTEM if old else _other_library(folder) or _reinstall(folder)}") from error
    if getattr(_C, "version", None) != version:
        raise ImportError(_reinstall(folder))


def _is_mixed(folder: str) -> bool:
    """Whether files of the official package lie among ours, or both packages are recorded as installed here."""
    if os.path.exists(os.path.join(folder, "_op_plugin_docs.py")):
        return True
    records = [name for name in os.listdir(os.path.dirname(folder)) if name.startswith("torch_npu-") and name.endswith(".dist-info")]
    return len(records) > 1


def _other_library(folder: str) -> str | None:
    """Why the extension found a libtorch_npu.so that is not ours, if it did."""
    for entry in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        library = os.path.join(entry, "libtorch_npu.so")
        ours = os.path.join(folder, "lib", "libtorch_npu.so")
        if entry and os.path.exists(library) and not os.path.samefile(library, ours):
            return f"LD_LIBRARY_PATH leads to another package's {library}; remove {entry} from LD_LIBRARY_PATH"
    return None


_OLD_SYSTEM = (
    "The C++ library of this system is older than the compiler that built torch_npu; cure: set LD_LIBRARY_PATH to the folder of a "
    "newer libstdc++.so.6, or build the wheel on this system: bash ci/build.sh"
)


def _reinstall(folder: str) -> str:
    return (
        f"The files in {folder} do not belong together: another release, or another package named torch_npu (the official one), is "
        f"mixed into them; run: pip uninstall -y torch_npu; pip uninstall -y torch_npu; rm -rf {folder} "
        "and install the wheel you want again"
    )


def _is_built(folder: str) -> bool:
    return any(name.startswith("_C.") and name.endswith(".so") for name in os.listdir(folder))


def _built_elsewhere(source: str) -> str:
    """The installed package, when Python found the source folder first because the user stands in it."""
    for entry in sys.path:
        folder = os.path.join(entry or os.curdir, "torch_npu")
        if os.path.isdir(folder) and _is_built(folder):
            return os.path.abspath(folder)
    raise ImportError(
        f"{source} is the source folder of torch_npu and no built package was found; "
        "cure: bash ci/build.sh && pip install dist/torch_npu-*.whl"
    )
