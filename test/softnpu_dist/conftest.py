"""Tests of the distribution softnpu (softnpu/python): on its files in the checkout, with the libraries of the build or of an installed
torch_npu. Few of them need torch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = str(ROOT / "softnpu/python")
sys.path.insert(0, PACKAGE)

from softnpu import place  # noqa: E402

try:
    place.toolkit()
    MISSING = ""
except FileNotFoundError as error:
    MISSING = str(error)


def pytest_collection_modifyitems(items):
    for item in items:
        if MISSING and Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=MISSING))


@pytest.fixture
def root():
    return ROOT


@pytest.fixture
def softnpu(tmp_path):
    """softnpu(*arguments, **environment) -> CompletedProcess of the command, in an empty folder; None takes a variable away."""

    def run(*arguments, cwd=tmp_path, **variables):
        changed = {**os.environ, "PYTHONPATH": PACKAGE, "TMPDIR": str(tmp_path), **variables}
        environment = {name: value for name, value in changed.items() if value is not None}
        command = [sys.executable, "-m", "softnpu", *map(str, arguments)]
        return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)

    return run
