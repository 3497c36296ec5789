"""apex/scripts/build.sh: a pure Python wheel, and a clear answer to a wrong argument."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "apex"


@pytest.fixture
def source(tmp_path):
    """A copy of the distribution, so that the checkout stays clean."""
    for path in FOLDER.rglob("*"):
        if path.suffix in (".py", ".sh", ".toml", ".md"):
            target = tmp_path / "apex" / path.relative_to(FOLDER)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    return tmp_path / "apex"


def test_build_leaves_a_wheel(source, tmp_path):
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    python = bin_folder / f"python{version}"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    script = ["bash", str(source / "scripts/build.sh"), f"--python={version}"]
    done = subprocess.run(script, capture_output=True, text=True, env={"PATH": f"{bin_folder}:/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr
    (wheel,) = (source / "dist").glob("apex-0.1+ascend*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "apex/amp/frontend.py" in names and "apex/optimizers/__init__.py" in names
    assert not any(name.endswith(".so") for name in names)


def test_unknown_argument_is_refused(source):
    done = subprocess.run(["bash", str(source / "scripts/build.sh"), "--fast"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "unknown argument --fast" in done.stderr
