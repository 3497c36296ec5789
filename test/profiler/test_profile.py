"""torch_npu.profiler.profile: its interface, what it records, and what it does when something is wrong."""

import gc
import gzip
import inspect
import itertools
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import warnings
from decimal import Decimal

import pytest
import torch
from profile_folder import make_step, rows, settings

from torch_npu import profiler
from torch_npu.profiler._folder import new_profile
from torch_npu.profiler.profiler import analyse

# Of the official plugin 2.13.0, without annotations.
NAMES = ["AiCMetrics", "ExportType", "HostSystem", "ProfilerAction", "ProfilerActivity", "ProfilerLevel", "_ExperimentalConfig", "profile",
         "schedule", "supported_activities", "supported_ai_core_metrics", "supported_export_type", "supported_profiler_level",
         "tensorboard_trace_handler"]
ARGUMENTS = {
    "profile": "activities schedule on_trace_ready record_shapes profile_memory with_stack with_flops with_modules experimental_config "
               "execution_trace_observer custom_trace_id_callback use_cuda",
    "_ExperimentalConfig": "profiler_level aic_metrics l2_cache msprof_tx mstx data_simplification record_op_args op_attr "
                           "gc_detect_threshold export_type host_sys mstx_domain_include mstx_domain_exclude sys_io sys_interconnection",
    "schedule": "wait active warmup repeat skip_first skip_first_wait",
    "tensorboard_trace_handler": "dir_name worker_name analyse_flag async_mode",
}


def record(folder, work, **arguments):
    handler = profiler.tensorboard_trace_handler(str(folder))
    with profiler.profile(**{"on_trace_ready": handler} | arguments) as profile:
        work()
    return profile


def add(count=3):
    x = torch.ones(8, device="npu")
    for _ in range(count):
        x = x + 1
    return x


def warned(work):
    """The sentences that the work was told."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    return [str(entry.message) for entry in caught if "torch_npu.profiler:" in str(entry.message)]


@pytest.mark.parametrize("name", NAMES)
def test_official_names(name):
    assert name in profiler.__all__
    if name in ARGUMENTS:
        assert list(inspect.signature(getattr(profiler, name)).parameters) == ARGUMENTS[name].split()


def test_schedule_is_torchs():
    for wait, warmup, active, repeat, skip, skip_wait in itertools.product((0, 2), (0, 1), (1, 3), (0, 2), (0, 3), (0, 1)):
        ours = profiler.schedule(wait, active, warmup, repeat, skip, skip_wait)
        torchs = torch.profiler.schedule(wait=wait, warmup=warmup, active=active, repeat=repeat, skip_first=skip, skip_first_wait=skip_wait)
        assert [ours(step) for step in range(30)] == [torchs(step) for step in range(30)]
    assert len(warned(lambda: profiler.schedule(wait=-1, active=0))) == 2


@pytest.mark.parametrize("level", [0, 1, 2])
def test_every_level_of_the_task_queue(tmp_path, level):
    before = torch.npu.get_task_queue_enable()
    torch.npu.set_task_queue_enable(level)
    try:
        add()
        folder = record(tmp_path, add, experimental_config=settings(export_type=["text", "db"])).folder
    finally:
        torch.npu.set_task_queue_enable(before)
    with sqlite3.connect(folder / "ASCEND_PROFILER_OUTPUT" / "ascend_pytorch_profiler.db") as database:
        joined = "PYTORCH_API JOIN CONNECTION_IDS AS c ON c.id = PYTORCH_API.connectionId JOIN TASK ON TASK.connectionId = c.connectionId"
        assert database.execute(f"SELECT count(*) FROM {joined}").fetchone() == (4,)
    assert [row["Name"] for row in rows(folder, "kernel_details")] == ["aclnnInplaceOne"] + ["aclnnAdds"] * 3
    view = json.loads((folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    enqueued, dequeued = ([event for event in view if event.get("cat") == kind] for kind in ("enqueue", "dequeue"))
    assert len(enqueued) == len(dequeued) == (4 if level else 0)
    assert all(float(late["ts"]) >= float(early["ts"]) for early, late in zip(enqueued, dequeued, strict=True))
    assert sum(int(row["Count"]) for row in rows(folder, "api_statistic")) == 4


def test_other_threads_and_streams(tmp_path):
    def work():
        def beside():
            profiler.profile.enable_profiler_in_child_thread()
            with torch.npu.stream(torch.npu.Stream()):
                add().half().t().contiguous()
            profiler.profile.disable_profiler_in_child_thread()

        thread = threading.Thread(target=beside)
        thread.start()
        thread.join()
        add()

    folder = record(tmp_path, work, experimental_config=settings()).folder
    view = json.loads((folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    hardware = next(event["pid"] for event in view if event["name"] == "process_name" and event["args"]["name"] == "Ascend Hardware")
    assert len({event["tid"] for event in view if event["ph"] == "X" and event["pid"] == hardware}) == 2
    assert len({event["tid"] for event in view if event["name"] == "aten::add"}) == 2
    assert len([event for event in view if event.get("cat") == "async_npu" and event["ph"] == "s"]) == len(rows(folder, "kernel_details"))
    assert len(warned(profiler.profile.enable_profiler_in_child_thread)) == 1


def test_a_long_recording_on_two_streams(tmp_path):
    """Events go back while it lasts, and times go from launch to launch: none may be lost, nor out of order on its stream."""
    stream = torch.npu.Stream()

    def work():
        for _ in range(10):
            add(50)
            with torch.npu.stream(stream):
                add(2)

    folder = record(tmp_path, work).folder
    table = rows(folder, "kernel_details")
    assert len(table) == 10 * (51 + 3) and all(float(row["Duration(us)"]) >= 0 for row in table)
    view = json.loads((folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    lanes = {}
    for event in view:
        if "Stream Id" in event.get("args", {}):
            lanes.setdefault(event["args"]["Stream Id"], []).append((event["args"]["Task Id"], Decimal(event["ts"])))
    assert sorted(map(len, lanes.values())) == [30, 510]
    assert all([time for _, time in sorted(lane)] == sorted(time for _, time in lane) for lane in lanes.values())


def test_graphs_are_one_launch(tmp_path):
    graph, x = torch.npu.NPUGraph(), torch.ones(8, device="npu")

    def work():
        with torch.npu.graph(graph):
            x.add_(1).mul_(2)
        graph.replay()
        graph.replay()

    table = rows(record(tmp_path, work).folder, "kernel_details")
    assert [row["Name"] for row in table if row["Name"] != "aclrtMemcpy"].count("aclmdlRIExecuteAsync") == 2
    assert not [row for row in table if row["Name"] == "aclnnInplaceAdds"]


def test_collectives(tmp_path):
    import torch.distributed as dist

    dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
    try:
        x = torch.ones(1024, device="npu")
        dist.all_reduce(x)
        profile = record(tmp_path, lambda: (dist.all_reduce(x), dist.broadcast(x, 0)),
                         experimental_config=settings(export_type=["text", "db"]))
        folder = profile.folder
    finally:
        dist.destroy_process_group()
    assert (folder / "profiler_info_0.json").exists() and (folder / "ASCEND_PROFILER_OUTPUT" / "ascend_pytorch_profiler_0.db").exists()
    table = [row for row in rows(folder, "kernel_details") if row["Accelerator Core"] == "COMMUNICATION"]
    assert [row["Type"] for row in table] == ["hcom_allReduce_", "hcom_broadcast_"]
    steps = json.loads((folder / "ASCEND_PROFILER_OUTPUT" / "communication.json").read_text())
    whole = steps["step0"]["collective"]["Total Op Info"]["Communication Bandwidth Info"]["SDMA"]
    assert whole["Transit Size(MB)"] == pytest.approx(2 * 4096 / 1e6)
    groups = json.loads((folder / "profiler_metadata.json").read_text())["parallel_group_info"]
    assert [group["global_ranks"] for group in groups.values()] == [[0]]


def test_mstx_by_domain_and_garbage_collections(tmp_path):
    mstx = torch.npu.mstx

    def work():
        mstx.mark("here")
        number = mstx.range_start("mine", domain="kept")
        mstx.range_push("also", domain="kept")
        mstx.range_start("not mine", domain="dropped")
        mstx.range_pop(domain="kept")
        mstx.range_end(number, domain="kept")
        gc.collect()

    config = settings(mstx=True, mstx_domain_exclude=["dropped"], gc_detect_threshold=0)
    folder = record(tmp_path, work, experimental_config=config).folder
    view = json.loads((folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    assert {(event["name"], event["args"]["domain"]) for event in view if "domain" in event.get("args", {})} == {
        ("here", "default"), ("mine", "kept"), ("also", "kept")}
    assert [event for event in view if event["name"] == "GC"]
    assert sys.modules["torch_npu.npu.mstx"].listener is None


def test_levels_and_activities(tmp_path):
    none = record(tmp_path, add, experimental_config=profiler._ExperimentalConfig(profiler_level="Level_none")).folder
    assert rows(none, "kernel_details") == [] and rows(none, "operator_details")
    plain = record(tmp_path, add).folder
    assert len(rows(plain, "kernel_details")) == 4 and not (plain / "ASCEND_PROFILER_OUTPUT" / "api_statistic.csv").exists()
    assert not (plain / "FRAMEWORK").exists()  # data_simplification
    npu = record(tmp_path, add, activities=[profiler.ProfilerActivity.NPU]).folder
    assert len(rows(npu, "kernel_details")) == 4 and rows(npu, "operator_details") == []
    assert "has no raw data" in warned(lambda: analyse(str(npu)))[0]


def test_raw_data_is_analysed_later(tmp_path, monkeypatch):
    monkeypatch.setenv("ASCEND_WORK_PATH", str(tmp_path))
    folder = record(tmp_path, add, on_trace_ready=None).folder
    assert folder.parent == tmp_path / "profiling_data" and not (folder / "ASCEND_PROFILER_OUTPUT").exists()
    analyse(str(folder.parent), export_type=["text", "db"])
    assert len(rows(folder, "kernel_details")) == 4 and (folder / "ASCEND_PROFILER_OUTPUT" / "analysis.db").exists()


def test_other_processes_analyse(tmp_path):
    raw = [record(tmp_path, add, on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path), analyse_flag=False)).folder
           for _ in range(2)]
    beside = record(tmp_path / "beside", add,
                    on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path / "beside"), async_mode=True)).folder
    assert not (beside / "ASCEND_PROFILER_OUTPUT").exists()
    analyse(str(tmp_path), max_process_number=2)
    assert profiler.profiler._beside[-1].wait(60) == 0
    assert [len(rows(folder, "kernel_details")) for folder in (*raw, beside)] == [4, 4, 4]


# ---- What goes wrong is one sentence, and the program goes on ----


def test_started_twice_and_inside_each_other(tmp_path):
    profile = profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path)))
    assert len(warned(profile.stop)) == len(warned(profile.step)) == 1
    profile.start()
    assert warned(profile.start) == ["torch_npu.profiler: This profiler is already running; this start() is ignored."]
    assert warned(lambda: record(tmp_path, add)) == ["torch_npu.profiler: Another profiler is already running; this start() is ignored."]
    profile.stop()
    assert len(rows(profile.folder, "kernel_details")) == 4
    with torch.profiler.profile():
        (sentence,) = warned(lambda: record(tmp_path, add))
    assert sentence == "torch_npu.profiler: torch.profiler is already running; this start() is ignored."
    assert len(rows(record(tmp_path, add).folder, "kernel_details")) == 4


def test_exceptions_pass_and_the_profile_is_written(tmp_path):
    profile = profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path)))
    with pytest.raises(KeyError), profile:
        add()
        with pytest.raises(RuntimeError):
            torch.ones(2, 3, device="npu") @ torch.ones(2, 3, device="npu")  # refused: no launch
        raise KeyError
    assert "aclnnMatmul" not in {row["Name"] for row in rows(profile.folder, "kernel_details")}
    assert len(rows(profile.folder, "kernel_details")) == 6


def test_the_timeline_alone_after_the_folder_was_written(tmp_path):
    profile = record(tmp_path, add, experimental_config=settings(data_simplification=False))
    profile.export_chrome_trace(str(tmp_path / "trace.json"))
    profile.export_chrome_trace(str(tmp_path / "trace.json.gz"))
    assert json.loads((tmp_path / "trace.json").read_text()) == json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))
    assert "aclnnAdds" in (tmp_path / "trace.json").read_text()
    profile = record(tmp_path, add)
    with pytest.raises(RuntimeError, match="data_simplification=False"):
        profile.export_chrome_trace(str(tmp_path / "again.json"))


def test_profiles_of_one_moment_have_folders_of_their_own(tmp_path):
    assert len({new_profile(str(tmp_path), None) for _ in range(20)}) == 20


def test_an_activity_by_itself(tmp_path):
    assert record(tmp_path, add, activities=profiler.ProfilerActivity.CPU).watched == [profiler.ProfilerActivity.CPU]
    assert any("no activity 5" in sentence for sentence in warned(lambda: record(tmp_path, add, activities=5)))


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").touch()
    (sentence,) = warned(lambda: record(tmp_path / "file" / "below", add))
    assert "cannot be written" in sentence and "kept in memory" in sentence
    (sentence,) = warned(lambda: record(f"{tmp_path}/null\0byte", add))
    assert "null byte" in sentence and "kept in memory" in sentence
    assert "no folder" in warned(lambda: analyse(f"{tmp_path}/null\0byte"))[0]
    assert "no folder" in warned(lambda: analyse(str(tmp_path / "nowhere")))[0]
    assert "has no profile" in warned(lambda: analyse(str(tmp_path)))[0]


def test_a_full_disk(tmp_path):
    """A limit on the size of files stands for it."""
    step = make_step()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    profile = profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path)))

    def work():
        with profile:
            step()
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
            for _ in range(3):
                step()
                profile.step()

    try:
        sentences = warned(work)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert any("could not be written" in sentence for sentence in sentences) and len(sentences) <= 3
    assert not list(tmp_path.rglob("*.part"))
    assert any("was not recorded to its end" in sentence for sentence in warned(lambda: analyse(str(tmp_path))))
    assert rows(profile.folder, "kernel_details")


def test_a_killed_program_leaves_what_it_had_done(tmp_path):
    code = """if True:
        import os, signal, sys, torch, torch_npu
        from torch_npu import profiler
        with profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(sys.argv[1])) as profile:
            for _ in range(2):
                torch.ones(8, device="npu") + 1
                torch.npu.synchronize()
                profile.step()
            os.kill(os.getpid(), signal.SIGKILL)
    """
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, timeout=120)
    assert killed.returncode == -signal.SIGKILL
    assert "the 4 launches that were written" in warned(lambda: analyse(str(tmp_path)))[0]
    (folder,) = tmp_path.iterdir()
    assert [row["Name"] for row in rows(folder, "kernel_details")] == ["aclnnInplaceOne", "aclnnAdds"] * 2
    assert json.loads((folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    with open(folder / "FRAMEWORK" / "launches.tsv", "a") as file:
        file.write("aclnnAdds\tkern")  # killed while it wrote
    assert "the 4 launches" in warned(lambda: analyse(str(tmp_path)))[0]


def test_settings_that_cannot_be():
    config = profiler._ExperimentalConfig
    for arguments in ({"profiler_level": "Level9"}, {"aic_metrics": 3}, {"export_type": "xml"}, {"l2_cache": True, "sys_io": True},
                      {"gc_detect_threshold": "1"}, {"mstx": 1}, {"mstx_domain_include": "a"}):
        assert len(warned(lambda arguments=arguments: config(**arguments))) == 1, arguments
    assert len(warned(lambda: profiler.profile(use_cuda=True, experimental_config=3, on_trace_ready=3, schedule=3))) == 4
    assert len(warned(lambda: profiler.profile(activities=["GPU"]))) == 2
    assert len(warned(lambda: profiler.tensorboard_trace_handler(3, worker_name="a/b", analyse_flag=1))) == 3
    assert profiler.supported_activities() == {profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.NPU}
    assert os.environ.get("ASCEND_WORK_PATH") is None


@pytest.mark.parametrize("key, value", [("", "a"), (3, "a"), ("k", 5), ("k", "x" * (50 * 1024 + 1))])
def test_metadata_that_is_not_text_is_refused(key, value):
    profile = profiler.profile()
    with pytest.warns(UserWarning, match="Metadata must be texts"):
        profile.add_metadata(key, value)
    with pytest.warns(UserWarning, match="is not JSON"):
        profile.add_metadata_json("k", "{")
    profile.add_metadata("k", "x" * (50 * 1024))
    profile.add_metadata_json("j", '{"a": 1}')
    assert profile._extra_metadata == {"k": "x" * (50 * 1024), "j": {"a": 1}}
