"""Timelines that Perfetto draws: both profilers' traces, read strictly, with streams, task queue, collectives and backward passes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from chrome_trace import problems
from profile_folder import make_step, settings

from torch_npu import profiler


def check(events, lanes):
    # c10d's range of a collective lasts until its work is over, here as with other backends: longer than the call that it began in.
    ranges = [event for event in events if event["name"].startswith("hccl:") and event.get("cat") in ("user_annotation", "cpu_op")]
    found = list(problems([event for event in events if event not in ranges]))
    assert not found, f"{len(found)}: " + "\n".join(found[:10])
    names = {event["args"]["name"] for event in events if event["ph"] == "M" and event["name"] in ("process_name", "thread_name")}
    assert lanes <= {name.rstrip("0123456789 ") for name in names}, names


def work():
    import torch.distributed as dist

    step, side, x = make_step(), torch.npu.Stream(), torch.ones(64, device="npu")
    dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
    dist.all_reduce(x)

    def run():
        step()
        with torch.npu.stream(side):
            x * 2
        dist.all_reduce(x)
        torch.npu.synchronize()

    return run, dist.destroy_process_group


def of_torch(run, folder):
    torchs = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[torchs.CPU, torchs.PrivateUse1], record_shapes=True) as profile:
        run()
    profile.export_chrome_trace(str(folder / "trace.json"))
    return json.loads((folder / "trace.json").read_text())["traceEvents"]


def of_torch_npu(run, folder, **options):
    handler = profiler.tensorboard_trace_handler(str(folder))
    with profiler.profile(on_trace_ready=handler, experimental_config=settings(mstx=True), **options) as profile:
        run()
    return json.loads((profile.folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())


@pytest.mark.parametrize("level", [0, 1, 2])
def test_both_profilers(tmp_path, level):
    before = torch.npu.get_task_queue_enable()
    torch.npu.set_task_queue_enable(level)
    run, end = work()
    try:
        run()
        check(of_torch(run, tmp_path), {"Stream", "Task queue"} if level else {"Stream"})
        check(of_torch_npu(run, tmp_path), {"Stream", "Python", "CANN", "Ascend Hardware", "Communication", "Computing", "Free"})
    finally:
        end()
        torch.npu.set_task_queue_enable(before)


def test_python_functions_do_not_cross_ranges(tmp_path):
    run, end = work()
    try:
        run()
        events = of_torch_npu(run, tmp_path, with_stack=True)
    finally:
        end()
    assert any(event.get("cat") == "python_function" for event in events)
    assert any(event["name"] == "Optimizer.step#AdamW.step" for event in events)
    check(events, {"Python", "Stream"})


def test_a_card_that_runs_beside_the_host(tmp_path):
    code = """if True:
        import sys
        from pathlib import Path
        sys.path.insert(0, sys.argv[1])
        import torch_npu
        from test_chrome_trace import check, of_torch, of_torch_npu, work
        run, end = work()
        run()
        check(of_torch(run, Path(sys.argv[2])), {"Stream"})
        check(of_torch_npu(run, Path(sys.argv[2])), {"Stream", "Communication"})
        end()
    """
    command = [sys.executable, "-c", code, str(Path(__file__).parent), str(tmp_path)]
    done = subprocess.run(command, env={**os.environ, "SOFTNPU_ASYNC": "1"}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_reader_is_strict():
    def slice_of(begin, dur, tid=1):
        return {"ph": "X", "name": "a", "ts": begin, "dur": dur, "pid": 1, "tid": tid}

    def flow(phase, time, tid=1):
        return {"ph": phase, "name": "f", "cat": "c", "id": 1, "ts": time, "pid": 1, "tid": tid, "bp": "e"}

    named = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "p"}},
             {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "t"}}]
    assert list(problems([*named, slice_of(0.0, 2.0), slice_of("0.500", 1.0), flow("s", 0.1), flow("f", 0.2)])) == []
    for wrong in ([slice_of(0.0, 2.0), slice_of(1.0, 2.0)], [slice_of(0.0, 2.0, tid=2)], [slice_of(0.0, 2.0), flow("s", 1.0)],
                  [slice_of(0.0, 2.0), flow("s", 1.0), flow("f", 5.0)], [slice_of(0.0, 2.0), flow("s", 1.0), flow("f", 0.5)],
                  [{"ph": "B", "name": "b", "ts": 1.0, "pid": 1, "tid": 1}], [{"ph": "E", "ts": 1.0, "pid": 1, "tid": 1}], [{"ph": "?"}]):
        if wrong[0]["ph"] != "?":
            assert len(list(problems(named + wrong))) == 1, wrong
    assert "no phase" in next(problems([{"ph": "?"}]))
