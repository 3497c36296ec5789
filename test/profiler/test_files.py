"""What a profile's folder holds: files, columns, numbers that agree with each other and with what softnpu has counted."""

import json
import re
import sqlite3
import stat
from collections import Counter
from decimal import Decimal

import pytest
import torch
from profile_folder import rows

from torch_npu import profiler

# Of the official plugin 2.13.0 and of msprof-analyze 26.2.0.
COLUMNS = {
    "kernel_details": ["Step Id", "Device_id", "Name", "Type", "Accelerator Core", "Start Time(us)", "Duration(us)", "Wait Time(us)",
                       "Block Num", "Input Shapes", "Input Data Types", "aicore_time(us)", "aic_mac_time(us)", "aiv_vec_time(us)"],
    "operator_details": ["Name", "Input Shapes", "Call Stack", "Host Self Duration(us)", "Host Total Duration(us)",
                         "Device Self Duration(us)", "Device Total Duration(us)", "Device Self Duration With AICore(us)",
                         "Device Total Duration With AICore(us)"],
    "op_statistic": ["OP Type", "Core Type", "Count", "Total Time(us)", "Min Time(us)", "Avg Time(us)", "Max Time(us)", "Ratio(%)"],
    "step_trace_time": ["Device_id", "Step", "Computing", "Communication(Not Overlapped)", "Overlapped", "Communication", "Free", "Stage",
                        "Bubble", "Communication(Not Overlapped and Exclude Receive)", "Preparing"],
    "memory_record": ["Component", "Timestamp(us)", "Total Allocated(MB)", "Total Reserved(MB)", "Total Active(MB)", "Stream Ptr",
                      "Device Type"],
    "operator_memory": ["Name", "Size(KB)", "Allocation Time(us)", "Release Time(us)", "Active Release Time(us)", "Duration(us)",
                        "Active Duration(us)", "Allocation Total Allocated(MB)", "Allocation Total Reserved(MB)",
                        "Allocation Total Active(MB)", "Release Total Allocated(MB)", "Release Total Reserved(MB)",
                        "Release Total Active(MB)", "Stream Ptr", "Device Type"],
    "api_statistic": ["Device_id", "Level", "API Name", "Time(us)", "Count", "Avg(us)", "Min(us)", "Max(us)", "Variance"],
}


def test_names_and_permissions(recorded):
    assert re.fullmatch(r"worker_\d+_\d{17}_ascend_pt", recorded.folder.name)
    files = {path.name for path in recorded.output.iterdir()}
    others = {"trace_view.json", "communication.json", "ascend_pytorch_profiler.db", "analysis.db"}
    assert files == {f"{name}.csv" for name in COLUMNS} | others
    for path in [recorded.folder, *recorded.folder.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o750 if path.is_dir() else 0o640), path
    info = json.loads((recorded.folder / "profiler_info.json").read_text())
    assert info["config"]["experimental_config"]["_profiler_level"] == "Level1"
    assert info["config"]["common_config"]["activities"] == ["ProfilerActivity.CPU", "ProfilerActivity.NPU"]


@pytest.mark.parametrize("name", COLUMNS)
def test_columns(recorded, name):
    table = recorded.rows(name)
    assert table and [column for column in COLUMNS[name] if column not in table[0]] == []
    if name == "kernel_details":
        assert {row["aicore_time(us)"] for row in table} == {"N/A"}


def test_every_launch_is_there_exactly_once(recorded):
    for step in ("2", "3"):
        kinds = Counter(row["Accelerator Core"] for row in recorded.kernels if row["Step Id"] == step)
        copies = [row for row in recorded.kernels if row["Step Id"] == step and row["Name"] == "aclrtMemcpy"]
        assert len(copies) == recorded.count.h2d_copies + recorded.count.d2h_copies == 2
        assert kinds.total() - len(copies) == recorded.count.tasks
    assert len({row["Start Time(us)"] for row in recorded.kernels}) == len(recorded.kernels)


def test_operators_have_the_time_of_their_launches(recorded):
    def total(table, column):
        return sum(float(row[column]) for row in table)

    operators = recorded.rows("operator_details")
    assert total(operators, "Device Self Duration(us)") == pytest.approx(total(recorded.kernels, "Duration(us)"), rel=1e-6)
    product = next(row for row in operators if row["Name"] == "aten::addmm")
    assert product["Input Shapes"].startswith("64;16,32;32,64;") and "conftest.py" in product["Call Stack"]
    assert 0 < float(product["Device Total Duration(us)"]) <= 1.1 * float(product["Host Total Duration(us)"])
    kernel = next(row for row in recorded.kernels if row["Name"] == "aclnnAddmm")
    assert kernel["Type"] == "MatMul" and kernel["Input Shapes"] == product["Input Shapes"]
    statistics = recorded.rows("op_statistic")
    computing = [row for row in recorded.kernels if row["Accelerator Core"] == "AI_CORE"]
    assert total(statistics, "Total Time(us)") == pytest.approx(total(computing, "Duration(us)"), rel=1e-3)
    assert total(statistics, "Ratio(%)") == pytest.approx(100, abs=0.1)
    assert sum(int(row["Count"]) for row in recorded.rows("api_statistic")) == len(recorded.kernels)


def test_steps_divide_the_cards_time(recorded):
    steps = recorded.rows("step_trace_time")
    assert [row["Step"] for row in steps] == ["2", "3"]
    for row in steps:
        assert float(row["Computing"]) + float(row["Free"]) == pytest.approx(float(row["Stage"]), rel=1e-6)
        assert float(row["Communication"]) == 0 < float(row["Computing"])


def test_memory_agrees_with_the_allocator(recorded):
    records = recorded.rows("memory_record")
    assert 0 < max(float(row["Total Allocated(MB)"]) for row in records) <= torch.npu.max_memory_allocated() / 2**20
    assert max(float(row["Total Reserved(MB)"]) for row in records) <= torch.npu.max_memory_reserved() / 2**20
    for row in recorded.rows("operator_memory"):
        if row["Allocation Time(us)"] and row["Release Time(us)"]:
            assert Decimal(row["Release Time(us)"]) > Decimal(row["Allocation Time(us)"])
        assert float(row["Size(KB)"]) > 0
    assert {"aten::empty", "aten::addmm"} & {row["Name"] for row in recorded.rows("operator_memory")}


def test_timeline_joins_operators_calls_and_launches(recorded):
    names = {event["pid"]: event["args"]["name"] for event in recorded.view if event["name"] == "process_name"}
    assert set(names.values()) == {"Python", "CANN", "Ascend Hardware", "Communication", "Overlap Analysis"}
    slices = {(names[event["pid"]], event["tid"], event["ts"]) for event in recorded.view if event["ph"] == "X"}
    for category in ("async_npu", "HostToDevice", "fwdbwd"):
        flows = [event for event in recorded.view if event.get("cat") == category]
        begins, ends = ({event["id"] for event in flows if event["ph"] == phase} for phase in "sf")
        assert begins == ends and begins, category
        if category != "fwdbwd":
            assert len(begins) == len(recorded.kernels)
            assert all((names[event["pid"]], event["tid"], event["ts"]) in slices for event in flows)
    hardware = [event for event in recorded.view if event["ph"] == "X" and names[event["pid"]] == "Ascend Hardware"]
    assert [event["ts"] for event in hardware] == [row["Start Time(us)"] for row in recorded.kernels]
    assert {event["name"] for event in recorded.view if event["name"].startswith("ProfilerStep#")} == {"ProfilerStep#2", "ProfilerStep#3"}


def test_database_says_the_same(recorded):
    with sqlite3.connect(recorded.output / "ascend_pytorch_profiler.db") as database:
        found = database.execute("""
            SELECT names.value, kinds.value, TASK.endNs - TASK.startNs, operators.value FROM COMPUTE_TASK_INFO AS info
            JOIN TASK ON TASK.globalTaskId = info.globalTaskId
            JOIN STRING_IDS AS names ON names.id = info.name JOIN STRING_IDS AS kinds ON kinds.id = info.opType
            JOIN CONNECTION_IDS AS connection ON connection.connectionId = TASK.connectionId
            JOIN PYTORCH_API AS api ON api.connectionId = connection.id JOIN STRING_IDS AS operators ON operators.id = api.name
            ORDER BY TASK.startNs""").fetchall()
        kernels = [row for row in recorded.kernels if row["Accelerator Core"] == "AI_CORE"]
        assert [(name, kind) for name, kind, *_ in found] == [(row["Name"], row["Type"]) for row in kernels]
        assert [time / 1000 for _, _, time, _ in found] == pytest.approx([float(row["Duration(us)"]) for row in kernels])
        assert ("aclnnAddmm", "aten::addmm") in {(name, operator) for name, _, _, operator in found}
        assert database.execute("SELECT id FROM STEP_TIME ORDER BY id").fetchall() == [(2,), (3,)]
        count = database.execute("SELECT count(*) FROM MEMORY_RECORD").fetchone()[0]
        assert count == len(recorded.rows("memory_record"))
        assert database.execute("SELECT count(*) FROM CANN_API").fetchone()[0] == len(recorded.kernels)
        assert not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'MSTX_EVENTS'").fetchone()
    with sqlite3.connect(recorded.output / "analysis.db") as database:
        steps = database.execute("SELECT step, computing FROM StepTraceTime ORDER BY step").fetchall()
        assert [(step, value) for step, value in steps] == [
            (row["Step"], pytest.approx(float(row["Computing"]))) for row in recorded.rows("step_trace_time")]


def test_launches_last_as_long_as_events_say(tmp_path):
    x = torch.randn(512, 512, device="npu")
    begin, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
    x @ x
    with profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path))) as profile:
        begin.record()
        for _ in range(20):
            x @ x
        end.record()
    table = rows(profile.folder, "kernel_details")
    assert len(table) == 20
    assert sum(float(row["Duration(us)"]) for row in table) == pytest.approx(begin.elapsed_time(end) * 1000, rel=0.1)
    assert {row["Type"] for row in table} == {"MatMul"}
