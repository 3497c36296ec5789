"""ci/build.sh: every missing need ends in exit 1 with one sentence and its cure, and the next run goes through."""

import re
import subprocess
import sys

import pytest

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


def assert_refused(result, *parts):
    assert result.returncode == 1
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("build: ") and "; cure: " in lines[0]
    for part in parts:
        assert part in lines[0]


@pytest.mark.parametrize("arguments", [[], [f"--python={VERSION}"]])
def test_complete_machine_builds_a_wheel(checkout, machine, arguments):
    result = machine.build(checkout, *arguments)
    assert result.returncode == 0, result.stderr
    assert "built dist/torch_npu-2.13.0-stub.whl" in result.stdout


def test_shallow_clone_builds(root, machine, tmp_path):
    if not (root / ".git").exists():
        pytest.skip("the sources are no git checkout")
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", f"file://{root}", clone], check=True, capture_output=True)
    assert machine.build(clone, f"--python={VERSION}").returncode == 0
    assert (clone / "dist/torch_npu-2.13.0-stub.whl").exists()


def test_requirements_are_those_of_the_build_and_nothing_that_python_has_itself(root):
    lines = [line for line in (root / "requirements.txt").read_text().splitlines() if not line.startswith("#")]
    build = re.search(r"requires = \[(.*?)\]", (root / "pyproject.toml").read_text()).group(1)
    assert sorted(lines) == sorted(re.findall(r'"([^"]+)"', build))
    names = {re.match(r"[\w-]+", line).group() for line in lines}
    assert not names & sys.stdlib_module_names  # a package named typing breaks Python


@pytest.mark.slow
def test_requirements_can_be_installed(root):
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--quiet", "-r", str(root / "requirements.txt")]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if "NewConnectionError" in process.stderr or "Temporary failure" in process.stderr:
        pytest.skip("the package index cannot be reached")
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize("argument", ["--pyton=3.11", "clean", "--python", "-x"])
def test_unknown_argument_is_refused(checkout, machine, argument):
    assert_refused(machine.build(checkout, argument), f"unknown argument '{argument}'", "bash ci/build.sh")


def test_bad_python_version_is_refused(checkout, machine):
    assert_refused(machine.build(checkout, "--python=latest"), "'latest' is not a Python version")


def test_python_that_is_not_there_is_named(checkout, machine):
    assert_refused(machine.build(checkout, "--python=3.99"), "python3.99 is not on PATH", "apt-get install python3.99")


@pytest.mark.parametrize("module, package", [
    ("setuptools", "setuptools"), ("wheel", "wheel"), ("yaml", "pyyaml"), ("typing_extensions", "typing_extensions"),
    ("torch", "torch==2.13.0"),
])
def test_missing_module_is_cured_by_pip(checkout, machine, module, package):
    machine.remove(module)
    assert_refused(machine.build(checkout), f"has no {'torch' if module == 'torch' else 'module ' + module}",
                   f"-m pip install {package}")
    if module == "torch":
        machine.torch("2.13.0")
    elif module == "setuptools":
        return  # the stub is more than an empty module
    else:
        machine.module(module, "")
    assert machine.build(checkout).returncode == 0


def test_other_torch_is_refused(checkout, machine):
    machine.torch("2.12.1")
    assert_refused(machine.build(checkout), "torch 2.12.1 is installed", "pip install torch==2.13.0")


def test_missing_compiler(checkout, machine):
    machine.remove("c++")
    assert_refused(machine.build(checkout), "no C++ compiler", "apt-get install g++")
    machine.compiler("13.3.0")
    assert machine.build(checkout).returncode == 0


def test_old_compiler(checkout, machine):
    machine.compiler("7.3.0")
    assert_refused(machine.build(checkout), "g++ 7.3 is too old", "CXX=")


def test_named_compiler_that_does_not_run(checkout, machine):
    assert_refused(machine.build(checkout, CXX="no-such-compiler"), "no-such-compiler does not run")


def test_missing_cmake(checkout, machine):
    machine.remove("cmake")
    assert_refused(machine.build(checkout), "cmake is missing", "-m pip install cmake")
    machine.cmake("3.31.0")
    assert machine.build(checkout).returncode == 0


def test_old_cmake(checkout, machine):
    machine.cmake("3.12.4")
    assert_refused(machine.build(checkout), "cmake 3.12 is too old, 3.18 is needed")


def test_cxx11_abi_unlike_torch_is_refused(checkout, machine):
    assert_refused(machine.build(checkout, _GLIBCXX_USE_CXX11_ABI="0"), "torch was built with 1",
                   "export _GLIBCXX_USE_CXX11_ABI=1")
    assert machine.build(checkout, _GLIBCXX_USE_CXX11_ABI="1").returncode == 0


def test_abi_version_must_be_a_number(checkout, machine):
    assert_refused(machine.build(checkout, _ABI_VERSION="new"), "_ABI_VERSION=new is not a number")
