"""Flight recorder, options and timing."""

import os
import pickle
import stat
import subprocess
import sys

import tool_cases as cases
from world import World, start_hccl


def test_flight_recorder_is_read_by_the_analyser(tmp_path):
    with World(2, start_hccl, {"TORCH_HCCL_TRACE_BUFFER_SIZE": "100"}) as world:
        dumps = [pickle.loads(text) for text in world.run(cases.recorded, str(tmp_path))]
    for dump in dumps:
        names = [entry["profiling_name"] for entry in dump["entries"]]
        assert names == ["hccl:all_reduce"] * 3 + ["hccl:broadcast"]
        assert all(entry["state"] == "completed" for entry in dump["entries"])
        assert any(frame["name"] == "recorded" for frame in dump["entries"][0]["frames"])
        assert dump["pg_config"]["0"]["ranks"] == "[0, 1]"
    database = analysed(tmp_path, "hccl_trace_rank_")
    assert [collective.collective_name for collective in database.collectives] == names
    assert all(collective.pass_check for collective in database.collectives)
    assert [(call.collective_id, call.global_rank) for call in database.ncclcalls] == [(i, rank) for i in range(4) for rank in (0, 1)]


def analysed(folder, prefix):
    """What torch's analyser makes of the dumps in a folder: its database of collectives and calls."""
    output = folder.parent / f"{folder.name}.pickle"
    command = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", str(folder), "-p", prefix, "-o", str(output)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder)
    assert process.returncode == 0, process.stdout + process.stderr
    return pickle.loads(output.read_bytes())[1]


def test_recorder_is_written_when_a_collective_fails(tmp_path):
    environment = {
        "TORCH_HCCL_TRACE_BUFFER_SIZE": "100",
        "TORCH_HCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_HCCL_DEBUG_INFO_TEMP_FILE": str(tmp_path / "trace_"),
    }
    other = tmp_path.parent / f"{tmp_path.name}.other"
    other.touch()
    (tmp_path / "trace_0").symlink_to(other)
    with World(2, start_hccl, environment) as world:
        for path in world.run(cases.dumped_on_failure):
            with open(path, "rb") as file:
                entries = pickle.load(file)["entries"]
            assert entries[-1]["profiling_name"] == "hccl:all_reduce" and entries[-1]["state"] == "scheduled"
            assert not os.path.islink(path) and stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert other.read_bytes() == b""
    (collective,) = analysed(tmp_path, "trace_").collectives
    assert not collective.pass_check and collective.mismatch_collectives, collective


def test_options(pair):
    for name, error in pair.run(cases.options):
        assert name and "hccl_config has no key 'no_such_key'" in error


def test_duration(pair):
    assert all(milliseconds > 0 for milliseconds in pair.run(cases.duration))
