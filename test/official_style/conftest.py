"""Tests as users of the official plugin write them: short files that run by themselves.

test_hccl_all_reduce.py starts processes, which have to find it: test_as_script.py runs it.
"""

import subprocess
import sys
from pathlib import Path

import pytest

collect_ignore = ["test_hccl_all_reduce.py"]


@pytest.fixture
def run_script():
    def run(name: str) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, Path(__file__).parent / name], capture_output=True, text=True, timeout=120, check=False)

    return run
