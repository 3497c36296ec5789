"""The client's two profilers: torch.profiler, through libmspti.so, and torch_npu.profiler, whose device part needs CANN's msprof."""

import csv
import json
import tempfile
from collections import Counter
from pathlib import Path

import torch
from rows import each
from torch.profiler import ProfilerActivity, profile

import torch_npu


def step(x):
    return (x @ x).relu().sum()


def recorded(work, **arguments):
    """The events of a trace of torch.profiler."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1], **arguments) as record:
        work()
        torch.npu.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        record.export_chrome_trace(str(file))
        return json.loads(file.read_text())["traceEvents"]


def check_kernels_are_in_the_trace_once():
    x = torch.randn(64, 64).npu()
    step(x)
    torch.npu.synchronize()
    events = recorded(lambda: [step(x) for _ in range(3)])
    kernels = [event for event in events if event.get("cat") == "kernel"]
    assert Counter(event["name"] for event in kernels) == {"aclnnMatmul": 3, "aclnnRelu": 3, "aclnnReduceSum": 3}, kernels
    assert all(event["dur"] > 0 for event in kernels)
    kernels.sort(key=lambda event: event["ts"])
    assert [event["name"] for event in kernels] == ["aclnnMatmul", "aclnnRelu", "aclnnReduceSum"] * 3
    assert all(early["ts"] + early["dur"] <= late["ts"] + 0.001 for early, late in zip(kernels, kernels[1:]))
    (whole,) = (event for event in events if event.get("name", "").startswith("PyTorch Profiler"))
    assert all(whole["ts"] <= event["ts"] and event["ts"] + event["dur"] <= whole["ts"] + whole["dur"] for event in kernels)


def check_streams_are_lanes():
    x = torch.randn(16, 16).npu()
    side = torch.npu.Stream()

    def work():
        x + 1
        side.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(side):
            x * 2

    kernels = [event for event in recorded(work) if event.get("cat") == "kernel"]
    assert len(kernels) == len({event["tid"] for event in kernels}) == 2, kernels


def check_a_second_profile_begins_empty():
    x = torch.randn(16, 16).npu()
    for _ in range(2):
        names = [event["name"] for event in recorded(lambda: x @ x) if event.get("cat") == "kernel"]
        assert names == ["aclnnMatmul"], names


def check_torch_npu_profiler_writes_the_operators():
    """Its analysis asks a program msprof for the device's part, which is not here: it says so, and writes the host's."""
    x = torch.randn(16, 16).npu()
    with tempfile.TemporaryDirectory() as folder:
        with torch_npu.profiler.profile(on_trace_ready=torch_npu.profiler.tensorboard_trace_handler(folder)):
            step(x).item()
        (output,) = Path(folder).glob("*_ascend_pt/ASCEND_PROFILER_OUTPUT")
        with open(output / "operator_details.csv", newline="") as file:
            names = {row["Name"] for row in csv.DictReader(file)}
        assert {"aten::matmul", "aten::relu", "aten::sum"} <= names, names
        view = json.loads((output / "trace_view.json").read_text())
        assert "aten::matmul" in {event.get("name") for event in view}


# torch.profiler on the card.


def profiled(work, **arguments):
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1], **arguments) as record:
        work()
        torch.npu.synchronize()
    return record


def averages(record):
    return {event.key: event for event in record.key_averages()}


def check_averages_count_calls():
    x = torch.randn(16, 16).npu()
    found = averages(profiled(lambda: [step(x) for _ in range(4)]))
    assert found["aten::relu"].count == 4 and found["aten::sum"].count == 4


def check_shapes_of_arguments_are_recorded():
    x = torch.randn(16, 8).npu()
    record = profiled(lambda: x.relu(), record_shapes=True)
    shapes = {str(event.input_shapes) for event in record.key_averages(group_by_input_shape=True) if event.key == "aten::relu"}
    assert shapes == {"[[16, 8]]"}, shapes


def check_ranges_of_a_user():
    def work():
        with torch.profiler.record_function("my range"):
            torch.ones(3, device="npu") + 1

    assert averages(profiled(work))["my range"].count == 1


def check_flops_are_counted():
    x = torch.randn(8, 8).npu()
    assert averages(profiled(lambda: torch.mm(x, x), with_flops=True))["aten::mm"].flops == 2 * 8**3


def check_a_schedule_records_what_it_says():
    x, seen = torch.randn(8, 8).npu(), []
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(activities=[ProfilerActivity.CPU], schedule=schedule, on_trace_ready=lambda p: seen.append(averages(p)["aten::relu"].count)) as record:
        for _ in range(8):
            x.relu()
            record.step()
    assert seen == [2, 2], seen


def check_the_table_is_printed():
    x = torch.randn(8, 8).npu()
    text = profiled(lambda: x.relu()).key_averages().table(row_limit=5)
    assert "aten::relu" in text and "Self CPU" in text


# The client's own profiler.


def written(work, schedule=None, **arguments):
    """The folder's files by name, and what is in the tables."""
    with tempfile.TemporaryDirectory() as folder:
        handler = torch_npu.profiler.tensorboard_trace_handler(folder)
        with torch_npu.profiler.profile(on_trace_ready=handler, schedule=schedule, **arguments) as record:
            work(record)
        found = {}
        for file in Path(folder).glob("*_ascend_pt/**/*"):
            if file.suffix == ".csv":
                with open(file, newline="") as opened:
                    found[file.name] = list(csv.DictReader(opened))
            elif file.suffix == ".json":
                found[file.name] = json.loads(file.read_text())
            elif file.is_file():
                found[file.name] = file.stat().st_size
        found["folders"] = len(list(Path(folder).glob("*_ascend_pt")))
        return found


def steps(record, count=1):
    for _ in range(count):
        step(torch.randn(8, 8).npu()).item()
        record.step()


OUTPUTS = {
    "shapes": ({"record_shapes": True}, lambda found: any(row["Input Shapes"] for row in found["operator_details.csv"])),
    "stacks": ({"with_stack": True}, lambda found: any("profiling.py" in row.get("Call Stack", "") for row in found["operator_details.csv"])),
    "memory": ({"profile_memory": True}, lambda found: "operator_memory.csv" in found or "memory_record.csv" in found),
    "info": ({}, lambda found: any(name.startswith("profiler_info") for name in found)),
    "activities": ({"activities": [torch_npu.profiler.ProfilerActivity.CPU]}, lambda found: "trace_view.json" in found),
    "metadata": ({}, lambda found: "profiler_metadata.json" in found),
}


@each(OUTPUTS)
def check_what_the_clients_profiler_writes(row):
    arguments, holds = row

    def work(record):
        record.add_metadata("model", "text")
        steps(record)

    found = written(work, **arguments)
    assert holds(found), {name: str(value)[:100] for name, value in found.items()}


def check_the_clients_schedule():
    schedule = torch_npu.profiler.schedule(wait=1, warmup=0, active=1, repeat=2)
    actions = [schedule(number) for number in range(4)]
    assert [action.name for action in actions] == ["NONE", "RECORD_AND_SAVE"] * 2
    assert written(lambda record: steps(record, 4), schedule)["folders"] == 2


def check_metadata_is_written():
    def work(record):
        record.add_metadata_json("layers", json.dumps({"count": 2}))
        steps(record)

    assert written(work)["profiler_metadata.json"]["layers"] == {"count": 2}


@each({"levels": torch_npu.profiler.supported_profiler_level, "metrics": torch_npu.profiler.supported_ai_core_metrics,
       "exports": torch_npu.profiler.supported_export_type, "activities": torch_npu.profiler.supported_activities})
def check_what_the_profiler_offers(function):
    assert len(function()) >= 2


@each({"push and pop": lambda mstx: mstx.range_pop() if mstx.range_push("a") is not None else None,
       "start and end": lambda mstx: mstx.range_end(mstx.range_start("b")), "mark": lambda mstx: mstx.mark("c"),
       "on a stream": lambda mstx: mstx.range_end(mstx.range_start("d", torch.npu.current_stream()))})
def check_ranges_of_mstx(use):
    use(torch_npu.npu.mstx)
    assert torch_npu.npu.mstx.mstx_range("e")(lambda: 3)() == 3
