"""setup.py: what it asks of CMake, and that a failed configuration does not spoil the next one."""

import os
import subprocess
import sys

import pytest

FAKE_CMAKE = """#!/usr/bin/env python3
import os, pathlib, sys
here = pathlib.Path(__file__).parent
if "--version" in sys.argv:
    print("cmake version 3.25.1")
    sys.exit()
with open(here / "calls.txt", "a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
if "-B" in sys.argv:
    cache = pathlib.Path(sys.argv[sys.argv.index("-B") + 1], "CMakeCache.txt")
    if cache.exists():
        calls = open(here / "calls.txt", "a").write("with a cache\\n")
    cache.write_text("")
    sys.exit((here / "fail").exists())
if "--install" in sys.argv:
    package = pathlib.Path(sys.argv[sys.argv.index("--prefix") + 1], "torch_npu")
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text("")
"""


@pytest.fixture
def build(checkout, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "cmake").write_text(FAKE_CMAKE)
    (tools / "cmake").chmod(0o755)

    def run(**variables):
        (tools / "calls.txt").unlink(missing_ok=True)
        environment = {**os.environ, **variables, "PATH": f"{tools}:{os.environ['PATH']}"}
        result = subprocess.run(
            [sys.executable, "-c", "from setuptools.build_meta import build_wheel; print(build_wheel('dist'))"],
            cwd=checkout, env=environment, capture_output=True, text=True, timeout=120)
        return result, (tools / "calls.txt").read_text()

    run.tools = tools
    return run


def test_wheel_is_named_after_python_and_platform(build):
    result, calls = build()
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert result.stdout.splitlines()[-1] == f"torch_npu-2.13.0+oss-{tag}-{tag}-linux_{os.uname().machine}.whl"
    assert f"-DPython_EXECUTABLE={sys.executable}" in calls
    assert "--strip" in calls


def test_abi_version_reaches_the_compiler(build):
    _, calls = build(_ABI_VERSION="18")
    assert "-DNPU_ABI_VERSION=18" in calls


def test_second_build_keeps_the_cache(build):
    build()
    _, calls = build()
    assert "with a cache" in calls


def test_other_options_start_from_an_empty_cache(build):
    build()
    _, calls = build(_ABI_VERSION="18")
    assert "with a cache" not in calls


def test_failed_configuration_leaves_no_cache(build):
    (build.tools / "fail").touch()
    result, _ = build()
    assert result.returncode != 0 and "a later run continues from here" in result.stderr
    (build.tools / "fail").unlink()
    result, calls = build()
    assert result.returncode == 0, result.stderr
    assert "with a cache" not in calls


def test_max_jobs_limits_the_compilers(build):
    _, calls = build(MAX_JOBS="1")
    assert "--parallel 1\n" in calls
