"""The client's two profilers: torch.profiler, through libmspti.so, and torch_npu.profiler, whose device part needs CANN's msprof."""

import csv
import json
import tempfile
from collections import Counter
from pathlib import Path

import torch
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
