"""What a build needs, checked before anything is compiled: exits 1 with one sentence and the command that cures it."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

TORCH = "2.13.0"
MIN_CMAKE = (3, 18)
MIN_GCC = (11, 0)


class Unmet(Exception):
    """A need that is not met: the sentence and the command that cures it."""


def pip_install(what):
    return f"{shlex.quote(sys.executable)} -m pip install {what}"


def find_tool(name):
    """A program on PATH or beside this Python, where pip puts the cmake and ninja packages."""
    return shutil.which(name) or shutil.which(name, path=sysconfig.get_path("scripts"))


def tool_version(tool, *flags):
    try:
        text = subprocess.run([tool, *flags], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.search(r"(\d+)\.(\d+)|^(\d+)$", text, re.MULTILINE)
    return (int(found[1] or found[3]), int(found[2] or 0)) if found else None


def check_python():
    if sys.version_info < (3, 10):  # noqa: UP036 - this file is what an old Python runs
        raise Unmet(f"Python {sys.version.split()[0]} is too old, torch {TORCH} needs 3.10 or newer",
                    "bash ci/build.sh --python=3.11")
    header = Path(sysconfig.get_paths()["include"], "Python.h")
    if not header.exists():
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise Unmet(f"the headers of Python {version} are missing ({header})", f"apt-get install python{version}-dev")


def check_modules():
    for module, package in [("setuptools", "setuptools"), ("wheel", "wheel"), ("yaml", "pyyaml"),
                            ("typing_extensions", "typing_extensions")]:
        if importlib.util.find_spec(module) is None:
            raise Unmet(f"{sys.executable} has no module {module}", pip_install(package))


def torch_folder():
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        raise Unmet(f"{sys.executable} has no torch", pip_install(f"torch=={TORCH}"))
    return spec.submodule_search_locations[0]


def check_torch():
    version = re.search(r"^__version__ = '([^']+)'", Path(torch_folder(), "version.py").read_text(), re.MULTILINE)[1]
    if version.split("+")[0] != TORCH:
        raise Unmet(f"torch {version} is installed, torch {TORCH} is needed", pip_install(f"torch=={TORCH}"))


def check_abi():
    wanted = os.environ.get("_GLIBCXX_USE_CXX11_ABI")
    if wanted is not None:
        program = "import torch; print(int(torch._C._GLIBCXX_USE_CXX11_ABI))"
        built = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                               env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}).stdout.strip()
        if wanted != built:
            raise Unmet(f"_GLIBCXX_USE_CXX11_ABI={wanted}, but torch was built with {built}",
                        f"export _GLIBCXX_USE_CXX11_ABI={built}")
    version = os.environ.get("_ABI_VERSION", "")
    if version and not version.isdigit():
        raise Unmet(f"_ABI_VERSION={version} is not a number", "export _ABI_VERSION=18")


def check_compiler():
    compiler = os.environ.get("CXX", "").split(" ")[0] or shutil.which("c++") or "g++"
    version = tool_version(compiler, "-dumpfullversion", "-dumpversion")
    if version is None:
        raise Unmet(f"no C++ compiler ({compiler} does not run)", "apt-get install g++")
    macros = subprocess.run([compiler, "-dM", "-E", "-x", "c++", "/dev/null"], capture_output=True, text=True).stdout
    if "__clang__" not in macros and version < MIN_GCC:
        raise Unmet(f"g++ {version[0]}.{version[1]} is too old, C++20 needs {MIN_GCC[0]} or newer",
                    "apt-get install g++-12 && export CXX=g++-12")


def check_cmake():
    cmake = find_tool("cmake")
    version = cmake and tool_version(cmake, "--version")
    if not version:
        raise Unmet("cmake is missing", pip_install("cmake"))
    if version < MIN_CMAKE:
        raise Unmet(f"cmake {version[0]}.{version[1]} is too old, {MIN_CMAKE[0]}.{MIN_CMAKE[1]} is needed",
                    pip_install("cmake") + " and put its folder first on PATH")
    if not find_tool("ninja") and not shutil.which("make"):
        raise Unmet("neither ninja nor make is there", pip_install("ninja"))


def require():
    """Returns when everything is there, else exits with the first thing that is not."""
    try:
        for check in (check_python, check_modules, check_torch, check_abi, check_compiler, check_cmake):
            check()
    except Unmet as unmet:
        sentence, cure = unmet.args
        raise SystemExit(f"build: {sentence}; cure: {cure}") from None


if __name__ == "__main__":
    require()
