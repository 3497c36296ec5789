"""Packages torch_npu: CMake builds everything below build/, `cmake --install` lays out the package, setuptools zips it.

ci/build.sh is the usual way in. `pip install -e . --no-build-isolation` links the build tree into the checkout instead,
so that a later `cmake --build build` is all a contributor has to run.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
BUILD = ROOT / "build"
sys.path.insert(0, str(ROOT / "ci"))
import preflight  # noqa: E402

CMAKE = (ROOT / "CMakeLists.txt").read_text()
RELEASE = re.search(r"project\(torch_npu VERSION (\S+)", CMAKE).group(1)
VERSION = re.search(r'set\(NPU_VERSION "(.+)"\)', CMAKE).group(1).replace("${PROJECT_VERSION}", RELEASE)

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


class CMakeBuild(build_ext):
    def run(self):
        preflight.require()
        try:
            cmake = configure(unity=not self.inplace)  # a contributor compiles one file many times
            subprocess.run([cmake, "--build", str(BUILD), "--parallel", str(jobs())], check=True)
            if self.inplace:
                self.link_into_checkout()
            else:
                package = Path(self.build_lib).resolve()
                shutil.rmtree(package / "torch_npu", ignore_errors=True)
                subprocess.run([cmake, "--install", str(BUILD), "--prefix", str(package), "--strip"],
                               stdout=subprocess.DEVNULL, check=True)
        except subprocess.CalledProcessError as error:
            text = f"setup.py: {error.cmd[0]} failed, see the lines above; a later run continues from here"
            raise SystemExit(text) from None

    def link_into_checkout(self):
        built = BUILD / "torch_npu"
        links = {entry.name: entry for entry in built.iterdir()} | {"include": ROOT / "abi"}
        for name, target in links.items():
            link = ROOT / "torch_npu" / name
            if link.is_symlink():
                link.unlink()
            link.symlink_to(os.path.relpath(target, link.parent))


setup(
    name="torch_npu",
    version=VERSION,
    description="PyTorch on Ascend NPUs, with an embedded software NPU for machines that have none",
    long_description=(ROOT / "README.md").read_text(),
    long_description_content_type="text/markdown",
    author="the torch_npu authors",
    license="BSD-3-Clause",
    python_requires=">=3.10",
    install_requires=[f"torch=={RELEASE}"],
    packages=find_packages(include=["torch_npu", "torch_npu.*"]),
    ext_modules=[Extension("torch_npu._C", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
    extras_require={"migrate": ["libcst>=1.1"]},
    entry_points={
        "torch.backends": ["torch_npu = torch_npu:_autoload"],
        "torch_dynamo_backends": ["npu = torch_npu.dynamo.backend:npu", "npugraphs = torch_npu.dynamo.backend:npugraphs",
                                  "npugraph_ex = torch_npu.dynamo.backend:npugraph_ex"],
        "console_scripts": [
            "ms_fmk_transplt.py = torch_npu.migrate.ms_fmk_transplt:main",
            "torch_npu_run = torch_npu.distributed.run:_main",
            "npu-smi = torch_npu.smi:main",
        ],
    },
    options={"build": {"build_base": "build/setuptools"}, "egg_info": {"egg_base": "build"}},
    zip_safe=False,
)
