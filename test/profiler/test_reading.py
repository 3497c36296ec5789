"""How a recording is read: kineto's events, launches that a killed program left, nesting, steps; and what an analysis leaves behind."""

import json

import pytest
from test_profile import warned

from torch_npu.profiler import _folder, analysis
from torch_npu.profiler.analysis import intervals, trace
from torch_npu.profiler.analysis.trace import Launch, Operator, Range, Trace

BASE = 1_000_000


def event(category, name, ts, dur, tid=7, **args):
    return {"ph": "X", "cat": category, "name": name, "ts": ts, "dur": dur, "tid": tid, "pid": 3, "args": args}


def read(*events):
    return trace._from_kineto({"baseTimeNanoseconds": BASE, "traceEvents": list(events)})


# ---- Kineto's events ----


def test_operators():
    (found,) = read(event("cpu_op", "aten::add", 1.0004, 2.0006, **{
        "External id": 5, "Input Dims": [[4, 65], [], [128]], "Input type": ["float", "Scalar", ""], "Sequence number": 9,
        "Fwd thread id": 2})).operators
    assert (found.name, found.begin, found.end, found.thread, found.number) == ("aten::add", BASE + 1000, BASE + 3001, 7, 5)
    assert (found.shapes, found.types, found.sequence, found.forward_thread) == ("4,65;;128", "float;Scalar;", 9, 2)
    (bare,) = read(event("cpu_op", "x", 1, 2)).operators
    assert (bare.number, bare.shapes, bare.types, bare.sequence, bare.forward_thread, bare.args) == (0, "", "", None, 0, {})
    assert bare.duration == 2000 and read(event("cpu_op", "x", 1, 2, **{"Input Dims": "4"})).operators[0].shapes == ""


def test_steps_are_annotations_too():
    found = read(event("user_annotation", "ProfilerStep#12", 1, 2), event("user_annotation", "ProfilerStep#1x", 3, 4),
                 event("python_function", "f.py(3): f", 5, 6, 8))
    assert found.steps == {12: Range("ProfilerStep#12", BASE + 1000, BASE + 3000, 7)}
    assert [entry.name for entry in found.annotations] == ["ProfilerStep#12", "ProfilerStep#1x"]
    assert found.functions == [Range("f.py(3): f", BASE + 5000, BASE + 11000, 8)]


def test_calls_and_launches():
    found = read(event("privateuse1_runtime", "AscendCL@a", 1, 1, correlation=1),
                 event("privateuse1_runtime", "Enqueue@b", 2, 1, correlation=2),
                 event("privateuse1_runtime", "Dequeue@c", 3, 1, 9, correlation=2),
                 event("kernel", "k", 4, 1, device=1, stream=2, correlation=3, **{"External id": 8}),
                 event("kernel", "g", 5, 1, device=0, stream=2, correlation=4, graph=1),
                 event("kernel", "all_reduce", 6, 1, device=0, stream=2, correlation=5, group="world", bytes=64),
                 event("gpu_memcpy", "copy", 7, 1, device=0, stream=2, correlation=6, bytes=32, kind="h2d"))
    assert [(call.name, call.kind, call.correlation, call.thread) for call in found.calls] == [
        ("a", "acl", 1, 7), ("b", "enqueue", 2, 7), ("c", "dequeue", 2, 9)]
    assert found.launches == [
        Launch("k", "kernel", 1, 2, BASE + 4000, BASE + 5000, 8, 3), Launch("g", "graph", 0, 2, BASE + 5000, BASE + 6000, 0, 4),
        Launch("all_reduce", "collective", 0, 2, BASE + 6000, BASE + 7000, 0, 5, 64, "world"),
        Launch("copy", "copy", 0, 2, BASE + 7000, BASE + 8000, 0, 6, 32, "h2d")]


def test_memory_of_the_card_alone():
    def memory(kind):
        return {"ph": "i", "name": "[memory]", "ts": 2, "tid": 7, "args": {
            "Device Type": kind, "Addr": 64, "Bytes": -5, "Total Allocated": 1, "Total Reserved": 2, "Device Id": 3}}

    found = read(memory(0), memory(20), {"ph": "i", "name": "other", "ts": 1})
    assert found.memory == [trace.Allocation(BASE + 2000, 64, -5, 1, 2, 3, 7)]


def test_the_frame_of_a_recording():
    found = read({"ph": "s", "cat": "fwdbwd", "name": "f", "id": 4, "tid": 8, "ts": 3},
                 {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "ts": 1, "dur": 9, "tid": 1},
                 {"ph": "X", "cat": "Trace", "name": "Another", "ts": 0, "dur": 90, "tid": 1},
                 {"ph": "M", "name": "process_labels", "pid": 33, "args": {"labels": "CPU"}},
                 {"ph": "M", "name": "process_labels", "pid": 44, "args": {"labels": "GPU 0"}},
                 {"ph": "M", "name": "process_name", "pid": 55, "args": {"labels": "CPU"}})
    assert found.forward_backward == [(4, "s", 8, BASE + 3000)] and (found.begin, found.end) == (BASE + 1000, BASE + 10000)
    assert found.process == 33 and found.complete is True and trace._from_kineto({"traceEvents": []}) == Trace()


LINE = "aclnnAdd\tkernel\t1\t2\t100\t50\t7\t8\t9\tdetail\n"


def test_launches_of_a_program_that_was_killed(tmp_path):
    (tmp_path / "l").write_text(LINE + LINE + "aclnnAdd\tker")
    found = trace._from_launches(tmp_path / "l")
    assert found.launches == [Launch("aclnnAdd", "kernel", 1, 2, 100, 150, 7, 8, 9, "detail")] * 2 and found.complete is False


def test_which_file_is_read(tmp_path):
    raw = tmp_path / _folder.RAW
    raw.mkdir()
    with pytest.raises(FileNotFoundError):
        trace.read(tmp_path)
    (raw / _folder.TRACE).write_text("{")
    with pytest.raises(ValueError, match="trace.json is damaged: "):
        trace.read(tmp_path)
    (raw / _folder.LAUNCHES).write_text(LINE)
    assert trace.read(tmp_path).complete is False and len(trace.read(tmp_path).launches) == 1
    (raw / _folder.TRACE).write_text('{"traceEvents": []}')
    assert trace.read(tmp_path).complete is True and trace.read(tmp_path).launches == []


# ---- What belongs together ----


def operator(name, begin, end, number=0, thread=7):
    return Operator(name, begin, end, thread, number)


def test_operators_nest_by_their_times():
    outer, inner, deep, next_, other = (operator("outer", 0, 100), operator("inner", 10, 50), operator("deep", 20, 30),
                                        operator("next", 50, 60), operator("other", 20, 30, thread=8))
    function, late = Range("f", 5, 55, 7), Range("g", 15, 40, 7)
    trace._relate(Trace(operators=[deep, outer, other, next_, inner], functions=[function, late]))
    assert [entry.parent for entry in (outer, inner, deep, next_, other)] == [None, outer, inner, outer, None]
    assert [entry.host_self for entry in (outer, inner, deep, next_, other)] == [50, 30, 10, 10, 10]
    assert [entry.stack for entry in (outer, inner, deep, next_, other)] == [(), ("f",), ("g", "f"), ("f",), ()]
    same = [operator("long", 0, 10), operator("short", 0, 5)]
    trace._relate(Trace(operators=same[::-1]))
    assert same[1].parent is same[0] and same[0].parent is None


def test_launches_have_an_operator_a_step_and_their_time_counts_upwards():
    outer, inner = operator("outer", 100, 200, 1), operator("inner", 110, 120, 2)
    launches = [Launch("b", "kernel", 0, 0, 500, 530, 2, 1), Launch("a", "kernel", 0, 0, 400, 405, 1, 2),
                Launch("c", "kernel", 0, 0, 90, 95, 9, 3), Launch("d", "kernel", 0, 0, 300, 301, 9, 4)]
    found = Trace(operators=[outer, inner], launches=launches, steps={2: Range("s", 250, 600, 7), 1: Range("s", 100, 240, 7)})
    trace._relate(found)
    assert [launch.name for launch in found.launches] == ["c", "d", "a", "b"]
    assert [(launch.operator, launch.step) for launch in found.launches] == [(None, None), (None, 2), (outer, 1), (inner, 1)]
    assert (outer.device_self, outer.device_total, inner.device_self, inner.device_total) == (5, 35, 30, 30)
    assert (found.begin, found.end) == (90, 530)
    empty = Trace()
    trace._relate(empty)
    assert (empty.begin, empty.end) == (0, 0)
    host = Trace(operators=[operator("x", 40, 50)])
    trace._relate(host)
    assert (host.begin, host.end) == (40, 40)
    framed = Trace(launches=[launches[0]], begin=1, end=2)
    trace._relate(framed)
    assert (framed.begin, framed.end) == (1, 2)


def test_functions_are_cut_at_annotations_but_not_at_collectives():
    function = Range("f", 50, 150, 7)
    trace._relate(Trace(annotations=[Range("hccl:all_reduce", 100, 300, 7), Range("x", 100, 300, 8)], functions=[function]))
    assert (function.begin, function.end) == (50, 150)
    trace._relate(Trace(annotations=[Range("mine", 100, 300, 7)], functions=[function]))
    assert (function.begin, function.end) == (50, 100)


def test_the_step_of_a_moment():
    found = Trace(steps={5: Range("s", 10, 20, 7), 6: Range("s", 20, 30, 7)})
    assert [trace._step_of(found, time) for time in (9, 10, 19, 20, 99)] == [None, 5, 5, 6, 6] and trace._step_of(Trace(), 5) is None


# ---- Where the card's time goes ----


def test_time_divides():
    def launch(kind, begin, end, name="x"):
        return Launch(name, kind, 0, 0, begin, end, 0, 0)

    found = intervals.Overlap(iter([launch("kernel", 10, 20), launch("graph", 15, 30), launch("copy", 0, 5), launch("collective", 25, 40),
                                    launch("collective", 50, 60, "hccl:recv"), launch("copy", 70, 80)]))
    assert (found.computing, found.communication, found.uncovered) == ([(10, 30)], [(25, 40), (50, 60)], [(30, 40), (50, 60)])
    assert (found.whole, found.free, found.receiving) == ((0, 80), [(0, 10), (40, 50), (60, 80)], [(50, 60)])
    empty = intervals.Overlap([])
    assert (empty.whole, empty.free, empty.computing) == ((0, 0), [], [])


# ---- An analysis ----


def profile(path, config, trace_text='{"traceEvents": []}', extras=None):
    raw = path / _folder.RAW
    raw.mkdir(parents=True)
    (path / "profiler_info.json").write_text(json.dumps({"config": {"experimental_config": config}}))
    if trace_text is not None:
        (raw / _folder.TRACE).write_text(trace_text)
    if extras is not None:
        (raw / _folder.EXTRAS).write_text(json.dumps(extras))
    return path


PLAIN = {"kernel_details.csv", "operator_details.csv", "step_trace_time.csv", "trace_view.json"}
DETAIL = PLAIN | {"op_statistic.csv", "api_statistic.csv", "communication.json"}
BASES = {"ascend_pytorch_profiler.db", "analysis.db"}


@pytest.mark.parametrize(("config", "types", "files", "raw_is_kept"), [
    ({}, None, PLAIN, False), ({"_data_simplification": False}, None, PLAIN, True), ({"_export_type": ["db"]}, None, BASES, False),
    ({"_export_type": ["db", "text"]}, None, PLAIN | BASES, False), ({"_export_type": ["db"]}, ["text"], PLAIN, False),
    ({"_profiler_level": "Level1"}, None, DETAIL, False), ({"_profiler_level": "Level2"}, None, DETAIL, False),
    ({"_profiler_level": "Level0", "_data_simplification": True}, None, PLAIN, False),
])
def test_what_an_analysis_writes(tmp_path, config, types, files, raw_is_kept):
    path = profile(tmp_path / "p", config)
    assert analysis.analyse_profile(path, types) is True
    assert {file.name for file in (path / _folder.OUTPUT).iterdir()} == files and (path / _folder.RAW).exists() is raw_is_kept


@pytest.mark.parametrize(("level", "metrics", "counters"), [("Level1", "ACL_AICORE_MEMORY_UB", True), ("Level1", "ACL_AICORE_NONE", False),
                                                            ("Level0", "ACL_AICORE_MEMORY_UB", False)])
def test_counters_of_cores_have_columns(tmp_path, level, metrics, counters):
    path = profile(tmp_path / "p", {"_profiler_level": level, "_aic_metrics": metrics})
    analysis.analyse_profile(path)
    header = (path / _folder.OUTPUT / "kernel_details.csv").read_text().splitlines()[0].split(",")
    assert ("aicore_time(us)" in header) is counters


def test_memory_and_marks_are_written_if_there_are_any(tmp_path):
    memory = {"ph": "i", "name": "[memory]", "ts": 2, "tid": 7, "args": {"Device Type": 20, "Addr": 64, "Bytes": 5, "Total Allocated": 1,
                                                                         "Total Reserved": 2, "Device Id": 3}}
    mark = {"message": "here", "domain": "d", "begin": 1, "end": 2, "thread": 7}
    path = profile(tmp_path / "p", {}, json.dumps({"traceEvents": [memory]}), {"mstx": [mark], "gc": []})
    assert analysis.analyse_profile(path) is True
    output = path / _folder.OUTPUT
    assert {file.name for file in output.iterdir()} == PLAIN | {"memory_record.csv", "operator_memory.csv"}
    assert len((output / "memory_record.csv").read_text().splitlines()) == 2 and "\r" not in (output / "memory_record.csv").read_text()
    assert "here" in {entry["name"] for entry in json.loads((output / "trace_view.json").read_text())}


def test_metadata_is_text_in_a_database(tmp_path):
    import sqlite3

    path = profile(tmp_path / "p", {"_export_type": ["db"], "_profiler_level": "Level1"})
    (path / _folder.METADATA).write_text('{"a": "text", "b": {"c": 1}}')
    analysis.analyse_profile(path)
    with sqlite3.connect(path / _folder.OUTPUT / "ascend_pytorch_profiler.db") as found:
        assert found.execute("SELECT name, value FROM META_DATA").fetchall() == [("a", "text"), ("b", '{"c": 1}')]


@pytest.mark.parametrize(("text", "launches", "words", "succeeds"), [
    (None, None, "has no raw data to analyse; it was not recorded to the end, or data_simplification has removed it.", False),
    ("{", None, "is damaged: ", False), ("[]", None, "could not be analysed: ", False),
    ("{", LINE, "was not recorded to its end: it shows the 1 launches that were written by then.", True),
    ('{"traceEvents": [{"ph": "X", "cat": "kernel", "ts": 1}]}', None, "what was recorded is kept in its folder FRAMEWORK.", False),
])
def test_what_goes_wrong_is_told_and_nothing_is_removed(tmp_path, text, launches, words, succeeds):
    path = profile(tmp_path / "p", {}, text)
    if launches:
        (path / _folder.RAW / _folder.LAUNCHES).write_text(launches)
    found = []
    (sentence,) = warned(lambda: found.append(analysis.analyse_profile(path)))
    assert words in sentence and found == [succeeds] and (path / _folder.RAW).exists()
