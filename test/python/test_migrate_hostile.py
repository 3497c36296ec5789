"""torch_npu.migrate on sources that somebody has made to break it: each file is dealt with, and nothing that is written executes."""

import csv
import os
import subprocess

import pytest

pytest.importorskip("libcst", reason="conversion needs libcst")
hypothesis = pytest.importorskip("hypothesis", reason="property tests need hypothesis")
from hypothesis import given, settings, strategies as st  # noqa: E402

from torch_npu.migrate.__main__ import main  # noqa: E402
from torch_npu.migrate.converter import convert_source  # noqa: E402
from torch_npu.migrate.edits import Edit, apply, changed_lines  # noqa: E402

CUDA = "import torch\nx = torch.ones(2).cuda()\n"


def convert(folder, out, *more):
    return main(["convert", "-i", str(folder), "-o", str(out), *more])


def rows(folder, name):
    with (folder / "transplant_result_file" / name).open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))[1:]


@pytest.mark.parametrize("codec", ["hex", "rot13", "base64", "zip", "no-such-codec", "undefined"])
@pytest.mark.parametrize("command", ["convert", "analyse"])
def test_a_coding_line_that_names_no_text_encoding_is_reported_and_the_rest_is_done(tmp_path, capsys, codec, command):
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.py").write_text(f"# coding: {codec}\n{CUDA}")
    (source / "b.py").write_text(CUDA)
    arguments = ["-o", str(tmp_path / "out")] if command == "convert" else []
    assert main([command, "-i", str(source), *arguments]) == 1
    captured = capsys.readouterr()
    assert "a.py" in captured.out + captured.err and "Traceback" not in captured.err
    if command == "convert":
        assert ".npu()" in (tmp_path / "out/in_msft/b.py").read_text()
        assert (tmp_path / "out/in_msft/a.py").read_bytes() == (source / "a.py").read_bytes()


@pytest.mark.parametrize("name", [b"caf\xe9.py", b"a\nb.py", b"=cmd|' !A0.py"])
def test_file_names_of_any_bytes(tmp_path, name, capsys):
    source = tmp_path / "in"
    source.mkdir()
    path = os.path.join(os.fsencode(source), name)
    with open(path, "wb") as file:
        file.write(b"import torch\ntorch.cuda.cudart()\nx = torch.ones(2).cuda()\n")
    assert convert(source, tmp_path / "out") == 0
    converted = os.path.join(os.fsencode(tmp_path / "out/in_msft"), name)
    with open(converted, "rb") as file:
        assert b".npu()" in file.read()
    (row,) = rows(tmp_path / "out/in_msft", "unsupported_api.csv")
    assert row[3] == "torch.cuda.cudart" and not row[0].startswith("=") and "\n" not in row[0]
    assert main(["analyse", "-i", str(source), "-o", str(tmp_path / "analysis"), "--fail-on", "never"]) == 0
    capsys.readouterr().out.encode()  # can be printed


@pytest.mark.parametrize("code", ["x = 1\ny = x.cuda()\n" * 1000,
                                  "import torch\n" + "\n" * 20000 + "x.cuda(\n", CUDA + "\n" * 20000 + "x.cuda()\n",
                                  "/*" * 100_000, "x = '" + "cuda " * 100_000 + "'\nimport torch\ntorch.ones(1).cuda()\n"],
                         ids=["alternating", "blank lines, bad", "blank lines", "comments", "long line"])  # fmt: skip
def test_long_sources_take_linear_time(tmp_path, code):
    """With the quadratic and cubic steps that were here once, each of these took minutes."""
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.py").write_text(code)
    (source / "a.cu").write_text(code * 4)
    convert(source, tmp_path / "out")
    assert (tmp_path / "out/in_msft/transplant_result_file/report.html").stat().st_size


LINES = st.lists(st.sampled_from(["", "a", "bb", "x.cuda()", "é"]), max_size=8).map("\n".join)


@given(LINES, st.data())
@settings(max_examples=300, deadline=None)
def test_changed_lines_lead_from_the_source_to_the_result(text, data):
    source, edits, position = text.encode(), [], 0
    while position <= len(source) and data.draw(st.booleans()):
        start = data.draw(st.integers(position, len(source)))
        end = data.draw(st.integers(start, len(source)))
        edits.append(Edit(start, end, data.draw(st.sampled_from(["", "n", "new\n", "\n", "a\nb"])), "api", "tip"))
        position = end + 1
    old, new = source.split(b"\n"), apply(source, edits).split(b"\n")
    made, done = [], 0
    for a, b, c, d in changed_lines(source, edits):
        made += old[done:a]
        assert len(made) == c
        made += new[c:d]
        done = b
    assert made + old[done:] == new


def test_the_page_shows_each_changed_line_beside_its_old_one(tmp_path):
    result = convert_source(b"import torch\n\nx = 1\nx.cuda()\ny = 2\n", "a.py")
    assert result.changed_lines == [(1, 1, 1, 2), (3, 4, 4, 5)]


def test_the_run_script_executes_nothing_but_the_program(tmp_path):
    source, name = tmp_path / "in", "-a $(touch X) `touch Y`\n' b.py"
    source.mkdir()
    (source / name).write_text("import torch\nmodel = torch.nn.Linear(2, 2)\nmodel = model.cuda()\n")
    assert convert(source, tmp_path / "out", "distributed", "-m", name) == 0
    folder = tmp_path / "out/in_msft_multi"
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "torchrun").write_text('#!/bin/bash\nprintf "%s\\0" "$@" > arguments\n')
    (tools / "torchrun").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    subprocess.run(["bash", str(folder / "run_distributed_npu.sh"), "--epochs", "3"], check=True, env=environment)
    assert (folder / "arguments").read_text().split("\0")[2:-1] == [f"./{name}", "--epochs", "3"]
    assert not (folder / "X").exists() and not (folder / "Y").exists()


def test_the_console_says_what_is_not_supported_and_where_it_is_listed(tmp_path, capsys):
    (tmp_path / "a.py").write_text("import torch\ntorch.cuda.cudart()\ntorch.cuda.jiterator(None)\n")
    assert convert(tmp_path / "a.py", tmp_path / "b.py") == 0
    printed = capsys.readouterr().out
    where = tmp_path / "b_transplant_result_file/unsupported_api.csv"
    assert "2 uses of APIs that npu does not have" in printed and str(where) in printed and where.exists()
