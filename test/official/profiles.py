"""More of the client's two profilers: what they record and write on demand."""

import csv
import json
import tempfile
from pathlib import Path

import torch
from profiling import step
from rows import each
from torch.profiler import ProfilerActivity, profile

import torch_npu

IN_MODES = ("queue 1",)


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
    with profile(
        activities=[ProfilerActivity.CPU], schedule=schedule, on_trace_ready=lambda p: seen.append(averages(p)["aten::relu"].count)
    ) as record:
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
    "stacks": (
        {"with_stack": True},
        lambda found: any("profiling.py" in row.get("Call Stack", "") for row in found["operator_details.csv"]),
    ),
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


@each(
    {
        "levels": torch_npu.profiler.supported_profiler_level,
        "metrics": torch_npu.profiler.supported_ai_core_metrics,
        "exports": torch_npu.profiler.supported_export_type,
        "activities": torch_npu.profiler.supported_activities,
    }
)
def check_what_the_profiler_offers(function):
    assert len(function()) >= 2


@each(
    {
        "push and pop": lambda mstx: mstx.range_pop() if mstx.range_push("a") is not None else None,
        "start and end": lambda mstx: mstx.range_end(mstx.range_start("b")),
        "mark": lambda mstx: mstx.mark("c"),
        "on a stream": lambda mstx: mstx.range_end(mstx.range_start("d", torch.npu.current_stream())),
    }
)
def check_ranges_of_mstx(use):
    use(torch_npu.npu.mstx)
    assert torch_npu.npu.mstx.mstx_range("e")(lambda: 3)() == 3
