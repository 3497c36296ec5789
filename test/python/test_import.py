"""`import torch_npu`: silent, quick, from anywhere, and one sentence when it cannot work."""

import os
import shutil
import sys

import pytest

import torch_npu

PACKAGE = torch_npu.__path__[0]
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_prints_nothing_with_warnings_as_errors(run):
    process = run("import torch, torch_npu", "-W", "error")
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")


@pytest.mark.parametrize("order", ["import torch, torch_npu", "import torch_npu, torch", "import torch_npu"])
def test_any_order(run, order):
    process = run(order + "; import torch; assert torch.ones(2, device='npu').sum().item() == 2", "-W", "error")
    assert process.returncode == 0, process.stderr


def test_needs_no_optional_module(run):
    code = """
import sys
for name in ("_lzma", "lzma", "yaml", "te", "topi", "attr", "decorator", "psutil", "scipy", "numpy", "pandas"):
    sys.modules[name] = None
import torch, torch_npu
assert torch.ones(2, device="npu").add(1).tolist() == [2, 2]
"""
    process = run(code, "-W", "ignore:Failed to initialize NumPy")
    assert process.returncode == 0, process.stderr
    assert process.stdout == ""


def test_touches_no_device_and_loads_no_runtime(run):
    code = """
import torch, torch_npu
libraries = open("/proc/self/maps").read()
assert "libtorch_npu" in libraries
assert "libsoftnpu" not in libraries and "libascendcl" not in libraries and "libopapi" not in libraries
assert not torch.npu.is_initialized()
"""
    process = run(code)
    assert process.returncode == 0, process.stderr


def test_assigns_only_what_has_no_hook(run):
    code = """
import os; os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
import torch, types
def attributes():
    found = {}
    for module in [m for name, m in sys.modules.items() if name.split(".")[0] == "torch" and isinstance(m, types.ModuleType)]:
        for name, value in vars(module).items():
            found[module.__name__, name] = value
            if isinstance(value, type) and value.__module__.split(".")[0] == "torch":
                found.update({(value.__module__ + "." + value.__qualname__, n): v for n, v in vars(value).items()})
    return found
import sys
before = attributes()
import torch_npu
changed = {key for key, value in attributes().items() if key in before and before[key] is not value}
for key in sorted(changed): print(*key)
"""
    process = run(code)
    assert process.returncode == 0, process.stderr
    changed = [line for line in process.stdout.splitlines() if not line.split()[-1].startswith("_abc")]
    ours = {"torch.Tensor __dlpack_device__", "torch._tensor.Tensor __dlpack_device__",
            "torch.Tensor __dlpack__", "torch._tensor.Tensor __dlpack__",
            "torch.nn.parallel.data_parallel.DataParallel __init__",
            "torch.distributed.distributed_c10d.BackendConfig __init__",
            "torch._tensor_str get_summarized_data", "torch._tensor_str._Formatter __init__",
            "torch.amp.grad_scaler.GradScaler unscale_", "torch.cuda _lazy_init", "torch.multiprocessing.reductions reduce_tensor",
            "torch.nn.parallel.distributed.DistributedDataParallel _check_comm_hook"}  # fmt: skip
    registration = {"_privateuse1_backend_name", "__repr__", "__str__", "name", "_extra_dispatch_table", "next_id"}  # the last: of hooks
    assert {line for line in changed if line.split()[-1] not in registration} <= ours, changed


def test_from_inside_the_source_folder(run):
    if not os.path.isdir(os.path.join(SOURCE, "torch_npu")):
        pytest.skip("the source folder is not here")
    process = run("import torch, torch_npu; print(torch.ones(2, device='npu').sum().item())", cwd=SOURCE)
    assert process.stdout == "2.0\n", process.stderr


def copy_of_the_package(folder):
    shutil.copytree(PACKAGE, folder / "torch_npu", ignore=shutil.ignore_patterns("__pycache__"))
    return folder / "torch_npu"


def test_source_folder_without_a_build_says_how_to_build(run, tmp_path):
    package = copy_of_the_package(tmp_path)
    for library in package.glob("_C.*"):
        library.unlink()
    code = f"import sys; sys.path[:] = [p for p in sys.path if p != {os.path.dirname(PACKAGE)!r}]; import torch_npu"
    process = run(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    if "site-packages" not in PACKAGE:
        assert process.stderr.splitlines()[-1].startswith("ImportError: ")
        assert "ci/build.sh" in process.stderr


def test_wrong_torch_is_one_sentence(run):
    code = "import torch; torch.__version__ = '2.12.1+cpu'; import torch_npu"
    process = run(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    last = process.stderr.splitlines()[-1]
    assert last.startswith("ImportError: torch_npu 2.13.0+oss needs torch 2.13 but found torch 2.12.1+cpu; cure: pip install")


def test_mixed_files_are_one_sentence(run, tmp_path):
    package = copy_of_the_package(tmp_path)
    next(package.glob("_C.*.so")).write_text("the extension module of somebody else")
    process = run("import torch_npu", PYTHONPATH=str(tmp_path), TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert "another package named torch_npu" in process.stderr.splitlines()[-1]
    assert f"run: pip uninstall -y torch_npu; pip uninstall -y torch_npu; rm -rf {package} " in process.stderr


def test_files_left_by_the_official_package_are_noticed_before_they_are_loaded(run, tmp_path):
    package = copy_of_the_package(tmp_path)
    (package / "_op_plugin_docs.py").touch()
    process = run("import torch_npu", PYTHONPATH=str(tmp_path), TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert f"rm -rf {package} " in process.stderr.splitlines()[-1]


def test_two_records_of_an_installation_are_noticed(run, tmp_path):
    package = copy_of_the_package(tmp_path)
    for version in ("2.13.0", "2.13.0+oss"):
        (tmp_path / f"torch_npu-{version}.dist-info").mkdir()
    process = run("import torch_npu", PYTHONPATH=str(tmp_path), TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert f"rm -rf {package} " in process.stderr.splitlines()[-1]


def test_records_of_other_packages_are_nothing_to_notice(run, tmp_path):
    copy_of_the_package(tmp_path)
    for name in ("torch_npu-2.13.0+oss.dist-info", "torch-2.13.0.dist-info", "torch_npu-tools"):
        (tmp_path / name).mkdir()
    process = run("import torch_npu; print(torch_npu.__file__)", PYTHONPATH=str(tmp_path), TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert str(tmp_path) in process.stdout, process.stderr


def test_another_library_on_the_search_path_is_named(run, tmp_path):
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "libtorch_npu.so").write_text("the library of somebody else")
    process = run("import torch_npu", LD_LIBRARY_PATH=str(folder), TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert process.stderr.splitlines()[-1].endswith(f"{folder}/libtorch_npu.so; remove {folder} from LD_LIBRARY_PATH")


def test_mixed_files_do_not_stop_torch(run, tmp_path):
    """Through the entry point torch.backends: torch works, and torch.npu names the command, also when a setting is assigned."""
    package = copy_of_the_package(tmp_path)
    (package / "_op_plugin_docs.py").touch()
    info = tmp_path / "torch_npu-2.13.0+oss.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_npu\nVersion: 2.13.0+oss\n")
    (info / "entry_points.txt").write_text("[torch.backends]\ntorch_npu = torch_npu:_autoload\n")
    code = """
import torch
assert torch.ones(2).sum().item() == 2 and not torch.npu.is_available()
for use in ("torch.npu.set_compile_mode(jit_compile=False)", "torch.npu.matmul.allow_hf32 = True", "torch.npu.config.nothing"):
    try:
        exec(use)
    except RuntimeError as error:
        print("rm -rf" in str(error))
"""
    process = run(code, "-S", "-W", "ignore", PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path]))
    assert process.stdout.split() == ["True"] * 3, process.stderr


def test_dir_lists_what_is_loaded_on_demand(check):
    code = """
names = dir(torch_npu)
assert {"npu", "npu_fusion_attention", "npu_rms_norm", "utils", "distributed", "Format", "__version__", "is_softnpu"} <= set(names)
assert all(getattr(torch_npu, name) is not None for name in names if not name.startswith("_")), names
print(len([name for name in names if name.startswith("npu_")]) > 100)
"""
    assert check(code) == "True"


def test_version_is_understood_by_those_who_compare_it(check):
    """The ways in which transformers, accelerate, mmengine and others read versions."""
    code = """
import importlib.metadata, re
from packaging.version import Version, parse
version = torch_npu.__version__
assert parse(version) >= parse("2.13.0") and parse(version) < parse("2.13.1") and Version(version).release == (2, 13, 0)
assert Version(Version(version).base_version) == Version("2.13.0") and not Version(version).is_prerelease
assert version.split(".")[:2] == ["2", "13"] and version.split("+")[0] == "2.13.0" and version.startswith("2.13.0")
assert [int(part) for part in re.match(r"(\\d+)\\.(\\d+)\\.(\\d+)", version).groups()] == [2, 13, 0]
from packaging.specifiers import SpecifierSet
assert version in SpecifierSet("==2.13.0") and version in SpecifierSet(">=2.1,<2.14") and Version(version) != Version("2.13.0")
"""
    check(code)


def test_old_libstdcxx_is_explained(run, tmp_path):
    package = copy_of_the_package(tmp_path)
    next(package.glob("_C.*.so")).unlink()
    (package / "_C.none.so").touch()
    (package / "_C.py").write_text("raise ImportError(\"libstdc++.so.6: version `GLIBCXX_3.4.30' not found\")\n")
    process = run("import torch_npu", PYTHONPATH=str(tmp_path), TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert "cure: set LD_LIBRARY_PATH to the folder of a newer libstdc++.so.6" in process.stderr.splitlines()[-1]


def test_another_backend_in_our_place_is_one_sentence(run):
    code = "import torch; torch.utils.rename_privateuse1_backend('other'); import torch_npu"
    process = run(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert "already registered the device 'other'" in process.stderr.splitlines()[-1]


def test_version_and_provider(check):
    code = "print(torch_npu.__version__, torch_npu.is_softnpu(), type(torch.version.cann).__name__, hasattr(torch.version, 'nix'))"
    assert check(code, TORCH_NPU_RUNTIME="soft") == "2.13.0+oss True str False"


def test_submodules_have_one_identity(check):
    code = """
import torch.npu, torch.npu.amp, torch.npu.random
from torch.npu.streams import Stream
from torch.npu import memory
assert torch.npu is torch_npu.npu and torch.npu.amp is torch_npu.npu.amp and Stream is torch.npu.Stream
assert torch.get_device_module("npu") is torch.npu
assert torch_npu.utils.fallback_counts() == {}
"""
    check(code)


@pytest.mark.slow
def test_import_time(run):
    """Time of our import against torch's own, the best of several processes; the budget is 0.3."""
    code = """
from time import perf_counter as now
start = now(); import torch; middle = now(); import torch_npu
print(middle - start, now() - middle)
"""
    runs = [run(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0").stdout.split() for _ in range(5)]
    torchs, ours = (min(map(float, column)) for column in zip(*runs, strict=True))
    assert ours <= 0.3 * torchs, f"torch {torchs:.2f} s, torch_npu {ours:.2f} s"
