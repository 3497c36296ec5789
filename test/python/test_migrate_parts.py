"""The parts of torch_npu.migrate one by one, at their borders: rows of the report, the bar, files that are read, words, profiles."""

import ast
import csv
import importlib
import io
import re
import sys
from collections import Counter
from itertools import zip_longest
from types import SimpleNamespace

import pytest

pytest.importorskip("libcst", reason="conversion needs libcst")

import torch_npu  # noqa: F401
from torch_npu.migrate import convert, cuda_names, html, profiling, progress, project, report
from torch_npu.migrate.analysis import advice, apis, dtypes, python, uses
from torch_npu.migrate.analysis.operators import Operator, Support
from torch_npu.migrate.analysis.project import exit_code
from torch_npu.migrate.converter import convert_source
from torch_npu.migrate.findings import FileResult, Finding, Kind
from torch_npu.migrate.options import Options

# ---- The report ----

ROW = re.compile(r'<tr class="gap">|<tr><td class="number">(\d*)</td><td( class="old")?>(.*?)</td><td class="number">(\d*)</td>'
                 r'<td( class="new")?>(.*?)</td></tr>')  # fmt: skip


def text_of(lines):
    return "\n".join(lines)


def expected_rows(old, new, changes, context):
    """Every row of the two texts beside each other, of which those near to a change are kept."""
    rows, done = [], 0
    for a, b, c, d in [*changes, (len(old), len(old), len(new), len(new))]:
        rows += [(i, c - (a - i), False) for i in range(done, a)]
        left, right = [*range(a, b)], [*range(c, d)]
        rows += [(*pair, True) for pair in zip_longest(left, right)]
        done = b
    near = [i for i in range(len(rows)) if any(row[2] for row in rows[max(i - context, 0) : i + context + 1])]
    found = []
    for before, i in zip([None, *near], near):
        if before is not None and i != before + 1:
            found.append(None)
        found.append(rows[i])
    return found


@pytest.mark.parametrize("context", [0, 1, 2, 3])
@pytest.mark.parametrize("changes", [
    [(0, 1, 0, 1)], [(19, 20, 19, 20)], [(8, 9, 8, 9)], [(3, 4, 3, 4), (5, 6, 5, 6)], [(3, 4, 3, 4), (8, 9, 8, 9)],
    [(3, 4, 3, 4), (9, 10, 9, 10)],
    [(2, 2, 2, 5), (10, 12, 13, 14)], [(4, 7, 4, 5), (17, 17, 15, 16)], [(0, 0, 0, 1), (6, 7, 7, 10), (19, 20, 22, 23)], [],
], ids=str)  # fmt: skip
def test_rows_of_the_report_are_those_around_changes(changes, context):
    old = [f"line {i}" for i in range(20)]
    new, done = [], 0
    for a, b, c, d in changes:
        new += [*old[done:a], *(f"new {i}" for i in range(c, d))]
        done = b
    new += old[done:]
    page = html._lines(FileResult("a.py", text_of(old), text_of(new), changed_lines=changes), context)
    found = []
    for match in ROW.finditer(page):
        if match.group().startswith('<tr class="gap"'):
            found.append(None)
            continue
        left, is_old, a, right, is_new, b = match.groups()
        left, right = int(left) - 1 if left else None, int(right) - 1 if right else None
        found.append((left, right, bool(is_old or is_new)))
        assert re.sub("</?mark>", "", a) == (old[left] if left is not None else "")
        assert re.sub("</?mark>", "", b) == (new[right] if right is not None else "")
        assert bool(is_old) == (found[-1][2] and left is not None) and bool(is_new) == (found[-1][2] and right is not None)
    assert found == expected_rows(old, new, changes, context)
    assert page.count("<tr") == len(found) and page.startswith('<table class="code">')


def test_words_that_differ_are_marked_and_escaped():
    assert html._words("a < b", "a < c") == ("a &lt; <mark>b</mark>", "a &lt; <mark>c</mark>")
    assert html._words("f(x)", "f(x, y)") == ("f(x)", "f(x<mark>, y</mark>)")
    most = html._MARKED_WORDS
    assert "<mark>" in html._words("a " * (most // 2), "b " * (most // 2))[0]  # as many words as may be marked
    assert html._words("a " * (most // 2) + "<", "b") == ("a " * (most // 2) + "&lt;", "b")
    assert html._words("b", "a " * (most // 2) + "<")[1].endswith("&lt;")


def results():
    finding = Finding("a.py", 3, 4, "torch.f", "=tip & more", Kind.UNSUPPORTED)
    advised = Finding("a.py", 5, 5, "torch.g", "slow", Kind.PERFORMANCE)
    return [FileResult("a.py", "x\n", "y\n", [finding, advised], changed_lines=[(0, 1, 0, 1)]), FileResult("b.py", error="<broken>"),
            FileResult("c.py", "same", "same")]  # fmt: skip


def test_the_page_counts_what_it_shows():
    page = html.page("A <title>", results(), ["one", "two <3>"])
    assert "<h1>A &lt;title&gt;</h1><p>3 files read, 1 changed, 1 left as they are.</p>" in page
    for link in ('<a href="#unsupported_api">Not supported on npu<b>1</b></a>', '<a href="#api_performance_advice">Performance<b>1</b></a>',
                 '<a class="error" href="#errors">Left as they are<b>1</b></a>', '<a href="#lines">Lines side by side<b>1 files</b></a>'):
        assert link in page
    assert page.count("<a ") == 4 and "<pre>one\ntwo &lt;3&gt;</pre>" in page and "<td>b.py</td><td>&lt;broken&gt;</td>" in page
    assert "<tr><td>a.py:3</td><td>torch.f</td><td>=tip &amp; more</td></tr>" in page and page.count("<tr><td>a.py:") == 2
    order = [page.index(f'id="{name}"') for name in ("errors", "unsupported_api", "lines", "api_performance_advice")]
    assert order == sorted(order) and page.endswith("</html>\n")
    empty = html.page("t", [FileResult("c.py")], [])
    assert "<a " not in empty and "<h2 id=" not in empty and "1 files read, 0 changed, 0 left as they are." in empty


def test_report_files(tmp_path):
    folder = tmp_path / "new" / "folder"
    report.write(folder, results(), "title", ["one"])
    assert {path.name for path in folder.iterdir()} == {*(f"{kind.value}.csv" for kind in Kind), report.LOG, "report.html"}
    assert (folder / report.LOG).read_text() == "one\nERROR b.py: <broken>\n"
    with (folder / "unsupported_api.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [list(report.HEADER), ["a.py", "3", "4", "torch.f", "'=tip & more"]]
    assert (folder / "change_list.csv").read_text().splitlines() == [",".join(report.HEADER)]
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o440}


@pytest.mark.parametrize("value, shown", [("=1", "'=1"), ("+1", "'+1"), ("-1", "'-1"), ("@a", "'@a"), ("\ta", "'\ta"), ("\ra", "'\ra"),
                                          ("a=1", "a=1"), ("", ""), (3, 3), (-3, -3)])  # fmt: skip
def test_no_cell_is_a_formula(value, shown):
    assert report.cell(value) == shown and type(report.cell(value)) is type(shown)


def test_the_bar_grows_with_the_files_that_are_done(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    entries = [SimpleNamespace(shown=name) for name in ("a.py", "b" * 50, "c.py", "d.py")]
    taken = progress.Progress(terminal).over(iter(entries))
    assert next(taken) is entries[0]
    assert terminal.getvalue() == f"\r[{'#' * 7:<30}] 1/4 {'a.py':<40}"
    assert list(taken) == entries[1:]
    *bars, last = terminal.getvalue().split("\r")[1:]
    assert [bar.count("#") for bar in (*bars, last)] == [7, 15, 22, 30]
    assert bars[1] == f"[{'#' * 15:<30}] 2/4 {'b' * 40}" and last == f"[{'#' * 30}] 4/4 {'d.py':<40}\n"
    assert list(progress.Progress(none := Terminal()).over([])) == [] and none.getvalue() == ""
    monkeypatch.setattr(sys, "stderr", terminal)
    assert progress.Progress()._stream is terminal


# ---- Files ----


def test_which_files_are_read_and_in_which_order(tmp_path, monkeypatch):
    monkeypatch.setattr(project, "MAX_BYTES", 5 << 20)
    for name in ("b/z.py", "b/a.py", "a.py", "c.txt", ".git/x.py", "b/__pycache__/x.py", ".venv/x.py", "node_modules/x.py", "d.ipynb"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "e.cu").write_bytes(b"x" * (5 << 20))
    (tmp_path / "f.cu").write_bytes(b"x" * ((5 << 20) + 1))
    (tmp_path / "g.txt").write_bytes(b"x" * ((5 << 20) + 1))
    (tmp_path / "link").symlink_to("b")
    found = list(project.sources(tmp_path))
    assert [entry.path for entry in found] == ["link", "a.py", "c.txt", "d.ipynb", "e.cu", "f.cu", "g.txt", "b/a.py", "b/z.py"]
    problems = {entry.path: entry.problem.partition(":")[0] for entry in found if entry.problem}
    assert problems == {"link": "a symbolic link to a folder", "d.ipynb": "a notebook", "f.cu": "larger than 5 MB"}
    (alone,) = project.sources(tmp_path / "a.py")
    assert (alone.path, alone.suffix, alone.shown) == ("a.py", ".py", "a.py")
    assert project.Source("a\nb\r\udcff.py", tmp_path).shown == "a\\nb\\r\\udcff.py"


@pytest.mark.parametrize("data, text, encoding", [(b"x", "x", "utf-8"), (b"\xef\xbb\xbfx", "x", "utf-8-sig"),
                                                  (b"# coding: latin-1\r\n\xe9", "# coding: latin-1\r\n\xe9", "iso-8859-1")])  # fmt: skip
def test_encodings_are_those_that_python_finds(data, text, encoding):
    assert project.decode(data) == (text, encoding)


@pytest.mark.parametrize("deeper", [0, 1])
def test_sources_that_nest_too_deeply_are_left(deeper, monkeypatch):
    assert [uses.depth(tree) for tree in (ast.Load(), ast.parse("x"), ast.parse("-----x"), ast.parse(""))] == [1, 4, 9, 1]
    monkeypatch.setattr(convert, "_MAX_DEPTH", 20)
    source = "-" * (16 + deeper) + "x"
    assert convert._problem(source.encode()) == ("nests deeper than 20 levels: copied as it is" if deeper else "")


@pytest.mark.parametrize("source, problem", [
    (b"x = 1\n", ""), (b"print 'a'\n", "line 1: Python 2 source; cure: convert it to Python 3 first (2to3)"),
    (b"\nx = (\n", "line 2: syntax error: '(' was never closed"), (b"# coding: rot13\nx\n", "its coding line names no encoding of text: "),
    (b"# coding: ascii\n'\xff'\n", "not text in the encoding it declares (ascii): byte 17"),
])  # fmt: skip
def test_why_a_source_is_not_converted(source, problem):
    assert convert._problem(source) == problem if not problem.endswith(": ") else convert._problem(source).startswith(problem)


# ---- What is inserted ----

DEVICE = 'torch.npu.set_device(int(os.environ.get("DEVICE_ID", 0)))'
RANK = ['torch.npu.set_device(int(os.environ.get("LOCAL_RANK", 0)))', "if not torch.distributed.is_initialized():",
        '    torch.distributed.init_process_group("hccl")']  # fmt: skip


@pytest.mark.parametrize("head, inserted, tail", [
    ("import torch\n", ["import torch_npu", "import os", "import torch.distributed"], ""),
    ("from torch import nn\n", ["import torch_npu", "import os", "import torch.distributed"], ""),
    ('"""Doc."""\n', ["import torch_npu", "import os", "import torch", "import torch.distributed"], ""),
    ('"""Doc."""\nfrom __future__ import annotations\n', ["import torch_npu", "import os", "import torch", "import torch.distributed"], ""),
    ("", ["import torch_npu", "import os", "import torch", "import torch.distributed"], ""),
    ("", ["import torch_npu", "import os", "import torch", "import torch.distributed"], "'no docstring'\n"),
    ("import torch_npu, torchvision\n", ["import os", "import torch", "import torch.distributed"], None),
])  # fmt: skip
def test_what_a_chosen_card_needs_is_inserted(head, inserted, tail):
    if tail is None:  # torch_npu is there already, and is no import of torch
        head, tail, front = "", head, ""
        after = convert_source(f"{tail}x.cuda()\n".encode(), "a.py", Options(specify_device=True)).after
        assert after == "\n".join([*inserted, DEVICE]) + f"\n{tail}x.npu()\n" + front
        return
    after = convert_source(f"{head}x.cuda()\n{tail}".encode(), "a.py", Options(specify_device=True)).after
    assert after == head + "\n".join([*inserted, DEVICE]) + f"\nx.npu()\n{tail}"


def test_what_several_cards_need_is_inserted():
    source = "import torch\n\nnet = f()\nif x:\n    net = g(1)\nnet2 = h()\nnet.a = h()\nnet = other\n"
    after = convert_source(source.encode(), "a.py", Options(target_model="net"), True).after
    wrapped = "    net = torch.nn.parallel.DistributedDataParallel(net.npu(), device_ids=[torch.npu.current_device()])\n"
    head = "\n".join(["import torch", "import torch_npu", "import os", "import torch.distributed", *RANK])
    assert after == head + source.removeprefix("import torch").replace("    net = g(1)\n", "    net = g(1)\n" + wrapped)
    with pytest.raises(ValueError, match="no assignment to `model` was found; cure: name the variable that holds the model with -t"):
        convert_source(source.encode(), "a.py", Options(), True)


@pytest.mark.parametrize("before, after", [
    ("DataLoader(d)", "DataLoader(d, sampler=S(d, shuffle=False))"), ("DataLoader(d, 4)", "DataLoader(d, 4, sampler=S(d, shuffle=False))"),
    ("data.DataLoader(d, shuffle=f(1))", "data.DataLoader(d, sampler=S(d, shuffle=f(1)))"),
    ("DataLoader(batch_size=2, dataset=d.x, shuffle=True)", "DataLoader(batch_size=2, dataset=d.x, sampler=S(d.x, shuffle=True))"),
    ("DataLoader(dataset=d)", "DataLoader(dataset=d, sampler=S(d, shuffle=False))"), ("DataLoader()", "DataLoader()"),
    ("DataLoader(d, sampler=s)", "DataLoader(d, sampler=s)"), ("DataLoader(d, batch_sampler=s)", "DataLoader(d, batch_sampler=s)"),
    ("DataLoaders(d)", "DataLoaders(d)"), ("DataLoader.f(d)", "DataLoader.f(d)"),
])  # fmt: skip
def test_each_loader_gets_a_sampler(before, after):
    made = convert_source(f"import torch\nmodel = f()\nx = {before}\n".encode(), "a.py", Options(), True).after
    assert made.splitlines()[-1] == "x = " + after.replace("S(", "torch.utils.data.distributed.DistributedSampler(")


# ---- Words ----


@pytest.mark.parametrize("text, expected", [
    ("cuda", "npu"), ("cuda:0", "npu:0"), ("cuda:0,cuda:1", "npu:0,npu:1"), ("nccl", "hccl"), ("NCCL", "HCCL"),
    ("cpu:gloo,cuda:nccl", "cpu:gloo,npu:hccl"), ("cuda:nccl,cpu:gloo", "npu:hccl,cpu:gloo"),
    ("torch.cuda.FloatTensor", "torch.npu.FloatTensor"),
    ("torch.cuda.FloatStorage", "torch.npu.FloatStorage"), ("torch.cuda.amp", None), ("cudax", None), ("my.torch.cuda.FloatTensor", None),
    ("cpu:gloo", None), ("cpu:gloo,cuda:gloo", None), ("", None), ("CUDA_LAUNCH_BLOCKING", "ASCEND_LAUNCH_BLOCKING"),
])  # fmt: skip
def test_texts_said_for_npu(text, expected):
    assert cuda_names.string_on_npu(text) == expected


@pytest.mark.parametrize("name, expected", [
    ("torch.cuda", "torch.npu"), ("torch.cuda.Stream", "torch.npu.Stream"), ("torch.cuda.amp.autocast", "torch.npu.amp.autocast"),
    ("torch.cuda.CUDAGraph", "torch.npu.NPUGraph"), ("torch.cuda.cudart", None), ("torch.cuda.amp.nothing", None),
    ("torch.cuda.nothing.at.all", None),
])  # fmt: skip
def test_names_said_for_npu(name, expected):
    assert cuda_names.on_npu(name) == expected


@pytest.mark.parametrize("counts, never, unsupported, fallback", [
    ({}, 0, 0, 0), ({"native": 3, "none": 0}, 0, 0, 0), ({"fallback": 1}, 0, 0, 1), ({"none": 1}, 0, 1, 1),
    ({"none": 2, "fallback": 1}, 0, 1, 1),
])  # fmt: skip
def test_what_fails_a_project(counts, never, unsupported, fallback):
    assert [exit_code(counts, how) for how in ("never", "unsupported", "fallback")] == [never, unsupported, fallback]


def test_dtypes_by_the_letters_of_a_row(monkeypatch):
    monkeypatch.setattr(dtypes, "_table", lambda: (["half", "float", "bool", "int8", "int16"], {"f": "yef-x", "g_": "y----"}))
    expected = {"half": "composite", "float": "extension", "bool": "fallback", "int16": dtypes.DIFFERS}
    for name in ("aten::f", "torch.f", "torch.Tensor.f", "torch.Tensor.f_", "f"):
        assert dtypes.dtypes_of(name, Support.COMPOSITE) == expected
    assert dtypes.dtypes_of("aten::f", None)["half"] == dtypes.dtypes_of("aten::f", Support.NATIVE)["half"] == "native"
    assert dtypes.dtypes_of("g_", None) == {"half": "native"} and dtypes.dtypes_of("g", None) == dtypes.dtypes_of("h", None) == {}


def test_counterparts_are_told_if_this_build_has_them(monkeypatch):
    monkeypatch.setattr(advice, "_AFFINITY", {"a": "optim.NpuFusedAdam", "b": "optim.Nothing", "c": "mem_get_info", "d": "nothing.at.all"})
    assert [advice.affinity(name) for name in "abcde"] == ["torch_npu.optim.NpuFusedAdam", "", "torch.npu.mem_get_info", "", ""]


# ---- Support ----


@pytest.mark.parametrize("supports, expected", [
    ((), None), ((Support.NONE,), Support.NONE), ((Support.NATIVE,), Support.NATIVE), ((Support.NONE, Support.NATIVE), Support.NATIVE),
    ((Support.NATIVE, Support.FALLBACK, Support.NONE), Support.FALLBACK), ((Support.COMPOSITE, Support.EXTENSION), Support.COMPOSITE),
])  # fmt: skip
def test_the_least_supported_operator_counts(monkeypatch, supports, expected):
    monkeypatch.setattr(apis, "operators_of", lambda api: tuple(Operator(str(i), support) for i, support in enumerate(supports)))
    assert apis.support_of("torch.f") is expected


@pytest.mark.parametrize("api", ["torch.nn.LSTM", "torch.optim.Adam", "torch.nn.functional.interpolate"])
def test_operators_come_by_falling_number_of_support_and_name(api):
    found = apis.operators_of(api)
    assert len(found) > 1 and list(found) == sorted(found, key=lambda op: (-int(op.support), op.name))
    assert not any(op.name.removeprefix("aten::").startswith(("cudnn", "_cudnn", "miopen", "mps", "mkldnn")) for op in found)


TORCHLIKE = """
import torch

def leaf(x):
    return torch.relu(x)

def middle(x):
    return leaf(x)

def outer(x):
    import torch.special as own
    return middle(x) + own.expit(x) + unknown(x) + x.cos()

def itself(x):
    return itself(torch.exp(x))

class Module:
    def helper(self, x):
        return torch.sin(x)

    def forward(self, x):
        return self.helper(x) + self.missing(x)

made = eval("lambda x: torch.cos(x)")
"""


def test_sources_of_torch_are_read_to_a_depth(tmp_path, monkeypatch):
    """A function counts what the functions of torch that it calls reach, and a method those of its class."""
    (tmp_path / "torchlike.py").write_text(TORCHLIKE)
    monkeypatch.syspath_prepend(str(tmp_path))
    made = importlib.import_module("torchlike")

    def reached(function, depth, cls=None):
        return {op.name for op in apis._of_function(function, depth, cls)}

    assert [reached(made.outer, depth) for depth in range(5)] == [
        set(), {"aten::special_expit"}, {"aten::special_expit"}, *[{"aten::special_expit", "aten::relu"}] * 2]
    assert reached(made.itself, 3) == {"aten::exp"} and reached(made.made, 3) == set()  # without a source
    assert reached(made.Module.forward, 2, made.Module) == {"aten::sin"} and reached(made.Module.forward, 2) == set()
    assert reached(made.Module.forward, 1, made.Module) == set()
    for name in ("cudnn_affine_grid_generator", "_cudnn_ctc_loss", "miopen_batch_norm", "mkldnn_linear", "no_such"):
        assert apis._named(name) == ()
    assert [op.name for op in apis._named("relu")] == ["aten::relu"]


@pytest.mark.parametrize("code, kinds", [
    ("torch.float64", {Kind.PRECISION}), ("x.double()", {Kind.PRECISION}), ("torch.nonzero(x)", {Kind.PERFORMANCE}),
    ("torch.cuda.synchronize()", {Kind.PERFORMANCE}), ("torch.cuda.cudart()", {Kind.UNSUPPORTED}), ("torch.cuda.no_such", set()),
    ("torch.no_such", {Kind.UNKNOWN}), ("torch.relu(x)", set()), ("torch.optim.Adam(p)", {Kind.AFFINITY}), ("x.no_such", set()),
    ("import cupy", {Kind.CUDA}), ("from triton import language", {Kind.CUDA}), ("import cupyx", set()),
    ("torch.utils.cpp_extension.load(n)", {Kind.CUDA}),
])  # fmt: skip
def test_what_there_is_to_say_about_a_use(code, kinds):
    analysis = python.analyse_python(f"import torch\n\n{code}\n", "a.py")
    assert {finding.kind for finding in analysis.findings} == kinds and analysis.lines == 3 and not analysis.error
    assert {(finding.line, finding.end_line) for finding in analysis.findings} <= {(3, 3)}


@pytest.mark.parametrize("code, error", [("x = (", "line 1: '(' was never closed"), ("\nx = )", "line 2: unmatched ')'"),
                                         ("x = 1\0", "source code string cannot contain null bytes")])  # fmt: skip
def test_a_bad_source_is_an_error_and_no_exception(code, error):
    analysis = python.analyse_python(code + "\n\n", "a.py")
    assert analysis.error.startswith(error) and analysis.lines == code.count("\n") + 2 and not analysis.uses


# ---- Profiles ----


def profiled(**records):
    """Of {name: (seconds, calls, types, different shapes)}."""
    profile = profiling.OperatorProfile()
    for name, (seconds, calls, types, shapes) in records.items():
        profile.records[name] = profiling.OperatorRecord(name, Support.NATIVE, calls, seconds, Counter(types), Counter(
            {((i,),): 1 + (i == 3) for i in range(shapes)}))
    return profile


@pytest.mark.parametrize("calls, shapes, warned", [(8, 8, True), (15, 8, True), (16, 8, False), (7, 7, False), (30, 16, True),
                                                   (32, 16, False)])  # fmt: skip
def test_shapes_that_an_executor_cache_hardly_helps(calls, shapes, warned):
    found = profiled(f=(1.0, calls, ["float32"], shapes)).warnings()
    assert found == ([f"dynamic shapes: f saw {shapes} different shapes in {calls} calls"] if warned else [])


def test_types_that_cards_lack_are_named_three_at_most():
    of64, of32 = (1.0, 1, ["float64", "int64"], 1), (1.0, 1, ["float32"], 1)
    assert profiled(a=of32).warnings() == []
    (said,) = profiled(d=of64, b=of64, a=of32, c=of64, e=of64).warnings()
    assert said == "float64 in 4 operators, among them b, c, d: slow or missing on Ascend cards"


def test_a_summary_shares_the_time():
    summary = profiled(a=(1.0, 2, ["float32", "bool"], 12), b=(3.0, 5, [], 1)).summary()
    assert [(row["operator"], row["time"], row["calls"]) for row in summary["operators"]] == [("b", 0.75, 5), ("a", 0.25, 2)]
    rows = {row["operator"]: row for row in summary["operators"]}
    assert rows["a"]["dtypes"] == ["bool", "float32"] and rows["a"]["different_shapes"] == 12 and len(rows["a"]["shapes"]) == 10
    assert rows["a"]["shapes"][0] == [[3]] and summary["classes"]["native"] == {"operators": 2, "calls": 7, "time": 1.0}
    assert summary["classes"]["fallback"] == {"operators": 0, "calls": 0, "time": 0.0}
    nothing = profiled(a=(0.0, 1, [], 1)).summary()
    assert nothing["operators"][0]["time"] == 0.0 and profiling.OperatorProfile().summary()["operators"] == []
    lines = profiled(a=(1.0, 2, ["float32"], 1), b=(3.0, 5, [], 1)).table(1).splitlines()
    assert lines[1].split() == ["b", "native", "5", "75.0%"] and lines[2] == "... and 1 more"
    assert lines[3].startswith("native 2 operators, 100.0% of time; extension 0 operators, 0.0% of time")
