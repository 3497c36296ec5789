"""A launch's time in the profile lies inside of events that the program records around it: no launch is longer, none is lost.

How close they are is a measurement, benchmarks/profiler_times.py, and no test.
"""

import json

import pytest
import torch
from profile_folder import make_step, rows
from torch.utils._python_dispatch import TorchDispatchMode

from torch_npu import profiler

PRECISION = 0.002  # milliseconds: events are apart by a float, tables have nanoseconds


class AroundOperators(TorchDispatchMode):
    """Events around each operator, by one who knows nothing of the profiler."""

    def __init__(self):
        super().__init__()
        self.pairs = []

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        begin, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
        begin.record()
        result = function(*arguments, **(named or {}))
        end.record()
        self.pairs.append((begin, end))
        return result


def record(folder, work):
    with profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(str(folder))) as profile:
        begin, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
    return profile.folder, begin.elapsed_time(end)


def milliseconds(folder):
    return [float(row["Duration(us)"]) / 1000 for row in rows(folder, "kernel_details")]


@pytest.mark.parametrize("level", [0, 1, 2])
def test_launches_are_within_the_events_around_them(tmp_path, level):
    x = torch.randn(64, 64).npu()
    x @ x
    before = torch.npu.get_task_queue_enable()
    torch.npu.set_task_queue_enable(level)
    around = AroundOperators()

    def work():
        with around:
            for _ in range(5):
                (x @ x).relu()

    try:
        folder, whole = record(tmp_path, work)
        pairs = [begin.elapsed_time(end) for begin, end in around.pairs]
    finally:
        torch.npu.set_task_queue_enable(before)
    launches = milliseconds(folder)
    assert len(launches) == len(pairs) == 10
    assert all(0 < launch <= pair + PRECISION for launch, pair in zip(launches, pairs, strict=True))
    assert sum(launches) <= sum(pairs) + PRECISION <= whole + 2 * PRECISION


def test_what_is_not_computed_is_free(tmp_path):
    """The gaps between launches, in which the host was at work, are what the events around a step have more than the sum."""
    step = make_step()
    step()
    folder, whole = record(tmp_path, step)
    (row,) = rows(folder, "step_trace_time")
    computing, free = float(row["Computing"]) / 1000, float(row["Free"]) / 1000
    kernels = [float(entry["Duration(us)"]) / 1000 for entry in rows(folder, "kernel_details") if entry["Accelerator Core"] == "AI_CORE"]
    assert computing == pytest.approx(sum(kernels), abs=PRECISION)
    assert computing + free <= whole + PRECISION
    view = json.loads((folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    lane = [event["dur"] / 1000 for event in view if event["name"] == "Free" and event["ph"] == "X"]
    assert sum(lane) == pytest.approx(free, abs=PRECISION)


def test_a_replayed_graph_takes_the_time_of_its_events(tmp_path):
    graph, x = torch.npu.NPUGraph(), torch.randn(64, 64).npu()
    with torch.npu.graph(graph):
        y = x
        for _ in range(10):
            y = (y @ x).relu()
    graph.replay()
    folder, whole = record(tmp_path, graph.replay)
    (launch,) = milliseconds(folder)
    assert 0 < launch <= whole + PRECISION
