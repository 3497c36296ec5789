"""Packages torch_npu: CMake builds everything below build/, `cmake --install` lays out the package, setuptools zips it.

ci/build.sh is the usual way in. `pip install -e . --no-build-isolation` links the build tree into the checkout instead,
so that a later `cmake --build build` is all a contributor has to run.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

sys.path.insert(0, str(Path(__file__).resolve().parent / "ci"))
import preflight  # noqa: E402
from cmake_build import BUILD, RELEASE, ROOT, VERSION, configure, jobs  # noqa: E402


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
