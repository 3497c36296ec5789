"""Training scripts that others wrote for CUDA, byte for byte from PyPI: unmodified under transfer_to_npu, and converted."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("migration_packages", Path(__file__).parent / "packages.py")
packages = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = packages
_spec.loader.exec_module(packages)


@pytest.fixture(scope="session")
def requirements(tmp_path_factory):
    """A folder with what the scripts import; nothing is installed into the environment of the tests."""
    folder = tmp_path_factory.mktemp("requirements")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), *packages.REQUIREMENTS]
    process = subprocess.run(command, capture_output=True, text=True, timeout=500)
    if process.returncode != 0:
        pytest.skip(f"PyPI cannot be reached: {process.stderr[-200:]}")
    return folder


@pytest.mark.sweep
@pytest.mark.parametrize("script", packages.SCRIPTS, ids=lambda script: f"{script.project}-{Path(script.script).name}")
def test_script_of_a_package(script, train, convert, requirements, tmp_path):
    try:
        archive = packages.fetch(script, tmp_path)
    except packages.Unreachable as error:
        pytest.skip(f"PyPI cannot be reached: {error}")
    source = archive / script.script
    losses = []
    for is_converted in (False, True):
        path = source
        if is_converted:
            path = source.with_name(f"{source.stem}_npu.py")
            shutil.copy(convert(source), path)
        folder = tmp_path / f"run{int(is_converted)}"
        folder.mkdir()
        packages.write_digits(folder, script.data)
        losses.append(train(path, *script.arguments.split(), transfer=not is_converted, folder=folder, package=True,
                            path=[requirements, archive / script.sources], ASCEND_RT_VISIBLE_DEVICES="0"))  # fmt: skip
    assert len(losses[0]) > 1 and losses[0] == losses[1]
