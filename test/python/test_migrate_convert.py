"""torch_npu.migrate convert: what changes, what does not, reports, and bad input. Sources are never run."""

import ast
import csv
import html
import io
import os
import shutil
import stat
import subprocess
import sys
import types
from pathlib import Path

import pytest

import torch_npu

pytest.importorskip("libcst", reason="conversion needs libcst")
hypothesis = pytest.importorskip("hypothesis", reason="property tests need hypothesis")
from hypothesis import given, settings, strategies as st  # noqa: E402

from torch_npu.migrate.__main__ import main  # noqa: E402
from torch_npu.migrate.converter import Options, convert_source  # noqa: E402
from torch_npu.migrate.findings import Kind  # noqa: E402
from torch_npu.migrate.ms_fmk_transplt import main as ms_fmk_transplt  # noqa: E402
from torch_npu.migrate.progress import Progress  # noqa: E402

SCRIPTS = Path(__file__).resolve().parents[1] / "migration" / "scripts"


def converted(code: str, **options) -> str:
    """The code after conversion, without the inserted import."""
    text = convert_source(code.encode(), "file.py", Options(**options)).after
    return text.replace("import torch_npu\n", "", 1)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('torch.device("cuda")', 'torch.device("npu")'),
        ("torch.device('cuda:1')", "torch.device('npu:1')"),
        ('x.to(f"cuda:{rank}")', 'x.to(f"npu:{rank}")'),
        ("x.cuda().is_cuda", "x.npu().is_npu"),
        ("x . cuda ( 0 ,non_blocking = True )", "x . npu ( 0 ,non_blocking = True )"),
        ("torch.cuda.set_device(1)", "torch.npu.set_device(1)"),
        ("torch.cuda.get_device_capability() >= (8, 0)", "(torch.npu.get_device_capability() or (0, 0)) >= (8, 0)"),
        ("torch.cuda.get_device_capability(0)[0]", "(torch.npu.get_device_capability(0) or (0, 0))[0]"),
        ('os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "a:b"', 'os.environ["PYTORCH_NPU_ALLOC_CONF"] = "a:b"'),
        ('lib.impl("f", g, "CUDA")', 'lib.impl("f", g, "PrivateUse1")'),
        ('torch.library.Library("a", "IMPL", "CUDA")', 'torch.library.Library("a", "IMPL", "PrivateUse1")'),
        ('@torch.library.impl(lib, "f", "AutogradCUDA")\ndef f(): pass',
         '@torch.library.impl(lib, "f", "AutogradPrivateUse1")\ndef f(): pass'),
        ('torch.library.custom_op("a::b", mutates_args=(), device_types="cuda")',
         'torch.library.custom_op("a::b", mutates_args=(), device_types="npu")'),
        ('print("CUDA")', 'print("CUDA")'),
        ("torch . cuda  .synchronize()", "torch . npu  .synchronize()"),
        ("torch.cuda.Stream().wait_event(e)", "torch.npu.Stream().wait_event(e)"),
        ("torch.cuda.CUDAPluggableAllocator(f)", "torch.npu.NPUPluggableAllocator(f)"),
        ("torch.cuda.CUDAPluggableAllocator.allocator", "torch.npu.NPUPluggableAllocator.allocator"),
        ("torch.cuda.amp.autocast(True)", "torch.npu.amp.autocast(True)"),
        ("torch.cuda.nvtx.range_push('a')", "torch.npu.nvtx.range_push('a')"),
        ("torch.amp.GradScaler()", 'torch.amp.GradScaler(device="npu")'),
        ("torch.amp.GradScaler(enabled=use)", 'torch.amp.GradScaler(device="npu", enabled=use)'),
        ('torch.amp.GradScaler("cuda")', 'torch.amp.GradScaler("npu")'),
        ("torch.is_autocast_enabled()", 'torch.is_autocast_enabled("npu")'),
        ("torch.get_autocast_gpu_dtype()", 'torch.get_autocast_dtype("npu")'),
        ('torch.autocast(device_type="cuda")', 'torch.autocast(device_type="npu")'),
        ('torch.distributed.init_process_group("nccl")', 'torch.distributed.init_process_group("hccl")'),
        ('torch.distributed.init_process_group("cpu:gloo,cuda:nccl")', 'torch.distributed.init_process_group("cpu:gloo,npu:hccl")'),
        ("torch.distributed.is_nccl_available()", 'torch.distributed.is_backend_available("hccl")'),
        ("torch.profiler.ProfilerActivity.CUDA", "torch.profiler.ProfilerActivity.PrivateUse1"),
        ('backends = {"cuda": "nccl"}["cuda"]', 'backends = {"npu": "hccl"}["npu"]'),
        ('hasattr(torch, "cuda")', 'hasattr(torch, "npu")'),
        ('os.environ["CUDA_VISIBLE_DEVICES"] = "0"', 'os.environ["ASCEND_RT_VISIBLE_DEVICES"] = "0"'),
        ("x.type(torch.cuda.FloatTensor)", 'x.type("torch.npu.FloatTensor")'),
        ("list(map(torch.Tensor.cuda, xs))", "list(map(torch.Tensor.npu, xs))"),
        ("torch.set_default_tensor_type('torch.cuda.FloatTensor')",
         '(torch.set_default_dtype(torch.float32), torch.set_default_device("npu"))'),
        ("class A:\n    def cuda(self): return super().cuda()", "class A:\n    def npu(self): return super().npu()"),
    ],
)
def test_rewrites(before, after):
    assert converted(f"import torch\n{before}\n") == f"import torch\n{after}\n"


@pytest.mark.parametrize(
    "code",
    [
        '"""cuda"""', "# cuda", "args.cuda", 'parser.add_argument("--cuda", help="cuda")', 'config["cuda"]', 'getattr(args, "cuda")',
        "cuda = 1", 'print("cuda is fast")', "b'cuda'", "torch.backends.cudnn.benchmark = True", "torch.version.cuda", "x.cuda",
        "cudart()", 'name = "cudaish"', "torch.zeros(2, device=0)",
        "class A:\n    @property\n    def cuda(self): return 0\n    @cuda.setter\n    def cuda(self, to): pass\n    x = A().cuda",
    ],
)  # fmt: skip
def test_leaves_alone(code):
    source = f"import torch\n{code}\n"
    assert convert_source(source.encode(), "file.py").after == source


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import torch.cuda\n", "import torch.npu\n"),
        ("import torch.cuda.amp as amp\n", "import torch.npu.amp as amp\n"),
        ("from torch import cuda\ncuda.synchronize()\n", "from torch import npu as cuda\ncuda.synchronize()\n"),
        ("from torch import cuda as gpu, nn\n", "from torch import npu as gpu, nn\n"),
        ("from torch.cuda import amp\n", "from torch.npu import amp\n"),
        ("from torch.cuda.amp import GradScaler, autocast\n", "from torch.npu.amp import GradScaler, autocast\n"),
        ("import torch as th\nth.cuda.empty_cache()\n", "import torch as th\nth.npu.empty_cache()\n"),
        ("import torch\nimport amp_C\n", "import torch\npass\n"),
    ],
)
def test_imports(before, after):
    assert converted(before) == after


def test_import_is_inserted_once_and_after_future():
    head = '#!/usr/bin/env python\n"""Doc."""\nfrom __future__ import annotations\n\n'
    code = head + "import os\nimport torch\nimport sys\n\ntorch.cuda.init()\n"
    once = convert_source(code.encode(), "a.py").after
    assert once == code.replace("import torch\n", "import torch\nimport torch_npu\n").replace("cuda", "npu")
    assert convert_source(once.encode(), "a.py").after == once
    deferred = "def f():\n    import torch\n    return torch.cuda.device_count()\n"
    assert convert_source(deferred.encode(), "a.py").after.startswith("import torch_npu\ndef f()")


def test_import_is_inserted_behind_a_comment_and_at_the_end():
    assert converted("import torch  # torch\nx.cuda()") == "import torch  # torch\nx.npu()"
    assert convert_source(b"x.cuda(); import torch", "a.py").after == "import torch_npu\nx.npu(); import torch"


def test_what_npu_lacks_is_listed_and_left():
    code = "import torch\nfrom torch.cuda import cudart, init\ntorch.cuda.cudart().cudaProfilerStart()\n"
    result = convert_source(code.encode(), "a.py")
    assert result.after == code
    found = [(finding.line, finding.api) for finding in result.findings]
    assert found == [(2, "torch.cuda.cudart"), (2, "torch.cuda.init"), (3, "torch.cuda.cudart")]
    assert {finding.kind for finding in result.findings} == {Kind.UNSUPPORTED}


@pytest.mark.parametrize("call, last", [("torch.cuda.cudart()", 2), ("f = torch.cuda.cudart", 2),
                                        ("torch.cuda.jiterator(\n  a,\n  b\n)", 2), ("(torch.\n cuda.\n cudart)()", 4)])
def test_a_finding_ends_on_the_line_of_its_last_character(call, last):
    result = convert_source(f"import torch\n{call}\n\nprint()\n".encode(), "file.py", Options())
    assert [(finding.line, finding.end_line) for finding in result.findings] == [(2, last)]


def test_a_change_is_listed_once():
    result = convert_source(b"import torch\nimport torch_npu\ntorch.cuda.synchronize()\nd = torch.cuda\n", "file.py")
    assert [(f.line, f.api, f.tip) for f in result.findings] == [
        (3, "torch.cuda.synchronize", "torch.npu.synchronize"), (4, "torch.cuda", "torch.npu")]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "gbk"])
def test_encodings_and_newlines_survive(newline, encoding):
    word = {"latin-1": "Größe", "gbk": "设备"}.get(encoding, "Größe 设备")
    coding = "" if encoding.startswith("utf") else f"# -*- coding: {encoding} -*-\n"
    code = f"{coding}import torch\ntext = '{word}'; x = '{word}', torch.zeros(1).cuda()  # {word}\n".replace("\n", newline)
    expected = code.replace(".cuda()", ".npu()").replace(f"import torch{newline}", f"import torch{newline}import torch_npu{newline}")
    assert convert_source(code.encode(encoding), "a.py").data == expected.encode(encoding)


# -- properties

NAMES = st.sampled_from(["x", "model", "device", "loss", "data", "größe"])
PLAIN = st.sampled_from(
    ["{0} = 1", "{0}   =  ( {1} , 2 )", "if {0}:\n    {1} = [ 1,2 ,3]  # note", "def f({0}, *, {1}=None):\n\treturn  {0}", "",
     "for {0} in range( 3 ):\n  pass", "s = 'it''s \\\n  split'", "print(f'{{{0}!r:>{{{1}}}}}')", "# comment {0}", "{0}.to('cpu')",
     "class A({0}.B): pass", "import torch, os", "async def g():\n    await {0}", "lambda {0}: {0} ** 2", "x = \"\"\"cuda\nis here\"\"\""]
)  # fmt: skip
CUDA = st.sampled_from(
    ["{0} = {1}.cuda( )", "device='cuda'", "torch.cuda.set_device( 0 )  # cuda", "{0} = f\"cuda:{{{1}}}\"", "if {0}.is_cuda : pass",
     "init(backend = 'nccl')", "with torch.cuda.amp.autocast():\n    {0} = {1}", "{0}={{'cuda' : 1}}", "torch.amp.GradScaler( )"]
)  # fmt: skip


@st.composite
def sources(draw, lines):
    count = draw(st.integers(0, 12))
    code = "".join(draw(lines).format(draw(NAMES), draw(NAMES)) + draw(st.sampled_from(["\n", "\n\n", "  \n"])) for _ in range(count))
    return draw(st.sampled_from(["", "import torch\n", '"""Doc."""\nimport torch\n', "#!/bin/python\n"])) + code


@settings(max_examples=200, deadline=None)
@given(sources(PLAIN))
def test_a_source_without_cuda_does_not_change(code):
    assert convert_source(code.encode(), "a.py").data == code.encode()


@settings(max_examples=200, deadline=None)
@given(sources(st.one_of(PLAIN, CUDA)))
def test_only_the_words_change(code):
    """Undoing the few words gives the source back byte for byte, so nothing else has changed; and the output parses."""
    result = convert_source(code.encode(), "a.py")
    ast.parse(result.after)
    restored = result.after
    restored = restored.replace("import torch_npu\n", "", 1)
    for npu, cuda in (('device="npu"', ""), ("npu", "cuda"), ("hccl", "nccl")):
        restored = restored.replace(npu, cuda)
    assert restored == code.replace('device="npu"', "")
    assert convert_source(result.data, "a.py").data == result.data


def test_own_sources_of_this_package_convert_and_parse():
    for path in sorted(Path(torch_npu.__path__[0]).glob("npu/*.py")):
        ast.parse(convert_source(path.read_bytes(), path.name).after)


# -- files and folders


@pytest.fixture
def tree(tmp_path):
    """A small project with good and bad files, and its state, to see that conversion does not touch it."""
    root = tmp_path / "project"
    (root / "sub").mkdir(parents=True)
    (root / "train.py").write_text("import torch\nx = torch.zeros(2).cuda()\ny = x.double()\n")
    (root / "sub" / "plain.py").write_text("print( 'hello' )\n")
    kernel = "__global__ void add_one(float* x) {}\nvoid run() { add_one<<<1, 1>>>(0); cudaMalloc(0, 1); }\n"
    (root / "sub" / "kernel.cu").write_text(kernel)
    (root / "config.yaml").write_text("device: cuda\n")
    return root


def state(root: Path) -> dict:
    return {str(path.relative_to(root)): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
            for path in sorted(root.rglob("*")) if not path.is_symlink()}  # fmt: skip


def rows(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_folder(tree, tmp_path, capsys):
    before = state(tree)
    assert main(["convert", "-i", str(tree), "-o", str(tmp_path / "out")]) == 0
    assert state(tree) == before
    out = tmp_path / "out" / "project_msft"
    assert (out / "train.py").read_text() == "import torch\nimport torch_npu\nx = torch.zeros(2).npu()\ny = x.double()\n"
    assert (out / "sub" / "plain.py").read_bytes() == (tree / "sub" / "plain.py").read_bytes()
    assert (out / "config.yaml").read_text() == "device: cuda\n"
    reports = out / "transplant_result_file"
    assert {path.name for path in reports.iterdir()} == {
        "change_list.csv", "unsupported_api.csv", "unknown_api.csv", "cuda_op_list.csv", "api_precision_advice.csv",
        "api_performance_advice.csv", "affinity_api_call.csv", "msFmkTranspltlog.txt", "report.html",
    }  # fmt: skip
    changes = rows(reports / "change_list.csv")
    assert changes[0] == ["File", "Start Line", "End Line", "OP", "Tips"]
    assert ["train.py", "2", "2", ".cuda()", ".npu()"] in changes
    assert {row[3] for row in rows(reports / "cuda_op_list.csv")[1:]} == {"add_one", "cudaMalloc"}
    assert rows(reports / "api_precision_advice.csv")[1][:4] == ["train.py", "3", "3", "torch.Tensor.double"]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o440 for path in reports.iterdir())
    page = (reports / "report.html").read_text()
    assert "<mark>" in page and "add_one" in page and "kernel.cu" in page
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["project_msft"]
    printed = capsys.readouterr().out
    assert str(reports) in printed and "1 files changed" in printed and "float64" in printed


def test_the_report_shows_two_lines_around_a_change(tmp_path):
    lines = [f"line_{number} = {number}" for number in range(9)]
    lines[4] = "x = y.cuda()"
    (tmp_path / "train.py").write_text("\n".join(lines) + "\n")
    assert main(["convert", "-i", str(tmp_path / "train.py"), "-o", str(tmp_path / "out.py")]) == 0
    page = next(tmp_path.rglob("report.html")).read_text()
    assert "x = y.<mark>npu</mark>()" in page and "<mark></mark>" not in page
    changes = page.partition('id="change_list"')[2].partition("</table>")[0]
    assert changes.count("<tr><td>") == 2 and ".cuda()" in changes
    assert [number for number in range(9) if f"line_{number} = " in page] == [0, 1, 2, 3, 5, 6]  # torch_npu is imported before line 0


def test_the_report_shows_each_of_several_changed_lines(tmp_path):
    (tmp_path / "train.py").write_text("import torch\na = x.cuda(0)\nb = y.cuda(1)\nc = z.cuda(2)\n")
    assert main(["convert", "-i", str(tmp_path / "train.py"), "-o", str(tmp_path / "out.py")]) == 0
    page = next(tmp_path.rglob("report.html")).read_text()
    for left in ("a = x.<mark>npu</mark>(0)", "b = y.<mark>npu</mark>(1)", "c = z.<mark>npu</mark>(2)"):
        assert page.count(left) == 1


def test_file_under_the_known_name(tmp_path, capsys):
    (tmp_path / "model_file.py").write_text("import torch\ntorch.cuda.synchronize()\n")
    arguments = ["-i", str(tmp_path / "model_file.py"), "-o", str(tmp_path / "model_file_out.py")]
    assert ms_fmk_transplt(arguments) == 0
    assert (tmp_path / "model_file_out.py").read_text() == "import torch\nimport torch_npu\ntorch.npu.synchronize()\n"
    assert (tmp_path / "model_file_out_transplant_result_file" / "unsupported_api.csv").exists()
    assert ms_fmk_transplt(arguments) == 1
    assert "exists already; cure: --force" in capsys.readouterr().err
    assert ms_fmk_transplt([*arguments, "--force"]) == 0


def test_tool_of_the_toolkit_folder(tmp_path):
    tool = Path(torch_npu.__path__[0]) / "softnpu" / "tools" / "ms_fmk_transplt" / "ms_fmk_transplt.py"
    (tmp_path / "a.py").write_text("import torch\nx = torch.ones(1).cuda()\n")
    command = [sys.executable, str(tool), "-i", "a.py", "-o", "b.py", "-v", "2.8.0", "-m"]
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(torch_npu.__path__[0])}
    process = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stderr
    assert ".npu()" in (tmp_path / "b.py").read_text()


def test_specify_device():
    assert 'torch.npu.set_device(int(os.environ.get("DEVICE_ID", 0)))' in converted("import torch\nx.cuda()\n", specify_device=True)


def test_distributed(tmp_path):
    project = tmp_path / "net"
    project.mkdir()
    (project / "main.py").write_text(
        "import torch\nfrom torch.utils.data import DataLoader\n\n\ndef main():\n    net = torch.nn.Linear(2, 2)\n    net = net.cuda()\n"
        "    loader = DataLoader(data, batch_size=4, shuffle=True)\n    other = DataLoader(data, 4)\n    DataLoader()\n    print(data, 4)\n"
        "    return net, loader, other\n"
    )
    arguments = ["-i", str(project), "-o", str(tmp_path), "distributed", "-m", "main.py", "-t", "net"]
    assert ms_fmk_transplt(arguments) == 0
    out = tmp_path / "net_msft_multi"
    text = (out / "main.py").read_text()
    ast.parse(text)
    wrapped = "torch.nn.parallel.DistributedDataParallel(net.npu(), device_ids=[torch.npu.current_device()])"
    assert f"    net = net.npu()\n    net = {wrapped}\n" in text
    assert "batch_size=4, sampler=torch.utils.data.distributed.DistributedSampler(data, shuffle=True))" in text
    assert "DataLoader(data, 4, sampler=torch.utils.data.distributed.DistributedSampler(data, shuffle=False))" in text
    assert "    DataLoader()\n    print(data, 4)\n" in text
    assert 'init_process_group("hccl")' in text
    assert "torchrun" in (out / "run_distributed_npu.sh").read_text() and os.access(out / "run_distributed_npu.sh", os.X_OK)


def test_distributed_without_the_model(tmp_path, capsys):
    (tmp_path / "main.py").write_text("import torch\nx.cuda()\n")
    arguments = ["-i", str(tmp_path / "main.py"), "-o", str(tmp_path / "out.py"), "distributed", "-m", "main.py"]
    assert ms_fmk_transplt(arguments) == 1
    assert "no assignment to `model` was found" in capsys.readouterr().err


# -- bad input: an error for the file, the rest is converted


BAD = {
    "syntax.py": (b"import torch\nx = (1,\n", "syntax error"),
    "python2.py": (b"import torch\nprint 'cuda'\n", "Python 2 source"),
    "python2_except.py": (b"try:\n    pass\nexcept IOError, e:\n    pass\n", "Python 2 source"),
    "binary.py": (b"x = '\xff\xfe'\n", "encoding"),
    "coding.py": (b"# -*- coding: klingon -*-\nx = 1\n", "klingon"),
    "nul.py": (b"x = 1\0\n", "syntax error"),
    "huge.py": (b"x = 1\n" * (2 << 20), "larger than"),
    "book.ipynb": (b'{"cells": []}', "notebook"),
    "deep.py": (b"x = " + b"(" * 5000 + b")" * 5000 + b"\n", ""),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_file_is_named_and_the_rest_is_converted(tree, tmp_path, capsys, name):
    data, reason = BAD[name]
    (tree / name).write_bytes(data)
    before = state(tree)
    assert main(["convert", "-i", str(tree), "-o", str(tmp_path)]) == 1
    out = tmp_path / "project_msft"
    assert (out / name).read_bytes() == data and state(tree) == before
    assert ".npu()" in (out / "train.py").read_text()
    message = next(line for line in capsys.readouterr().err.splitlines() if line.startswith(name))
    assert reason in message
    log = (out / "transplant_result_file" / "msFmkTranspltlog.txt").read_text()
    assert f"ERROR {message}" in log and name in (out / "transplant_result_file" / "report.html").read_text()


def test_what_is_no_file_is_named_and_left_out(tree, tmp_path, capsys):
    os.mkfifo(tree / "pipe.py")
    main(["convert", "-i", str(tree), "-o", str(tmp_path)])
    assert not (tmp_path / "project_msft/pipe.py").exists() and ".npu()" in (tmp_path / "project_msft/train.py").read_text()
    assert "pipe.py" in (log := (tmp_path / "project_msft/transplant_result_file/msFmkTranspltlog.txt").read_text())
    assert "not a regular file" in log


def test_links_are_not_followed(tree, tmp_path):
    (tree / "loop").symlink_to(tree)
    (tree / "sub" / "self.py").symlink_to("self.py")
    (tree / "outside.py").symlink_to("/etc/passwd")
    assert main(["convert", "-i", str(tree), "-o", str(tmp_path)]) == 1
    out = tmp_path / "project_msft"
    assert not (out / "loop").exists() and not (out / "outside.py").exists() and not (out / "sub" / "self.py").is_symlink()
    assert ".npu()" in (out / "train.py").read_text()
    assert (out / "transplant_result_file" / "msFmkTranspltlog.txt").read_text().count("symbolic link") == 3


@pytest.mark.parametrize(
    ("source", "output", "reason"),
    [
        ("project", "project", "inside the input"),
        ("project", "project/sub", "inside the input"),
        ("project/train.py", "project/train.py", "inside the input"),
        ("missing", "out", "does not exist"),
        ("project/config.yaml", "out.py", "is no Python source"),
        ("project", "project_file/x", "cannot write"),
    ],
)
def test_refusals(tree, tmp_path, capsys, source, output, reason):
    (tmp_path / "project_file").write_text("")
    before = state(tmp_path)
    assert main(["convert", "-i", str(tmp_path / source), "-o", str(tmp_path / output)]) == 1
    assert reason in capsys.readouterr().err
    assert {name: value[1] for name, value in state(tmp_path).items()} == {name: value[1] for name, value in before.items()}


def test_existing_output_needs_force(tree, tmp_path, capsys):
    existing = tmp_path / "project_msft" / "kept.txt"
    existing.parent.mkdir()
    existing.write_text("mine")
    assert main(["convert", "-i", str(tree), "-o", str(tmp_path)]) == 1
    assert existing.read_text() == "mine" and "--force" in capsys.readouterr().err
    assert main(["convert", "-i", str(tree), "-o", str(tmp_path), "--force"]) == 0
    assert not existing.exists() and (tmp_path / "project_msft" / "train.py").exists()


def test_read_only_output(tree, tmp_path, capsys):
    out = tmp_path / "locked"
    out.mkdir(mode=0o500)
    out = Path("/proc/self") if os.geteuid() == 0 else out  # root may write anywhere else
    assert main(["convert", "-i", str(tree), "-o", str(out)]) == 1
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.parametrize(("answer", "replaced"), [("y", True), ("n", False), ("", False)])
def test_a_person_is_asked_about_an_existing_output(tree, tmp_path, monkeypatch, answer, replaced):
    kept = tmp_path / "project_msft" / "kept.txt"
    kept.parent.mkdir()
    kept.write_text("")
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda question: answer)
    assert main(["convert", "-i", str(tree), "-o", str(tmp_path)]) == int(not replaced)
    assert kept.exists() != replaced


def test_progress_is_a_bar_on_a_terminal():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    entries = [types.SimpleNamespace(shown=f"{index}.py") for index in range(3)]
    terminal, pipe = Terminal(), io.StringIO()
    assert list(Progress(terminal).over(entries)) == list(Progress(pipe).over(entries)) == entries
    assert f"[{'#' * 30}] 3/3 2.py" in terminal.getvalue() and pipe.getvalue() == ""


def test_a_failure_leaves_no_output(tree, tmp_path, monkeypatch):
    from torch_npu.migrate import report

    monkeypatch.setattr(report, "write", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["convert", "-i", str(tree), "-o", str(tmp_path)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["project"]


def test_without_libcst_one_sentence(run, tmp_path):
    (tmp_path / "a.py").write_text("")
    code = "import sys; sys.modules['libcst'] = None  # as if it were not installed\nfrom torch_npu.migrate.__main__ import main\n"
    process = run(code + "sys.exit(main(['convert', '-i', 'a.py', '-o', 'b.py']))")
    assert process.returncode == 1 and 'cure: pip install "torch_npu[migrate]"' in process.stderr
    assert process.stderr.count("\n") == 1


def test_scripts_are_as_they_were_frozen():
    process = subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=SCRIPTS, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout


def test_report_renders_in_a_browser(tree, tmp_path):
    """Chromium reads the page and finds every row of the CSV files in it."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no chromium is installed")
    assert main(["convert", "-i", str(tree), "-o", str(tmp_path)]) == 0
    reports = tmp_path / "project_msft" / "transplant_result_file"
    picture = tmp_path / "report.png"
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    page = subprocess.run([*command, "--dump-dom", f"file://{reports / 'report.html'}"], capture_output=True, text=True, timeout=120)
    shown = [html.escape(text, quote=False) for file in reports.glob("*.csv") for row in rows(file)[1:] for text in row[3:]]
    text = page.stdout.replace("&quot;", '"')
    assert len(shown) > 5 and [part for part in shown if part not in text] == []
    subprocess.run([*command, f"--screenshot={picture}", f"file://{reports / 'report.html'}"], capture_output=True, timeout=120)
    assert picture.stat().st_size > 5000
