"""torch_npu.migrate analyse and profile: what is found, how it is judged, and what CI gets."""

import csv
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import torch_npu
from torch_npu.migrate import OperatorProfile
from torch_npu.migrate.__main__ import main
from torch_npu.migrate.analysis import analyse_native, analyse_python, apis, dtypes, operators, project
from torch_npu.migrate.analysis.operators import Support
from torch_npu.migrate.analysis.python import Analysis
from torch_npu.migrate.analysis.uses import Use
from torch_npu.migrate.findings import Kind

SCRIPTS = Path(__file__).resolve().parents[1] / "migration" / "scripts"
MODELS = ["mnist.py --epochs 1", "vae.py --epochs 1", "dcgan.py", "word_language_model.py", "word_language_model.py --model Transformer"]

RECORDER = """
import json, runpy, sys
import torch
from torch.overrides import TorchFunctionMode, resolve_name

path, seen = sys.argv[1], set()
sys.argv = sys.argv[1:]

class Recorder(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        frame, own = sys._getframe(1), getattr(func, "__code__", None)
        while frame and (frame.f_code is own or frame.f_code.co_filename.endswith(("torch/overrides.py", "torch/_tensor.py"))):
            frame = frame.f_back
        if frame and frame.f_code.co_filename == path:
            name = (resolve_name(func) or str(func)).removesuffix(".__get__").removesuffix(".__set__")
            seen.add((name, frame.f_lineno))
        return func(*args, **(kwargs or {}))

with Recorder():
    runpy.run_path(path, run_name="__main__")
print(json.dumps(sorted(seen)), file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", MODELS)
def test_finds_every_call_that_a_function_mode_records(command, tmp_path):
    """Every torch API that the script itself calls, by name and line. Possible uses that were none are printed."""
    name, *arguments = command.split()
    path = str(SCRIPTS / name)
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    process = subprocess.run([sys.executable, "-c", RECORDER, path, *arguments], cwd=tmp_path, env=environment,
                             capture_output=True, text=True, timeout=300)  # fmt: skip
    assert process.returncode == 0, process.stderr
    recorded = {tuple(item) for item in json.loads(process.stderr.splitlines()[-1])}
    assert len(recorded) > 15
    uses = analyse_python(Path(path).read_text(), name).uses
    found = {(use.api, line) for use in uses for line in range(use.line, use.end_line + 1)}
    missed = sorted(recorded - found)
    alarms = sorted({use.api for use in uses if not use.certain} - {name for name, _ in recorded})
    print(f"{command}: {len(recorded)} calls recorded, {len(missed)} missed {missed}, {len(alarms)} names of false alarms {alarms}")
    assert missed == []


def kinds(code: str) -> dict[Kind, list[tuple[int, str]]]:
    found: dict[Kind, list] = {}
    for finding in analyse_python(code, "a.py").findings:
        found.setdefault(finding.kind, []).append((finding.line, finding.api))
    return found


def test_names_are_resolved_through_imports():
    code = "import torch.nn.functional as F\nfrom torch import nn as layers, relu\nact = F.gelu\nlayers.Linear(2, 2)\nrelu(x)\nact(x)\n"
    certain = {use.api for use in analyse_python(code, "a.py").uses if use.certain}
    assert {"torch.nn.functional.gelu", "torch.nn.Linear", "torch.relu"} <= certain


@pytest.mark.parametrize("code, expected", [
    ("y = x + 2", {"__add__"}), ("y = 2 + x", {"__add__"}), ("y = 2 + 3", set()), ("y = -x", {"__neg__"}), ("y = -3", set()),
    ("x += y", {"__iadd__", "__add__"}), ("x[0] -= y", {"__isub__", "__getitem__", "__setitem__"}),
    ("y = x < z <= 2", {"__lt__", "__le__"}), ("y = x[0]", {"__getitem__"}), ("x[0] = y", {"__setitem__"}),
    ("if x: pass", {"__bool__"}), ("while x: pass", {"__bool__"}), ("assert x", {"__bool__"}), ("if True: pass", set()),
    ("while 1: pass", set()), ("y = x and z", {"__bool__"}), ("for y in x: pass", {"__iter__"}), ("y = [z for z in x]", {"__iter__"}),
    ("a, b = x", {"__iter__"}), ("a, b = 1, 2", set()), ("f(*x)", {"__iter__"}), ("y = f'{x}'", {"__format__"}), ("y = f'{1}'", set()),
    ("y = '{}'.format(x)", {"__format__"}), ("y = len(x)", {"__len__"}), ("y = abs(x)", {"__abs__"}), ("y = ~x", {"__invert__"}),
    ("from torch import abs\ny = abs(x)", set()),
])  # fmt: skip
def test_operators_of_the_language_are_uses_of_tensors(code, expected):
    found = {use.api.rpartition(".")[2] for use in analyse_python("import torch\n" + code + "\n", "a.py").uses}
    assert expected <= found and bool(expected) == any(name.startswith("__") for name in found)


def test_a_variable_named_as_an_import_is_no_unknown_api():
    """Scripts say `import torch.optim as optim` and later `optim = torch.optim.Adam(...); optim.step()`."""
    code = "import torch.optim as optim\noptim = optim.Adam(p)\noptim.step()\nfrom torch import nn\ndef f(nn): return nn.view(2)\n"
    uses = {use.api for use in analyse_python(code, "a.py").uses}
    assert {"torch.optim.Adam", "torch.Tensor.view"} <= uses and "torch.optim.step" not in uses
    assert Kind.UNKNOWN not in kinds(code)
    assert kinds("import torch.optim as optim\noptim.no_such_optimizer\n")[Kind.UNKNOWN] == [(2, "torch.optim.no_such_optimizer")]


def test_float64_is_warned_about():
    code = "import torch\nx = torch.ones(2, dtype=torch.float64)\ny = x.double()\nz = torch.zeros(2, dtype=torch.float32)\n"
    assert kinds(code)[Kind.PRECISION] == [(2, "torch.float64"), (3, "torch.Tensor.double")]


def test_kinds_of_findings():
    code = (
        "import torch, flash_attn\nfrom torch.utils.cpp_extension import CUDAExtension\ntorch.cuda.cudart()\n"
        "torch.no_such_function()\nCUDAExtension('a', [])\nprint(loss.item())\ntorch.nn.DataParallel(model)\n"
    )
    found = kinds(code)
    assert found[Kind.UNSUPPORTED] == [(3, "torch.cuda.cudart")]
    assert found[Kind.UNKNOWN] == [(4, "torch.no_such_function")]
    assert found[Kind.CUDA] == [(1, "flash_attn"), (5, "torch.utils.cpp_extension.CUDAExtension")]
    assert (7, "torch.nn.DataParallel") in found[Kind.PERFORMANCE]


def test_native_sources():
    code = "// cudaMalloc here\n#include <torch/all.h>\n__global__ void twice(float* x) {}\nauto y = at::relu(x);\nncclAllReduce(a);\n"
    found = analyse_native(code, "k.cu")
    assert [(finding.line, finding.api) for finding in found] == [(3, "twice"), (5, "ncclAllReduce")]


def test_support_of_operators():
    assert operators.overload_support("aten::add.Tensor") is Support.NATIVE
    assert operators.overload_support("aten::dropout") is Support.COMPOSITE
    fallen = next(name for name in torch._C._dispatch_get_all_op_names()
                  if name.startswith("aten::") and operators.overload_support(name) is Support.FALLBACK)  # fmt: skip
    assert torch._C._dispatch_has_kernel_for_dispatch_key(fallen, "CPU")


def test_operators_of_python_functions_are_read_from_their_source():
    assert {op.name for op in apis.operators_of("torch.nn.functional.relu")} >= {"aten::relu"}
    assert {op.name for op in apis.operators_of("torch.nn.Conv2d")} >= {"aten::conv2d"}
    assert {op.name for op in apis.operators_of("torch.nn.CrossEntropyLoss")} >= {"aten::cross_entropy_loss"}
    assert apis.operators_of("torch.manual_seed") == ()


@pytest.mark.parametrize("api, name", [
    ("torch.Tensor.__matmul__", "aten::matmul"), ("torch.Tensor.__add__", "aten::add"), ("torch.Tensor.view", "aten::view"),
    ("torch.Tensor.item", "aten::_local_scalar_dense"), ("torch.relu", "aten::relu"), ("torch.linalg.det", "aten::linalg_det"),
    ("torch.fft.rfft", "aten::fft_rfft"), ("torch.special.expit", "aten::special_expit"), ("torch.ops.aten.relu", "aten::relu"),
])  # fmt: skip
def test_operators_that_an_api_is_a_name_of(api, name):
    assert [op.name for op in apis.operators_of(api)] == [name]


@pytest.mark.parametrize("api", ["torch.nn.functional", "torch.no_such_name", "torch.float32", "torch.device", "torch.Tensor.shape"])
def test_apis_that_compute_nothing_reach_no_operator(api):
    assert apis.operators_of(api) == () and apis.support_of(api) is None


def test_names_that_torch_has():
    known = {api: apis.is_known(api) for api in (
        "torch.relu", "torch.Tensor.view", "torch.Tensor.shape.numel", "torch.nn.functional.relu", "torch.distributed.pipelining",
        "torch.no_such", "torch.nn.no_such", "torch.Tensor.no_such", "torch.nn.Linear.no_such")}  # fmt: skip
    assert [api for api, is_known in known.items() if "no_such" in api] == [api for api, is_known in known.items() if not is_known]


def use(api, certain=True):
    return Use(api, 1, 1, certain)


def test_summary_counts_what_is_certain():
    """A possible use (any object may have a method `view`) is listed if it reaches an operator, and fails no project."""
    uses = [use("torch.relu"), use("torch.relu"), use("torch.device"), use("torch.Tensor.view", False), use("torch.Tensor.shape", False)]
    result = project.summarise([Analysis("a.py", uses, lines=3), Analysis("b.py", [use("torch.Tensor.view", False)], lines=4)], 1.23456)
    rows = {row["api"]: (row["uses"], row["certain"], row["support"]) for row in result["apis"]}
    assert rows == {"torch.relu": (2, True, "native"), "torch.device": (1, True, ""), "torch.Tensor.view": (2, False, "native")}
    assert result["support"] == {"native": 2, "none": 0} and result["files"] == 2 and result["lines"] == 7 and result["seconds"] == 1.235


def test_table_shows_what_does_not_simply_run():
    def row(api, support, certain=True, refused=(), **dtypes):
        return {"api": api, "uses": 1, "certain": certain, "support": support, "dtypes": dtypes, "operators": [],
                "refused_by_hardware": dict.fromkeys(refused, "")}  # fmt: skip

    result = {"files": 1, "lines": 2, "seconds": 0.0, "support": {"native": 3}, "findings": [], "errors": [], "apis": [
        row("torch.good", "native"), row("torch.slow", "fallback"), row("torch.gone", "none"), row("torch.maybe", "fallback", False),
        row("torch.other", "native", float16=dtypes.DIFFERS, float32="native"), row("torch.guess", "native", False, ["float64"]),
        row("torch.guess", "native", False, float16=dtypes.DIFFERS)]}  # fmt: skip
    *told, counts = project.table(result).splitlines()
    assert told == ["fallback   torch.slow", "none       torch.gone", f"{dtypes.DIFFERS:<10} torch.other: not as on the CPU in float16"]
    assert counts.startswith("1 files, 2 lines in 0.0 s; torch APIs: 3 native")
    result["apis"].append(row("torch.sure", "native", refused=["float64"]))
    assert "note: dtypes are what softnpu takes; all Ascend chips refuse float64" in project.table(result)


def test_support_is_what_the_build_says():
    said = {name: how for name, how in torch_npu.utils.op_support().items() if how != "unsupported"}
    assert [name for name, how in said.items() if str(operators.overload_support(name)) != how] == []


def test_json_table_and_exit_code(tmp_path, capsys):
    (tmp_path / "good.py").write_text("import torch\nprint(torch.relu(torch.zeros(2)))\n")
    assert main(["analyse", "-i", str(tmp_path / "good.py"), "--json", str(tmp_path / "a.json"), "-o", str(tmp_path / "out")]) == 0
    result = json.loads((tmp_path / "a.json").read_text())
    row = next(row for row in result["apis"] if row["api"] == "torch.relu")
    assert row["support"] == "native" and row["operators"][0]["name"] == "aten::relu"
    assert "1 files, 2 lines" in capsys.readouterr().out
    reports = {path.name for path in (tmp_path / "out" / "good_analysis").iterdir()}
    assert {"unsupported_api.csv", "report.html", "analysis.json", "api_support.csv"} <= reports
    table = list(csv.reader((tmp_path / "out" / "good_analysis" / "api_support.csv").open(newline="")))
    relu = dict(zip(table[0], next(line for line in table if line[:2] == ["torch.relu", "aten::relu"])))
    assert relu["Support"] == relu["float16"] == "native" and relu["complex64"] == ""

    (tmp_path / "bad.py").write_text("import torch\ntorch.cuda.cudart()\n")
    assert main(["analyse", "-i", str(tmp_path / "bad.py")]) == 1
    assert "torch.cuda.cudart" in capsys.readouterr().out
    assert main(["analyse", "-i", str(tmp_path / "bad.py"), "--fail-on", "never"]) == 0
    assert main(["analyse", "-i", str(tmp_path / "missing.py")]) == 1


def test_dtypes_of_operators(tmp_path, capsys):
    (tmp_path / "a.py").write_text("import torch\ntorch.relu(x)\ntorch.linalg.det(x)\ntorch.sparse.mm(x, x)\n")
    assert main(["analyse", "-i", str(tmp_path / "a.py"), "--json", "-"]) == 0
    rows = {row["api"]: row for row in json.loads(capsys.readouterr().out)["apis"]}
    taken = rows["torch.relu"]["dtypes"]
    assert rows["torch.relu"]["operators"][0]["dtypes"] == taken
    assert taken["float32"] == taken["bfloat16"] == taken["int64"] == "native" and "complex64" not in taken
    for dtype in taken:
        torch.relu(torch.ones(2, dtype=getattr(torch, dtype)).npu())
    with pytest.raises(RuntimeError):
        torch.relu(torch.ones(2, dtype=torch.complex64).npu()).cpu()
    assert "int64" not in rows["torch.linalg.det"]["dtypes"] and "complex64" in rows["torch.linalg.det"]["dtypes"]


def test_dtypes_are_those_of_the_page_of_operators():
    """The data in the package is made of docs/operators.md, or of the same results."""
    path = SCRIPTS.parents[1] / "ops" / "dtype_support.py"
    spec = importlib.util.spec_from_file_location("dtype_support", path)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    expected = tool.render(*tool.from_page(tool.PAGE.read_text()))
    assert dtypes.DATA.read_text() == expected, "cure: python test/ops/dtype_support.py"

    rows = [
        {"op": "f.a", "dtype": "float32", "missing": [], "launched": ["aclnnAdd"], "checks": {"out": {"status": "pass"}}},
        {"op": "f.b", "dtype": "float32", "missing": [], "launched": ["softnpuF"], "checks": {"out": {"status": "pass"}}},
        {"op": "f.b", "dtype": "bool", "missing": [], "launched": [], "checks": {"out": {"status": "none"}}},
        {"op": "fft.fft", "dtype": "bool", "missing": ["aten::f"], "launched": [], "checks": {"out": {"status": "pass"}}},
        {"op": "g", "dtype": "bool", "missing": [], "launched": [], "checks": {"out": {"status": "pass"}, "in": {"status": "fail"}}},
    ]
    assert [(row["op"], tool.word(row)) for row in rows] == [
        ("f.a", "yes"), ("f.b", "extension"), ("f.b", "-"), ("fft.fft", "fallback"), ("g", "no")]  # fmt: skip
    found = {"f.a": {"float32": "yes"}, "f.b": {"float32": "extension", "bool": "-"}, "fft.fft": {"bool": "fallback"}, "g": {"bool": "no"}}
    assert tool.render(["float32", "bool"], found).splitlines()[-4:] == ["float32 bool", "f e-", "fft.fft -f", "g -x"]


def test_most_of_torchs_operators_have_dtypes():
    known = [name for name in dir(torch.nn.functional) if dtypes.dtypes_of(f"torch.nn.functional.{name}", None)]
    assert len(known) > 80
    support = torch_npu.utils.op_support()
    names = {name.partition(".")[0] for name, how in support.items() if how == "native"}
    share = sum(bool(dtypes.dtypes_of(name, Support.NATIVE)) for name in names) / len(names)
    print(f"dtypes are known of {share:.0%} of {len(names)} native operators")
    assert share > 0.5


def test_bad_files_are_named(tmp_path, capsys):
    (tmp_path / "syntax.py").write_text("x = (\n")
    (tmp_path / "nested.py").write_text("x = " + "1 + " * 3000 + "1\n")
    (tmp_path / "loop.py").symlink_to("loop.py")
    (tmp_path / "bytes.py").write_bytes(b"x = '\xff'\n")
    (tmp_path / "fine.py").write_text("import torch\n")
    assert main(["analyse", "-i", str(tmp_path), "--json", "-"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert {error["file"] for error in result["errors"]} >= {"syntax.py", "loop.py", "bytes.py"} and result["files"] == 5


def test_nothing_of_the_project_is_run(tmp_path):
    bomb = "raise SystemExit('ran')\n"
    (tmp_path / "setup.py").write_text(bomb)
    (tmp_path / "conftest.py").write_text(bomb)
    (tmp_path / "main.py").write_text("import setup, torch\n" + bomb)
    assert main(["analyse", "-i", str(tmp_path), "--third-party"]) == 0


def test_imported_packages_are_read(tmp_path, capsys, monkeypatch):
    """Python and native sources of a package that is installed, and that is never imported for it."""
    package = tmp_path / "site" / "fastops"
    package.mkdir(parents=True)
    code = "import torch, flash_attn\nraise SystemExit('ran')\ntorch.cuda.cudart()\ntorch.cuda.synchronize()\n"
    (package / "__init__.py").write_text(code)
    (package / "scan.cu").write_text("__global__ void scan(float* x) {}\n")
    monkeypatch.syspath_prepend(str(package.parent))
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "main.py").write_text("import fastops\n")
    command = ["analyse", "-i", str(tmp_path / "project"), "--third-party"]
    assert main([*command, "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)["third_party"]["fastops"]
    assert found == {"files": 2, "cuda": 2, "kernels": ["scan.cu"], "unsupported": ["torch.cuda.cudart"]}
    assert main(command) == 0
    assert "fastops: 2 files, 2 uses of torch.cuda, CUDA code in scan.cu, not supported: torch.cuda.cudart" in capsys.readouterr().out


def test_native_sources_and_float64_of_a_project(tmp_path, capsys):
    """The command line: C++ and .cu beside Python, float64 warned about, and the JSON has all of it."""
    (tmp_path / "ops.cu").write_text("__global__ void twice(float* x) {}\nvoid f() { twice<<<1, 1>>>(0); cudaFree(0); }\n")
    (tmp_path / "ops.cpp").write_text("#include <torch/extension.h>\nauto f(at::Tensor x) { return at::relu(x); }\n")
    (tmp_path / "main.py").write_text("import torch\nx = torch.zeros(2, dtype=torch.float64)\n")
    assert main(["analyse", "-i", str(tmp_path), "--json", str(tmp_path / "a.json"), "--fail-on", "never"]) == 0
    printed = capsys.readouterr().out
    assert "ops.cu:1 twice: a CUDA kernel" in printed and "cudaFree" in printed
    assert "warning: 1 places touch precision (float64, TF32)" in printed
    result = json.loads((tmp_path / "a.json").read_text())
    assert next(row for row in result["apis"] if row["api"] == "aten::relu")["support"] == "native"
    kinds = {(finding["file"], finding["kind"]) for finding in result["findings"]}
    assert {("ops.cu", "cuda_op_list"), ("main.py", "api_precision_advice")} <= kinds
    assert result["files"] == 3 and result["lines"] == 6


@pytest.mark.sweep
def test_speed_in_lines_of_source_for_a_minute_of_cpu(tmp_path, capsys):
    """Sources that others wrote: torch's own. The speed is printed, not judged: machines differ."""
    root = Path(torch.__file__).parent
    for folder in ("nn/modules", "distributed/fsdp"):
        shutil.copytree(root / folder, tmp_path / "project" / folder, ignore=shutil.ignore_patterns("__pycache__"))
    lines = sum(path.read_text().count("\n") for path in tmp_path.rglob("*.py"))
    for command in (["analyse", "--fail-on", "never"], ["convert", "-o", str(tmp_path / "out")]):
        if command[0] == "convert":
            pytest.importorskip("libcst", reason="conversion needs libcst")
        start = time.process_time()
        assert main([*command, "-i", str(tmp_path / "project")]) == 0
        speed = 60 * lines / (time.process_time() - start)
        with capsys.disabled():
            print(f"\n{command[0]}: {lines} lines, {speed:,.0f} lines a minute of CPU")
        assert lines > 20_000


# -- dynamic


def test_profile_lists_internal_and_backward_operators():
    model, x = torch.nn.Linear(3, 2), torch.ones(4, 3)
    with OperatorProfile() as profile:
        torch.nn.functional.gelu(model(x)).sum().backward()
    rows = {row["operator"]: row for row in profile.summary()["operators"]}
    assert {"aten::addmm", "aten::gelu", "aten::gelu_backward", "aten::mm"} <= rows.keys()
    assert rows["aten::gelu"]["shapes"] == [[[4, 2]]] and rows["aten::gelu"]["dtypes"] == ["float32"]
    shares = [share["time"] for share in profile.summary()["classes"].values()]
    assert sum(shares) == pytest.approx(1.0)
    assert "aten::gelu_backward" in profile.table()


def test_profile_warns_about_dynamic_shapes_and_float64():
    with OperatorProfile() as profile:
        for size in range(1, 11):
            torch.relu(torch.ones(size, dtype=torch.float64))
    warnings = "\n".join(profile.warnings())
    assert "dynamic shapes: aten::relu saw 10 different shapes in 10 calls" in warnings and "float64" in warnings


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_profile_runs_a_script(run, tmp_path, device):
    (tmp_path / "train.py").write_text(
        "import sys, torch\nx = torch.ones(2)\nx = x.cuda() if torch.cuda.is_available() else x\n"
        "print(sys.argv[1], x.device.type, x.exp().sum())\n"
    )
    command = ["profile", "--device", device, "--json", "p.json", "train.py", "-v"]
    process = run(f"import sys\nfrom torch_npu.migrate.__main__ import main\nsys.exit(main({command}))")
    assert process.returncode == 0, process.stderr
    assert f"-v {device}" in process.stdout and "aten::exp" in process.stdout
    assert any(row["operator"] == "aten::exp" for row in json.loads((tmp_path / "p.json").read_text())["operators"])


def test_profile_of_a_script_that_insists_on_cuda(run, tmp_path):
    (tmp_path / "train.py").write_text("import torch\ntorch.ones(2).add(1).cuda()\n")
    process = run("import sys\nfrom torch_npu.migrate.__main__ import main\nsys.exit(main(['profile', 'train.py']))")
    assert process.returncode == 1
    assert "aten::add.Tensor" in process.stdout and "--device npu" in process.stderr


def test_profile_counts_calls_and_finds_modules_beside_the_script(tmp_path, monkeypatch, capsys):
    (tmp_path / "beside_the_script.py").write_text("import torch\ntwice = lambda x: x.exp().exp()\n")
    (tmp_path / "train.py").write_text("import torch\nfrom beside_the_script import twice\ntwice(torch.ones(2))\n")
    monkeypatch.setattr("sys.path", sys.path[:])
    monkeypatch.setattr("sys.argv", sys.argv[:])
    assert main(["profile", "--json", str(tmp_path / "p.json"), str(tmp_path / "train.py")]) == 0, capsys.readouterr().err
    summary = json.loads((tmp_path / "p.json").read_text())
    assert {row["operator"]: row["calls"] for row in summary["operators"]}["aten::exp"] == 2
    for name, share in summary["classes"].items():
        rows = [row for row in summary["operators"] if row["support"] == name]
        assert (share["operators"], share["calls"]) == (len(rows), sum(row["calls"] for row in rows))
