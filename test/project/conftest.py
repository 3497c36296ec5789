"""Fixtures for the tests of the build scripts: a checkout in a path with a space, and a Python made of stubs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What the scripts call besides python, cmake and the compiler.
SHELL_TOOLS = ["bash", "env", "dirname", "sed", "ls", "head", "du", "cut", "uname", "ldd"]


def write_program(path, body):
    path.write_text(body)
    path.chmod(0o755)


@pytest.fixture
def root():
    return ROOT


@pytest.fixture
def checkout(tmp_path):
    """The files that ci/build.sh and setup.py read, without .git."""
    target = tmp_path / "a checkout"
    shutil.copytree(ROOT / "ci", target / "ci", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, target)
    (target / "torch_npu").mkdir()
    (target / "torch_npu/__init__.py").write_text("")
    return target


class Machine:
    """A PATH with a Python, a compiler and cmake, all of them stubs that a test may remove or make older."""

    def __init__(self, folder):
        self.bin = folder / "bin"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.modules = folder / "lib" / version / "site-packages"
        for tool in SHELL_TOOLS:
            found = shutil.which(tool)
            if found:
                (self.bin / tool).symlink_to(found)
        self.module("setuptools", "")
        (self.modules / "setuptools/build_meta.py").write_text(
            "import os\n"
            "def build_wheel(folder, settings):\n"
            "    os.makedirs(folder, exist_ok=True)\n"
            "    open(folder + '/torch_npu-2.13.0-stub.whl', 'w').close()\n"
        )
        self.module("wheel", "")
        self.module("yaml", "")
        self.module("typing_extensions", "")
        self.torch("2.13.0+cpu")
        self.compiler("12.2.0")
        self.cmake("3.25.1")
        write_program(self.bin / "ninja", "#!/bin/sh\n")

    def module(self, name, text):
        (self.modules / name).mkdir(exist_ok=True)
        (self.modules / name / "__init__.py").write_text(text)

    def torch(self, version):
        self.module("torch", "class _C:\n    _GLIBCXX_USE_CXX11_ABI = True\n")
        (self.modules / "torch/version.py").write_text(f"__version__ = '{version}'\n")

    def compiler(self, version):
        write_program(self.bin / "c++", f"#!/bin/sh\necho {version}\n")

    def cmake(self, version):
        write_program(self.bin / "cmake", f"#!/bin/sh\necho cmake version {version}\n")

    def remove(self, name):
        for path in (self.bin / name, self.modules / name):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def build(self, checkout, *arguments, **variables):
        environment = {key: value for key, value in os.environ.items()
                       if key not in ("CXX", "PYTHONPATH", "_ABI_VERSION", "_GLIBCXX_USE_CXX11_ABI")}
        environment.update(variables, PATH=str(self.bin))
        return subprocess.run(["bash", checkout / "ci/build.sh", *arguments], env=environment, capture_output=True,
                              text=True, timeout=60)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path / "machine")
