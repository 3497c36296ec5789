"""The wheel of softnpu in dist/: what is in it, and what it asks for. Build it first: bash ci/build.sh --softnpu."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

WHEEL = Path(__file__).resolve().parents[2] / f"dist/softnpu-2.13.0+oss-py3-none-linux_{os.uname().machine}.whl"
TORCH = str(Path(find_spec("torch").origin).parents[1])
pytestmark = pytest.mark.skipif(not WHEEL.exists(), reason=f"no {WHEEL.name} in dist/; build it with ci/build.sh --softnpu")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """As pip unpacks it, beside a torch."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(WHEEL) as wheel:
        for entry in wheel.infolist():
            path = Path(wheel.extract(entry, folder))
            path.chmod((entry.external_attr >> 16) & 0o777 or 0o644)
    (folder / "torch").symlink_to(Path(TORCH) / "torch")
    return folder


def files(folder):
    return {str(path.relative_to(folder)) for path in (folder / "softnpu").rglob("*") if path.is_file()}


def run(site, *arguments, **variables):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ASCEND_", "SOFTNPU_", "PYTHON", "LD_LIBRARY"))}
    return subprocess.run([sys.executable, "-B", *map(str, arguments)], env={**kept, "PYTHONPATH": str(site), **variables}, cwd="/",
                          capture_output=True, text=True, timeout=120)


def test_its_libraries_are_those_of_torch_npu(site):
    build = Path(__file__).resolve().parents[2] / "build/torch_npu/softnpu"
    names = {name for name in files(site) if name.endswith(".so")}
    assert names == {f"softnpu/toolkit/lib64/{file.name}" for file in (build / "lib64").glob("*.so")} and len(names) > 10
    for name in ("set_env.sh", "use_softnpu.sh", "runtime/version.info", "compiler/version.info", "opp/version.info"):
        assert (site / "softnpu/toolkit" / name).read_bytes() == (build / name).read_bytes()
    besides = {"toolkit/include/acl/acl.h", "toolkit/include/hccl/hccl.h", "LICENSE", "py.typed"}
    assert {f"softnpu/{name}" for name in besides} <= files(site)


def test_libraries_look_for_others_beside_themselves_and_in_torch(site):
    for name in ("libopapi.so", "libsoftnpu.so", "libascendcl.so"):
        dynamic = subprocess.run(["readelf", "-d", site / "softnpu/toolkit/lib64" / name], capture_output=True, text=True).stdout
        assert re.findall(r"R(?:UN)?PATH.*\[(.*)\]", dynamic) == ["$ORIGIN:$ORIGIN/../../../torch/lib"]
    found = subprocess.run(["ldd", site / "softnpu/toolkit/lib64/libopapi.so"], capture_output=True, text=True,
                           env={"PATH": os.environ["PATH"]}).stdout
    assert "not found" not in found and str(site / "softnpu/toolkit/lib64") in found and "torch/lib/libtorch_cpu.so" in found


def test_metadata():
    with zipfile.ZipFile(WHEEL) as wheel:
        info = "softnpu-2.13.0+oss.dist-info"
        metadata, entries = (wheel.read(f"{info}/{name}").decode() for name in ("METADATA", "entry_points.txt"))
        assert {name.split("/")[0] for name in wheel.namelist()} == {"softnpu", info}
    needs = re.findall(r"^Requires-Dist: (.*)", metadata, re.MULTILINE)
    assert needs == ["torch==2.13.0"]
    assert "softnpu = softnpu.cli:main" in entries and "[pytest11]\nsoftnpu = softnpu.pytest_plugin" in entries


def test_it_is_itself_where_a_torch_npu_is_too(site):
    """Its own libraries; and a program that it runs finds them."""
    code = "from softnpu import place; print(place.toolkit(), place.torch_folder(), place.conformance_program().exists())"
    printed = run(site, "-c", code).stdout.split()
    assert printed[:2] == [str(site / "softnpu/toolkit"), str(site / "torch/lib")]
    done = run(site, "-m", "softnpu", "info", SOFTNPU_MEMORY="64M", SOFTNPU_DEVICES="1")
    assert "cards: 1 Ascend910B1 of 0.1 GiB" in done.stdout and f"in {site}/torch/lib" in done.stdout, done.stderr


PROGRAM = """
#include <acl/acl.h>
#include <hccl/hccl.h>
#include <cstdio>
int main() {
  uint32_t count = 0;
  if (aclInit(nullptr) || aclrtGetDeviceCount(&count)) return 1;
  printf("%u %s\\n", count, aclrtGetSocName());
  return aclFinalize();
}
"""


def test_a_program_written_for_acl_h(site, tmp_path):
    if not shutil.which("g++"):
        pytest.skip("no g++")
    (tmp_path / "a.cpp").write_text(PROGRAM)
    toolkit = site / "softnpu/toolkit"
    subprocess.run(["g++", "-std=c++17", tmp_path / "a.cpp", f"-I{toolkit}/include", f"-L{toolkit}/lib64", "-lascendcl",
                    "-lsoftnpu", "-o", tmp_path / "a"], check=True)
    assert run(site, "-m", "softnpu", "run", "--cards", 3, "--", tmp_path / "a").stdout == "3 Ascend910B1\n"
