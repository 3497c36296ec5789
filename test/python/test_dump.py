"""ACL_DUMP_DATA=1, init_dump, set_dump, finalize_dump: what operators read and wrote, as numpy files with an index."""

import json
import stat
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from torch_npu import _dump_settings
from torch_npu.compare.folder import read

PROGRAM = """
import torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).npu()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    net(torch.ones(2, 4, device="npu")).sum().backward()
    optimizer.step()
print("done")
"""


@pytest.fixture
def dump(tmp_path, monkeypatch):
    """dump(settings) begins a dump in an empty folder, dump.launches() ends it and reads what was written."""

    class Dump:
        def __call__(self, settings=""):
            monkeypatch.setenv("TORCH_NPU_DUMP", f"path={tmp_path}" + (f",{settings}" if settings else ""))
            torch.npu.init_dump()

        def launches(self):
            torch.npu.finalize_dump()
            return read(next(tmp_path.glob("npu_dump_*")))

    yield Dump()
    if torch.npu._dump._running:
        torch.npu.finalize_dump()


def folder_of(tmp_path: Path) -> Path:
    (found,) = tmp_path.glob("npu_dump_*")
    return found


@pytest.mark.parametrize("level", ["0", "1", "2"])
def test_an_unchanged_program_leaves_every_launch_behind(run, tmp_path, level):
    process = run(PROGRAM, ACL_DUMP_DATA="1", TASK_QUEUE_ENABLE=level, SOFTNPU_ASYNC="1")
    assert (process.returncode, process.stdout.strip(), process.stderr) == (0, "done", "")
    folder = folder_of(tmp_path)
    launches = read(folder)
    assert [launch.order for launch in launches] == list(range(len(launches)))
    names = {launch.operator for launch in launches}
    assert {"aten::addmm", "aten::relu", "aten::threshold_backward", "aten::mm", "aten::_foreach_add_"} <= names
    assert {launch.step for launch in launches} == {0, 1}
    first = next(launch for launch in launches if launch.operator == "aten::addmm")
    bias, x, weight = (t.values() for t in first.inputs)
    assert first.aclnn == "aclnnAddmm" and first.line == "<string>:8 in <module>" and first.module == "0 (Linear)"
    np.testing.assert_allclose(first.outputs[0].values(), bias + x @ weight, rtol=1e-6)
    backward = next(launch for launch in launches if launch.operator == "aten::threshold_backward")
    assert "ReluBackward0" in backward.scope
    assert stat.S_IMODE(folder.stat().st_mode) & 0o027 == 0
    assert {stat.S_IMODE(file.stat().st_mode) & 0o137 for file in folder.iterdir()} == {0}


def test_without_the_variable_there_is_no_folder(run, tmp_path):
    assert run(PROGRAM, ACL_DUMP_DATA="0").returncode == 0
    assert not list(tmp_path.glob("npu_dump_*"))


def test_the_backward_pass_on_another_thread(dump):
    dump()
    x = torch.ones(3, device="npu", requires_grad=True)
    thread = threading.Thread(target=lambda: (x * 3).sum().backward())
    thread.start()
    thread.join()
    assert {"aten::mul", "aten::sum"} <= {launch.operator for launch in dump.launches()}


def test_inputs_of_operators_in_place_are_those_before(dump):
    x = torch.ones(2, 3, device="npu")
    dump()
    with torch.npu.stream(torch.npu.Stream()):
        x[:, 1:].t().mul_(5)
    (launch,) = dump.launches()
    assert launch.operator == "aten::mul_" and launch.inputs[0].shape == [2, 2]
    assert launch.inputs[0].values().tolist() == [[1, 1], [1, 1]]
    assert launch.outputs[0].values().tolist() == [[5, 5], [5, 5]]


def test_results_are_not_among_the_inputs(dump):
    x, out = torch.ones(2, device="npu"), torch.full((2,), 7.0, device="npu")
    dump()
    torch.add(x, x, out=out)
    _ = x + 1
    first, second = dump.launches()
    assert [t.values().tolist() for t in first.inputs] == [[1, 1], [1, 1]] and len(second.inputs) == 1


@pytest.mark.parametrize("dtype", [
    torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8,
    torch.bool, torch.complex64, torch.complex128,
])  # fmt: skip
def test_every_type_can_be_read(dump, dtype):
    x = torch.tensor([[0.0, 1.0], [2.5, 1.0]]).to(dtype)
    y = x.npu()
    dump("ops=aclnnCat")
    torch.cat([y.t(), y])
    (launch,) = dump.launches()
    assert launch.outputs[0].dtype == str(dtype).removeprefix("torch.")
    wanted = torch.cat([x.t(), x])
    wanted = wanted.float() if dtype == torch.bfloat16 else wanted
    np.testing.assert_array_equal(launch.outputs[0].values(), wanted.numpy())
    assert launch.outputs[0].values().dtype == wanted.numpy().dtype


def test_sizes_that_depend_on_data(dump):
    x = torch.tensor([0, 3, 0, 4], device="npu")
    dump("ops=*onzero*")
    x.nonzero()
    (launch,) = dump.launches()
    assert launch.outputs[0].values().tolist() == [[1], [3]]


@pytest.mark.parametrize(("settings", "wanted"), [
    ("ops=add", ["aten::add"]), ("ops=aten::m*|aclnnAdd*", ["aten::add", "aten::mul"]), ("ops=none", []), ("steps=1-2", []),
    ("ranks=3", []), ("steps=0,ranks=0-7", ["aten::add", "aten::mul"]),
])  # fmt: skip
def test_filters(dump, tmp_path, settings, wanted):
    x = torch.ones(2, device="npu")
    dump(settings)
    _ = x + x
    _ = x * x
    torch.npu.finalize_dump()
    folders = list(tmp_path.glob("npu_dump_*"))
    assert [launch.operator for folder in folders for launch in read(folder)] == wanted


def test_statistics_only(dump, tmp_path):
    x = torch.tensor([1.0, float("nan"), float("inf"), 3.0], device="npu")
    dump("data=stats,mode=output")
    _ = x + 1
    (launch,) = dump.launches()
    assert launch.inputs == [] and not list(folder_of(tmp_path).glob("*.npy"))
    assert launch.outputs[0].statistics == {"finite": 2, "nan": 1, "inf": 1, "min": 2, "max": 4, "mean": 3, "norm": 20**0.5}
    with pytest.raises(ValueError, match="statistics only"):
        launch.outputs[0].values()


def test_the_limit_ends_the_dump_with_one_warning(dump, tmp_path):
    x = torch.ones(1000, device="npu")
    dump("limit=20K")
    with pytest.warns(UserWarning, match="ends here: its files would be larger than the limit of 20480 bytes") as found:
        for _ in range(5):
            x = x + 1
    assert len(found) == 1 and x[0].item() == 6
    torch.npu.finalize_dump()
    folder = folder_of(tmp_path)
    assert sum(file.stat().st_size for file in folder.iterdir()) < 25_000
    assert "stopped" in json.loads((folder / "index.jsonl").read_text().splitlines()[-1])


def test_a_folder_that_takes_no_files(run, tmp_path):
    (tmp_path / "cwd").mkdir()
    code = "import os, torch\nos.rmdir(os.getcwd())\nprint((torch.ones(2).npu() + 1).tolist())"
    process = run(code, cwd=tmp_path / "cwd", ACL_DUMP_DATA="1")
    assert process.stdout.strip() == "[2.0, 2.0]" and process.stderr.count("cannot make the folder") == 1


def test_an_operator_that_fails_is_the_last_with_its_inputs(dump):
    table, index = torch.ones(3, 2, device="npu"), torch.tensor([7], device="npu")
    dump()
    with pytest.raises(RuntimeError, match="out of range"):
        table.index_select(0, index)
    (launch,) = dump.launches()
    assert launch.failed and launch.outputs == [] and launch.inputs[1].values().tolist() == [7]


def test_graphs_that_are_captured_are_left_out(dump, tmp_path):
    x = torch.ones(2, device="npu")
    graph = torch.npu.NPUGraph()
    torch.npu.synchronize()
    dump()
    with pytest.warns(UserWarning, match="captured are not dumped"), torch.npu.graph(graph):
        y = x + 1
    graph.replay()
    assert y.tolist() == [2, 2]


def test_set_dump_reads_the_form_of_aclinit(dump, tmp_path):
    file = tmp_path / "acl.json"
    settings = {"dump_path": str(tmp_path), "dump_list": [{"layer": ["mul"]}], "dump_mode": "output", "dump_step": "0|3-5",
                "dump_data": "tensor"}
    file.write_text(json.dumps({"dump": settings}))
    with pytest.raises(RuntimeError, match="init_dump"):
        torch.npu.set_dump(file)
    x = torch.ones(2, device="npu")
    dump()
    torch.npu.set_dump(str(file))
    _ = x + x
    _ = x * x
    (launch,) = dump.launches()
    assert launch.operator == "aten::mul" and launch.order == 1 and launch.inputs == []
    with pytest.raises(RuntimeError, match="init_dump"):
        torch.npu.finalize_dump()


@pytest.mark.parametrize(("text", "words"), [
    ("ops", "takes settings such as"), ("colour=red", "no setting 'colour'"), ("limit=big", "limit must be a size"),
    ("steps=0|5-2", "has 5-2, a range that ends before it begins"), ("steps=a", "steps must be numbers"),
    ("data=all", "data must be tensor or stats"), ("path=/nowhere", "path must be a folder"),
    ("mode=x", "mode must be all or input or output"),
])  # fmt: skip
def test_settings_that_make_no_sense(monkeypatch, text, words):
    monkeypatch.setenv("TORCH_NPU_DUMP", text)
    with pytest.raises(ValueError, match=words):
        torch.npu.init_dump()


@pytest.mark.parametrize(("settings", "words"), [
    ({"TORCH_NPU_DUMP": "path=/nowhere"}, "path must be a folder"),
    ({"TORCH_NPU_DUMP": "ranks=0", "RANK": "one", "ACL_DUMP_DATA": "1"}, "ranks needs a number"),
])  # fmt: skip
def test_a_mistake_is_told_at_import_and_nothing_runs_without_the_dump(run, settings, words):
    process = run("import torch\ntorch.ones(2).npu()", **settings)
    assert process.returncode == 1 and words in process.stderr.splitlines()[-1]


def test_an_empty_rank_is_none(run, tmp_path):
    process = run("import torch\ntorch.ones(2, device='npu')", ACL_DUMP_DATA="1", RANK="", TORCH_NPU_DUMP="ranks=0")
    assert (process.returncode, process.stderr) == (0, "") and len(read(folder_of(tmp_path))) == 1


@pytest.mark.parametrize("text", ['{"dump": []}', '{"dump": {"dump_list": null}}', '{"dump": {"dump_list": [1]}}',
                                  '{"dump": {"dump_list": [{"layer": "mm"}]}}', '{"dump": {"dump_list": [{"layer": [5]}]}}',
                                  "", "[]", '{"dump": {"dump_colour": 1}}', '{"other": {}}'])
def test_files_that_make_no_sense(dump, tmp_path, text):
    file = tmp_path / "dump.json"
    file.write_text(text)
    dump()
    with pytest.raises(ValueError, match="cfg_file"):
        torch.npu.set_dump(file)
    with pytest.raises(FileNotFoundError):
        torch.npu.set_dump(tmp_path / "none.json")


# ---- settings by themselves ----


def settings(**given):
    return _dump_settings.parse(given, "HERE")


def refused(function, *arguments, **given):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        function(*arguments, **given)
    return str(error.value)


def test_settings_that_are_left_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    usual = {"path": str(tmp_path), "operators": [], "steps": [], "inputs": True, "outputs": True, "data": True, "limit": 16 * 1024**3}
    assert settings() == usual
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    for given, kept in (({"mode": "input"}, {"outputs": False}), ({"mode": "output"}, {"inputs": False}), ({"mode": "all"}, {}),
                        ({"data": "stats"}, {"data": False}), ({"data": "tensor"}, {}), ({"ops": "a||b*|"}, {"operators": ["a", "b*"]}),
                        ({"steps": "0|3-5|7-7"}, {"steps": [(0, 0), (3, 5), (7, 7)]}), ({"path": "link"}, {"path": f"{tmp_path}/real"}),
                        ({"limit": "7"}, {"limit": 7})):
        assert settings(**given) == usual | kept


@pytest.mark.parametrize(("text", "size"), [("3", 3), ("3K", 3 << 10), ("3 M", 3 << 20), ("3GB", 3 << 30), ("3TiB", 3 << 40), ("0", 0),
                                            ("12B", 12), ("3k", None), ("3  K", None), ("-3", None), ("K", None), ("3P", None), ("", None)])
def test_sizes(text, size):
    if size is None:
        assert refused(_dump_settings._size, text, "HERE") == f"HERE: limit must be a size such as 500M or 2GiB, but is: {text}"
    else:
        assert _dump_settings._size(text, "HERE") == size


@pytest.mark.parametrize(("rank", "ranks", "dumps"), [("3", "0|3", True), ("3", "1-3", True), ("3", "3-5", True), ("3", "4-5|0-2", False),
                                                      ("", "0", True), (None, "0", True), (None, "1", False), ("10", "2-11", True)])
def test_the_ranks_that_dump(monkeypatch, rank, ranks, dumps):
    monkeypatch.delenv("RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("RANK", rank)
    assert (settings(ranks=ranks) is not None) is dumps


def test_every_refusal_has_its_words(monkeypatch):
    monkeypatch.setenv("RANK", "one")
    assert refused(settings, ranks="0") == "HERE: ranks needs a number in the environment variable RANK, which is: one"
    monkeypatch.setenv("RANK", "0")
    assert refused(settings, colour="red") == "HERE has no setting 'colour'; there are path, ops, steps, ranks, mode, data, limit"
    assert refused(settings, mode="x") == "HERE: mode must be all or input or output, but is: x"
    assert refused(settings, data="all") == "HERE: data must be tensor or stats, but is: all"
    assert refused(settings, path="/nowhere") == "HERE: path must be a folder, but is: /nowhere"
    for name in ("ranks", "steps"):
        for text in ("a", "1-", "-1", "1|", "", "1-2-3"):
            assert refused(settings, **{name: text}) == f"HERE: {name} must be numbers and ranges such as 0|3-5, but is: {text}"
        assert refused(settings, **{name: "0|5-4"}) == f"HERE: {name} has 5-4, a range that ends before it begins"


def test_the_variable(monkeypatch):
    monkeypatch.delenv("TORCH_NPU_DUMP", raising=False)
    assert _dump_settings.of_environment() == {}
    monkeypatch.setenv("TORCH_NPU_DUMP", ",ops = a=b ,,steps=0-2")
    assert _dump_settings.of_environment() == {"ops": "a=b", "steps": "0-2"}
    monkeypatch.setenv("TORCH_NPU_DUMP", "ops=a,steps")
    assert refused(_dump_settings.of_environment) == "TORCH_NPU_DUMP takes settings such as ops=*mm*,steps=0-2, but has: steps"


@pytest.mark.parametrize(("variables", "looked_at"), [({}, False), ({"ACL_DUMP_DATA": "1"}, True), ({"TORCH_NPU_DUMP": "a=b"}, True),
                                                      ({"ACL_DUMP_DATA": "", "TORCH_NPU_DUMP": ""}, False)])
def test_settings_are_looked_at_if_there_are_any(monkeypatch, variables, looked_at):
    for name in ("ACL_DUMP_DATA", "TORCH_NPU_DUMP"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    seen = []
    monkeypatch.setattr(_dump_settings, "parse", lambda *given: seen.append(given))
    _dump_settings.check()
    assert seen == ([({"a": "b"} if "a=b" in variables.values() else {}, "TORCH_NPU_DUMP")] if looked_at else [])


def test_every_setting_of_a_file(tmp_path):
    file = tmp_path / "dump.json"

    def of(content):
        file.write_text(json.dumps(content))
        return _dump_settings.of_file(str(file))

    entries = {"dump_path": "p", "dump_mode": "all", "dump_step": 3, "dump_data": "stats", "ranks": "0", "limit": "1K"}
    assert of({"dump": entries}) == {"path": "p", "mode": "all", "steps": "3", "data": "stats", "ranks": "0", "limit": "1K"}
    assert of({"dump": {"dump_list": [{"layer": ["a", "b"]}, {"layer": ["c"]}, {}]}}) == {"ops": "a|b|c"}
    assert of({"dump": {"dump_list": {"layer": ["a"]}}}) == {"ops": "a"} and of({"dump": {}}) == {}
    form = f'cfg_file {file} must be JSON of the form {{"dump": {{"dump_path": "...", ...}}}}'
    for content in ([], {}, {"dump": []}, 5):
        assert refused(of, content) == form
    assert refused(of, {"dump": {"colour": 1}}) == (f"cfg_file {file}: torch_npu's dump has no 'colour'; there are dump_list, dump_path, "
                                                    "dump_mode, dump_step, dump_data, ranks, limit")
    for wrong in (None, [1], [{"layer": "a"}], [{"layer": [1]}]):
        assert refused(of, {"dump": {"dump_list": wrong}}) == (
            f'cfg_file {file}: dump_list must be of the form [{{"layer": ["mm", "aten::add"]}}]')
