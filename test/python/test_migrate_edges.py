"""Corners of torch_npu.migrate: lines that the other tests of it do not reach."""

import os
import subprocess
import sys

import pytest

from torch_npu.migrate import convert, cuda_names, edits, html, profiling
from torch_npu.migrate.analysis import apis, operators
from torch_npu.migrate.analysis.operators import Support
from torch_npu.migrate.converter import convert_source
from torch_npu.migrate.ms_fmk_transplt import main
from torch_npu.migrate.options import Options
from torch_npu.migrate.project import Output, Refusal

HEAD = "import torch\n"


@pytest.mark.parametrize("before, after", [
    ("torch.distributed.Backend.NCCL", '"hccl"'),
    ("from .cuda import x\nx.cuda", None),
    ("from torch.cuda import *", None),
    ("from . import torch_npu\ny = z.cuda()", "from . import torch_npu\ny = z.npu()"),
])  # fmt: skip
def test_names(before, after):
    """A relative import named torch_npu is not the package: the package is imported as well."""
    result = convert_source((HEAD + before + "\n").encode(), "file.py").after
    assert result.replace("import torch_npu\n", "", 1) == HEAD + (before if after is None else after) + "\n" or (
        result == HEAD + "import torch_npu\n" + (after or before) + "\n")


def test_a_function_that_was_imported_by_name_is_listed_and_left():
    source = "from torch import get_autocast_gpu_dtype\nget_autocast_gpu_dtype()\n"
    result = convert_source(source.encode(), "file.py")
    assert result.after == source
    assert any("torch.get_autocast_dtype" in str(finding) for finding in result.findings)


def test_a_loader_with_a_sampler_keeps_it(tmp_path):
    (tmp_path / "main.py").write_text("import torch\nfrom torch.utils.data import DataLoader\nmodel = torch.nn.Linear(2, 2).cuda()\n"
                                      "a = DataLoader(data, sampler=mine)\nb = DataLoader(dataset=data, batch_sampler=mine)\n"
                                      "c = DataLoader(dataset=data)\n")
    assert main(["-i", str(tmp_path / "main.py"), "-o", str(tmp_path / "out.py"), "distributed", "-m", "main.py"]) == 0
    text = (tmp_path / "out.py").read_text()
    assert "a = DataLoader(data, sampler=mine)\nb = DataLoader(dataset=data, batch_sampler=mine)\n" in text
    assert "c = DataLoader(dataset=data, sampler=torch.utils.data.distributed.DistributedSampler(data, shuffle=False))" in text


def test_a_main_file_that_does_not_exist(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(Refusal, match="the main file b.py does not exist below .*; cure: name it with `distributed -m`"):
        convert.run(tmp_path / "a", tmp_path / "out", Options(distributed=True, main_file="b.py"), False, None, None)


def test_a_line_is_inserted_behind_a_comment_or_at_the_end():
    assert edits.insert_line(b"a  # b\nc\n", 0, ["x", "y"], "\n", "api", "tip") == edits.Edit(7, 7, "x\ny\n", "api", "tip")
    assert edits.insert_line(b"a\nc", 2, ["x"], "\r\n", "api", "tip") == edits.Edit(3, 3, "\r\nx\r\n", "api", "tip")


def test_a_replaced_output_comes_back_if_the_new_one_cannot_be_moved(tmp_path):
    (tmp_path / "in.py").write_text("")
    (tmp_path / "out.py").write_text("old")
    output = Output(tmp_path / "out.py", tmp_path / "in.py", force=True)
    with pytest.raises(OSError):
        output.commit(tmp_path / "was_never_made")
    assert (tmp_path / "out.py").read_text() == "old"
    (output.work / "new").write_text("new")
    output.commit(output.work / "new")
    output.close()
    assert (tmp_path / "out.py").read_text() == "new" and not output.work.exists()


def test_words_of_very_long_lines_are_not_marked():
    short, long = html._words("a b", "a c"), html._words("a " * html._MARKED_WORDS, "b " * html._MARKED_WORDS)
    assert any("<mark>" in text for text in short) and not any("<mark>" in text for text in long)


def test_names_of_torch():
    assert apis.is_known("torch.nn.Linear") and not apis.is_known("torch.nn.Liner") and not apis.is_known("torch.Tensor.cudas")
    assert apis.is_known("torch.utils.data.distributed.DistributedSampler") and apis.is_known("torch.Tensor.shape.numel")
    assert not apis._is_module("torch.nowhere.at.all") and apis._is_module("torch.utils.tensorboard")


@pytest.mark.parametrize("name, expected", [("aten::add.Tensor", Support.NATIVE), ("aten::linear", Support.COMPOSITE),
                                            ("aten::_cudnn_init_dropout_state", Support.NONE),
                                            ("aten::_dyn_quant_pack_4bit_weight", Support.FALLBACK)])
def test_support_without_a_card_is_what_is_registered(monkeypatch, name, expected):
    monkeypatch.setattr(operators, "_table", dict)
    assert operators.overload_support(name) is expected


def test_words_of_classes_functions_and_the_rest():
    class Some:
        shown, _hidden = 1, 2

    assert cuda_names._words(Some) == ["shown"]
    assert cuda_names._words(lambda a, b=1, *args, **kwargs: 0) == ["a", "b"]
    assert cuda_names._words(3) == [] and cuda_names._words(dict.fromkeys) in ([], ["iterable", "value"])


@pytest.mark.parametrize("body, code, said", [
    ("raise SystemExit(3)", 1, "the script failed after 2 operators: SystemExit(3)"), ("raise SystemExit(0)", 0, ""),
    ("raise SystemExit", 0, ""), ("raise ValueError('no CUDA')", 1, "ValueError('no CUDA'); cure: --device npu"),
    ("raise ValueError('no')", 1, "ValueError('no')\n"),
])  # fmt: skip
def test_how_a_profiled_script_ends(tmp_path, monkeypatch, capsys, body, code, said):
    monkeypatch.setattr("sys.path", sys.path[:])
    monkeypatch.setattr("sys.argv", sys.argv[:])
    script = tmp_path / "train.py"
    script.write_text(f"import sys, torch\nassert sys.argv[1:] == ['-v', '2']\ntorch.Tensor([1, 2]).exp()\n{body}\n")
    assert profiling.run_script(str(script), ["-v", "2"], "cpu", None, "unsupported") == code
    captured = capsys.readouterr()
    assert "aten::exp" in captured.out and said in captured.err and bool(captured.err) == bool(code)
    assert ("cure" in captured.err) == ("cure" in said)


def test_a_script_that_is_not_there(tmp_path):
    with pytest.raises(Refusal, match="the script .*none.py does not exist"):
        profiling.run_script(str(tmp_path / "none.py"), [], "cpu", None, "unsupported")


def test_a_profile_says_how_many_rows_it_leaves_out():
    import torch

    with profiling.OperatorProfile() as profile:
        x = torch.ones(2)
        x.exp(), x.sin(), x.cos()
    whole, part = profile.table().splitlines(), profile.table(2).splitlines()
    count = len(profile.summary()["operators"])
    assert count >= 3 and f"... and {count - 2} more" in part and not any(line.startswith("...") for line in whole)
    assert part[:3] == whole[:3] and part[-1] == whole[-1]


def test_the_program_is_run_as_a_module(tmp_path):
    (tmp_path / "a.py").write_text("import torch\nx.cuda()\n")
    command = [sys.executable, "-m", "torch_npu.migrate", "convert", "-i", "a.py", "-o", "b.py"]
    done = subprocess.run(command, cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True)
    assert done.returncode == 0 and "x.npu()" in (tmp_path / "b.py").read_text(), done.stderr
