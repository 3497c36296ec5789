"""Makes a folder that looks like CANN's toolkit to the adapter: softnpu's libraries without the names that CANN does not have.

    python test/cann_like/folder.py FOLDER        prints the environment to run programs with

lib64/ has CANN's libraries. libsoftnpu.so, by which the adapter would know softnpu, is in another folder, and the names softnpu... of
libopapi.so (abi/extension.yaml) are changed, so that nobody finds them.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from pathlib import Path

EXTENSION = r"softnpu(?=[A-Z])"


def hide(library: bytes, name: str) -> tuple[bytes, int]:
    """Changes symbols that begin as the expression `name` says: the loader compares the strings that symbols refer to, so a symbol with
    another one is not found."""
    return re.subn(rb"\0(" + name.encode() + rb")(?=\w*\0)", lambda found: b"\0" + b"x" * len(found[1]), library)


def softnpu() -> Path:
    """The library folder of the installed package."""
    package = importlib.util.find_spec("torch_npu").submodule_search_locations
    for folder in (Path(package[0]) / "softnpu/lib64", Path(package[0]).parent / "build/torch_npu/softnpu/lib64"):
        if (folder / "libsoftnpu.so").exists():
            return folder
    raise SystemExit(f"no softnpu beside {package[0]}: build torch_npu first")


def make(folder: Path, *more: str) -> dict[str, str]:
    """Fills `folder`, without `more` operators; returns the variables that CANN's set_env.sh would set."""
    libraries, elsewhere = folder / "lib64", folder / "driver"
    for place in (libraries, elsewhere):
        place.mkdir(parents=True, exist_ok=True)
    for file in softnpu().glob("*.so"):
        if file.name == "libopapi.so":
            library = file.read_bytes()
            for name in (EXTENSION, *more):
                library, count = hide(library, name)
                if not count:
                    raise SystemExit(f"{file} has no symbol {name}")
            (libraries / file.name).write_bytes(library)
        else:
            shutil.copy(file, elsewhere if file.name == "libsoftnpu.so" else libraries)
    path = ":".join(filter(None, (str(elsewhere), os.environ.get("LD_LIBRARY_PATH"))))
    return {"ASCEND_HOME_PATH": str(folder), "TORCH_NPU_RUNTIME": "cann", "LD_LIBRARY_PATH": path}


if __name__ == "__main__":
    print(*(f"{name}={value}" for name, value in make(Path(sys.argv[1]).resolve()).items()), sep="\n")
