"""The wheel in dist/: what is in it, and that it comes and goes without a trace. Build it first: bash ci/build.sh."""

import os
import re
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"
WHEEL = Path(__file__).resolve().parents[2] / f"dist/torch_npu-2.13.0+oss-{TAG}-{TAG}-linux_{os.uname().machine}.whl"
TORCH = str(Path(find_spec("torch").origin).parents[1])
pytestmark = pytest.mark.skipif(not WHEEL.exists(), reason=f"no {WHEEL.name} in dist/; build it with ci/build.sh")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(WHEEL) as wheel:
        wheel.extractall(folder)
    return folder


def run(*command, **variables):
    """Runs in "/", because in the checkout its own folder torch_npu would be imported."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run(command, env={**environment, **variables}, cwd="/", capture_output=True, text=True, timeout=300)


def files(folder):
    return {path.relative_to(folder) for path in Path(folder).rglob("*") if path.is_file()}


def test_wheel_is_small():
    assert WHEEL.stat().st_size <= 20e6


@pytest.mark.parametrize("name", [
    "__init__.py", "lib/libtorch_npu.so", "include/acl.h", "include/aclnn.h", "include/hccl.h", "softnpu/set_env.sh",
    "softnpu/lib64/libsoftnpu.so", "softnpu/lib64/libopapi.so", "softnpu/lib64/libascendcl.so",
    "softnpu/lib64/libnnopbase.so", "softnpu/lib64/libhccl.so", "softnpu/runtime/version.info",
    "softnpu/compiler/version.info", "softnpu/opp/version.info", "migrate/analysis/dtypes.txt",
])
def test_wheel_has(unpacked, name):
    assert (unpacked / "torch_npu" / name).exists()


def test_wheel_has_only_the_package(unpacked):
    assert {path.name for path in unpacked.iterdir()} == {"torch_npu", "torch_npu-2.13.0+oss.dist-info"}
    assert not [path for path in files(unpacked) if "test" in path.parts or path.suffix in (".cpp", ".o", ".a")]


def test_libraries_look_for_others_beside_themselves_only(unpacked):
    libraries = list(unpacked.rglob("*.so"))
    assert libraries
    for library in libraries:
        dynamic = run("readelf", "-d", str(library)).stdout
        for path in re.findall(r"R(?:UN)?PATH.*\[(.*)\]", dynamic):
            assert all(part.startswith("$ORIGIN") for part in path.split(":")), f"{library.name}: {path}"


def test_libraries_hold_no_path_of_the_build(unpacked):
    root = str(WHEEL.parents[1]).encode()
    for library in unpacked.rglob("*.so"):
        assert root not in library.read_bytes(), library.name


def test_libraries_are_hardened(unpacked):
    """Addresses are bound and read-only before main(), the stack does not execute, functions with buffers have canaries."""
    for library in unpacked.rglob("*.so"):
        dynamic, segments = run("readelf", "-d", str(library)).stdout, run("readelf", "-lW", str(library)).stdout
        assert re.search(r"\bNOW\b", dynamic) and "GNU_RELRO" in segments, library.name
        assert re.search(r"GNU_STACK.* RW ", segments), library.name
    for name in ("softnpu/lib64/libsoftnpu.so", "softnpu/lib64/libopapi.so", "lib/libtorch_npu.so"):
        symbols = run("readelf", "--dyn-syms", "-W", str(unpacked / "torch_npu" / name)).stdout
        assert "__stack_chk_fail" in symbols, name
        assert "libopapi" in name or re.search(r"__\w+_chk@", symbols), name  # libopapi calls nothing that glibc checks


def test_autoload_entry_point(unpacked):
    entry_points = (unpacked / "torch_npu-2.13.0+oss.dist-info/entry_points.txt").read_text()
    assert "[torch.backends]\ntorch_npu = torch_npu:_autoload" in entry_points


def test_migration_tool_is_a_command_and_in_the_toolkit_folder(unpacked):
    info = unpacked / "torch_npu-2.13.0+oss.dist-info"
    assert "ms_fmk_transplt.py = torch_npu.migrate.ms_fmk_transplt:main" in (info / "entry_points.txt").read_text()
    assert "Provides-Extra: migrate" in (info / "METADATA").read_text()
    assert (unpacked / "torch_npu/softnpu/tools/ms_fmk_transplt/ms_fmk_transplt.py").is_file()


def test_it_asks_for_one_release_of_torch_and_nothing_else(unpacked):
    metadata = (unpacked / "torch_npu-2.13.0+oss.dist-info/METADATA").read_text()
    needs = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:") and "extra ==" not in line]
    assert len(needs) == 1 and re.fullmatch(r"Requires-Dist: torch *==2\.13\.0(\.\*)?", needs[0]), needs


def test_libraries_need_only_torch_and_the_c_library(unpacked):
    """No libblas, no libhccl, nothing of CANN or of a compiler's run time beyond libstdc++."""
    own = {path.name for path in unpacked.rglob("*.so*")}
    system = r"lib(torch\w*|c10|stdc\+\+|gcc_s|c|m|dl|rt|pthread|gomp)[-\w]*\.so(\.\d+)?|ld-linux\S*"
    for library in unpacked.rglob("*.so"):
        needed = re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", str(library)).stdout)
        assert needed and [name for name in needed if name not in own and not re.fullmatch(system, name)] == [], library.name


@pytest.fixture
def venv(tmp_path):
    """A virtual environment that sees this one's torch and pip, but holds nothing itself."""
    folder = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    own = folder / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    (own / "torch_of_the_tests.pth").write_text(TORCH + "\n")
    return folder


@pytest.mark.slow
def test_install_and_uninstall_leave_nothing(venv):
    python = str(venv / "bin/python")
    before = files(venv)
    installed = run(python, "-m", "pip", "install", "--no-deps", "--no-index", "--ignore-installed", str(WHEEL))
    assert installed.returncode == 0, installed.stderr
    check = run(python, "-m", "pip", "check")
    assert check.returncode == 0, check.stdout
    used = run(python, "-B", "-W", "error", "-c",
               "import torch, torch_npu; print(torch_npu.__file__); print(torch.ones(2).npu().sum().item())")
    assert used.returncode == 0, used.stderr
    assert used.stdout.split() == [str(next(venv.glob("lib/*/site-packages")) / "torch_npu/__init__.py"), "2.0"]
    removed = run(python, "-m", "pip", "uninstall", "--yes", "torch_npu")
    assert removed.returncode == 0, removed.stderr
    assert {path for path in files(venv) if "__pycache__" not in path.parts} == \
           {path for path in before if "__pycache__" not in path.parts}
    assert not list(venv.glob("lib/*/site-packages/torch_npu*"))


@pytest.mark.slow
def test_install_again_with_upgrade_and_a_log(venv, tmp_path):
    python, log = str(venv / "bin/python"), tmp_path / "pip.log"
    command = [python, "-m", "pip", "install", "--no-deps", "--no-index", "--ignore-installed", "--log", str(log), str(WHEEL)]
    assert run(*command).returncode == 0
    package = next(venv.glob("lib/*/site-packages")) / "torch_npu"
    (package / "npu/__init__.py").unlink()  # as if an older build had stood there
    assert run(*command, "--upgrade", "--force-reinstall").returncode == 0
    assert (package / "npu/__init__.py").is_file() and WHEEL.name in log.read_text()


@pytest.mark.slow
def test_install_for_one_user(tmp_path):
    python = sys._base_executable
    variables = {"PYTHONUSERBASE": str(tmp_path), "PIP_BREAK_SYSTEM_PACKAGES": "1"}
    installed = run(python, "-m", "pip", "install", "--user", "--no-deps", "--no-index", "--ignore-installed",
                    str(WHEEL), **variables)
    assert installed.returncode == 0, installed.stderr
    package = next(tmp_path.glob("lib/*/site-packages/torch_npu"))
    (package.parent / "torch_of_the_tests.pth").write_text(TORCH + "\n")
    used = run(python, "-c", "import torch; print(torch.ones(2).npu().sum().item(), torch.npu.__file__)", **variables)
    assert used.returncode == 0, used.stderr
    assert used.stdout == f"2.0 {package}/npu/__init__.py\n"
