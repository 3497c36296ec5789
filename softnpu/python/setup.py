"""Packages softnpu: the Python files beside this one, and the libraries of the CMake build that torch_npu's wheel is made of.

`bash ci/build.sh --softnpu` is the usual way in. A build folder that is there is brought up to date, however it was configured. Nothing in
the wheel is compiled against Python, so one wheel fits all versions; libopapi.so needs the release of torch that it was built with.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "ci"))
import preflight  # noqa: E402
from cmake_build import BUILD, RELEASE, VERSION, configure, jobs  # noqa: E402


class WithLibraries(build_py):
    def run(self):
        shutil.rmtree(Path(self.build_lib, "softnpu"), ignore_errors=True)
        super().run()
        if self.editable_mode:
            return
        preflight.require()
        try:
            configured = (BUILD / "CMakeCache.txt").exists()
            cmake = preflight.find_tool("cmake") if configured else configure(unity=True)
            subprocess.run([cmake, "--build", str(BUILD), "--target", "softnpu_distribution", "--parallel", str(jobs())], check=True)
            prefix = str(Path(self.build_lib).resolve())
            subprocess.run([cmake, "--install", str(BUILD), "--component", "softnpu", "--prefix", prefix, "--strip"],
                           stdout=subprocess.DEVNULL, check=True)
        except subprocess.CalledProcessError as error:
            text = f"setup.py: {error.cmd[0]} failed, see the lines above; a later run continues from here"
            raise SystemExit(text) from None


class WithPlatform(Distribution):
    def has_ext_modules(self):  # installed where torch is
        return True


class Wheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setup(
    name="softnpu",
    version=VERSION,
    description="A software NPU behind CANN's library names: run and test NPU code without an NPU",
    long_description=(HERE / "README.md").read_text(),
    long_description_content_type="text/markdown",
    author="the torch_npu authors",
    license="BSD-3-Clause",
    python_requires=">=3.10",
    install_requires=[f"torch=={RELEASE}"],
    packages=["softnpu"],
    package_data={"softnpu": ["py.typed"]},
    distclass=WithPlatform,
    cmdclass={"build_py": WithLibraries, "bdist_wheel": Wheel},
    entry_points={
        "console_scripts": ["softnpu = softnpu.cli:main"],
        "pytest11": ["softnpu = softnpu.pytest_plugin"],
    },
    options={"build": {"build_base": str(BUILD / "setuptools-softnpu")}, "egg_info": {"egg_base": str(BUILD)}},
    zip_safe=False,
)
