"""The CMake build that both distributions of this repository are made of: torch_npu (setup.py) and softnpu (softnpu/python/setup.py)."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import preflight

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"

CMAKE = (ROOT / "CMakeLists.txt").read_text()
RELEASE = re.search(r"project\(torch_npu VERSION (\S+)", CMAKE)[1]  # type: ignore[index]
VERSION = re.search(r'set\(NPU_VERSION "(.+)"\)', CMAKE)[1].replace("${PROJECT_VERSION}", RELEASE)  # type: ignore[index]

BUILD.mkdir(exist_ok=True)


def jobs():
    """As many compilers as there are processors, and memory for them (about 1.5 GB each); MAX_JOBS overrides."""
    if "MAX_JOBS" in os.environ:
        return int(os.environ["MAX_JOBS"])
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(len(os.sched_getaffinity(0)), memory // (3 << 29)))


def configure(unity):
    cmake = preflight.find_tool("cmake")
    ninja = preflight.find_tool("ninja")
    options = [
        "-DCMAKE_BUILD_TYPE=Release",
        f"-DPython_EXECUTABLE={sys.executable}",
        f"-DNPU_ABI_VERSION={os.environ.get('_ABI_VERSION', '')}",
        f"-DNPU_WERROR={os.environ.get('NPU_WERROR', 'OFF')}",
        f"-DNPU_UNITY={'ON' if unity else 'OFF'}",
    ]
    options += ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"] if ninja else ["-G", "Unix Makefiles"]
    ccache = shutil.which("ccache")
    if ccache and "CMAKE_CXX_COMPILER_LAUNCHER" not in os.environ:
        # Without this ccache does not keep what was compiled with precompiled headers.
        options.append(f"-DCMAKE_CXX_COMPILER_LAUNCHER=env;CCACHE_SLOPPINESS=pch_defines,time_macros;{ccache}")

    # A cache made for another checkout, Python, torch or compiler cannot be reused; objects that still fit are.
    stamp, cache = BUILD / "configured_for.txt", BUILD / "CMakeCache.txt"
    wanted = "\n".join([str(ROOT), preflight.torch_folder(), os.environ.get("CXX", ""), *options])
    if not stamp.exists() or stamp.read_text() != wanted:
        cache.unlink(missing_ok=True)
        shutil.rmtree(BUILD / "CMakeFiles", ignore_errors=True)
        options.append("-DNPU_TESTS=OFF")
    try:
        subprocess.run([cmake, "-S", str(ROOT), "-B", str(BUILD), *options], check=True)
    except subprocess.CalledProcessError:
        cache.unlink(missing_ok=True)
        raise
    stamp.write_text(wanted)
    return cmake
