"""softnpu beside this project's torch_npu, which brings the same libraries: torch_npu uses its own. And the plugin with a real client."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from softnpu import place

pytestmark = pytest.mark.slow

OWN = """
import torch, torch_npu
assert torch.ones(2).npu().sum().item() == 2
print(*sorted({line.split()[-1] for line in open("/proc/self/maps") if line.rstrip().endswith(("libsoftnpu.so", "libopapi.so"))}))
"""


@pytest.fixture
def installed():
    torch_npu = pytest.importorskip("torch_npu")
    return Path(torch_npu.__path__[0])


def test_torch_npu_uses_its_own_libraries(softnpu, installed, tmp_path):
    """Also where LD_LIBRARY_PATH leads to another softnpu, as `softnpu run` makes it."""
    other = tmp_path / "another/lib64"
    shutil.copytree(place.library_folder(), other)
    done = subprocess.run([sys.executable, "-c", OWN], cwd=tmp_path, capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": str(installed.parent), "LD_LIBRARY_PATH": str(other),
                               "ASCEND_HOME_PATH": str(other.parent), "TORCH_NPU_RUNTIME": "soft"})
    assert done.returncode == 0, done.stderr
    folders = {Path(path).parent.resolve() for path in done.stdout.split()}
    assert folders == {(installed / "softnpu/lib64").resolve()}


TESTS = """
import pytest, torch
@pytest.mark.npu(count=2)
def test_sum():
    assert torch.ones(3, device="npu:1").sum().item() == 3
@pytest.mark.npu(count=4)
def test_more_cards(): pass
@pytest.mark.softnpu_only
def test_here(): torch.ones(2, dtype=torch.bfloat16).npu().exp().cpu()
@pytest.mark.cann_only
def test_there(): assert 0
@pytest.mark.npu
def test_strict():
    with pytest.raises(NotImplementedError, match="SOFTNPU_STRICT=1"):
        torch.ones(2, dtype=torch.float64).npu().exp()
"""


def test_the_plugin_with_a_real_client(installed, tmp_path):
    (tmp_path / "test_it.py").write_text(TESTS)
    paths = [str(Path(place.__file__).parents[1]), str(installed.parent)]
    command = [sys.executable, "-m", "pytest", "-p", "softnpu.pytest_plugin", "-rs", "--softnpu-cards", "2", "--softnpu-strict",
               "--npu-require", "--npu-forbid-fallback", "--softnpu-private", "--npu-coverage", "--deselect", "test_it.py::test_more_cards"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "SOFTNPU_"))}
    done = subprocess.run(command, cwd=tmp_path, env={**environment, "PYTHONPATH": os.pathsep.join(paths)}, capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed, 1 skipped, 1 deselected" in done.stdout and "cann_only: this is softnpu" in done.stdout
    assert "aclnnReduceSum" in done.stdout and "aclnnExp" in done.stdout and "bfloat16" in done.stdout
