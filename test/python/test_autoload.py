"""`import torch` loads the plugin through its entry point, and never fails because of it."""

import shutil

import pytest

import torch_npu

PACKAGE = torch_npu.__path__[0]


@pytest.fixture
def entry_point(tmp_path):
    """A folder for PYTHONPATH that declares the entry point, as the installed wheel does."""
    info = tmp_path / "site" / "torch_npu-2.13.0+oss.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_npu\nVersion: 2.13.0+oss\n")
    (info / "entry_points.txt").write_text("[torch.backends]\ntorch_npu = torch_npu:_autoload\n")
    return str(tmp_path / "site")


@pytest.fixture
def broken_package(entry_point, tmp_path):
    """The same, with a package whose extension module cannot be loaded."""
    package = tmp_path / "site" / "torch_npu"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    next(package.glob("_C.*.so")).write_text("not a library")
    return entry_point


def test_import_torch_is_enough(run, entry_point):
    code = "import torch; x = torch.randn(2, 2).npu(); y = torch.randn(2, 2).npu(); print(x.mm(y))"
    process = run(code, "-W", "error", PYTHONPATH=entry_point)
    assert process.returncode == 0, process.stderr
    assert process.stdout.strip().endswith("device='npu:0')")


@pytest.mark.parametrize("code", ["import torch_npu", "import torch, torch_npu", "import torch_npu, torch"])
def test_explicit_import_beside_autoload(run, entry_point, code):
    process = run(code + "; import torch; assert torch.npu.is_available()", "-W", "error", PYTHONPATH=entry_point)
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")


def test_declared_twice(run, entry_point, tmp_path):
    shutil.copytree(entry_point, tmp_path / "again")
    process = run("import torch; assert torch.npu.is_available()", PYTHONPATH=f"{entry_point}:{tmp_path / 'again'}")
    assert (process.returncode, process.stderr) == (0, "")


def test_switched_off(run, entry_point):
    code = "import torch; assert not hasattr(torch, 'npu'); import torch_npu; assert torch.npu.is_available()"
    process = run(code, PYTHONPATH=entry_point, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert process.returncode == 0, process.stderr


def test_broken_package_warns_once_and_torch_works(run, broken_package):
    code = """
import torch
import torch_npu
assert not torch.npu.is_available() and torch.npu.device_count() == 0 and not torch.npu.is_initialized()
torch.manual_seed(0); torch.seed()
assert torch.ones(3).sum().item() == 3
import io; torch.load(io.BytesIO(torch.save(torch.ones(1), b := io.BytesIO()) or b.getvalue()), map_location="cpu")
for use in (lambda: torch.ones(1).npu(), lambda: torch.empty(1, device="npu"), lambda: torch.npu.synchronize(),
            lambda: torch.nn.Linear(1, 1).npu()):
    try:
        use()
    except RuntimeError as error:
        assert "torch_npu could not be loaded" in str(error), error
    else:
        raise SystemExit("no error")
"""
    process = run(code, PYTHONPATH=broken_package)
    assert process.returncode == 0, process.stderr
    assert process.stderr.count("RuntimeWarning") == 1
    assert "another package named torch_npu" in process.stderr


def test_broken_package_with_warnings_as_errors(run, broken_package):
    process = run("import torch; print(torch.npu.is_available())", "-W", "error", PYTHONPATH=broken_package)
    assert (process.returncode, process.stdout) == (0, "False\n"), process.stderr


def test_another_backend_in_our_place_leaves_torch_alone(run, entry_point, tmp_path):
    info = tmp_path / "before" / "other-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[torch.backends]\nother = other:load\n")
    (tmp_path / "before" / "other.py").write_text(
        "import torch\ndef load():\n    torch.utils.rename_privateuse1_backend('other')\n"
    )
    code = "import torch; print(torch.ones(2).sum().item(), torch._C._get_privateuse1_backend_name())"
    process = run(code, PYTHONPATH=f"{tmp_path / 'before'}:{entry_point}")
    assert process.stdout == "2.0 other\n", process.stderr
    assert process.stderr.count("already registered the device 'other'") == 1
