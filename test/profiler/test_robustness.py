"""Profiles where programs do unusual things: on a second thread, in forked children, in folders that cannot be written."""

import os
import stat
import subprocess
import sys
import threading
import traceback

import pytest
import torch
from profile_folder import rows, settings
from test_profile import add, record, warned

from torch_npu import profiler


def test_a_profile_belongs_to_the_thread_that_starts_it(tmp_path):
    found = []

    def beside():
        found.append(record(tmp_path, add).folder)

    thread = threading.Thread(target=beside)
    thread.start()
    thread.join()
    assert len(rows(found[0], "kernel_details")) == 4
    assert {"aten::ones", "aten::add"} <= {row["Name"] for row in rows(found[0], "operator_details")}


def test_another_thread_cannot_stop_it(tmp_path):
    """The state of torch's profiler is the thread's: what it recorded is not lost."""
    profile = profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path)))
    profile.start()
    add()
    sentences = []
    thread = threading.Thread(target=lambda: sentences.extend(warned(profile.stop) + warned(profile.step)))
    thread.start()
    thread.join()
    assert ["only that one can stop it" in sentences[0], "only that one can step it" in sentences[1]] == [True, True]
    add()
    profile.stop()
    assert len(rows(profile.folder, "kernel_details")) == 8


def test_a_thread_that_ended_with_its_profile_does_not_keep_others_from_starting(tmp_path):
    profile = profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path)))
    thread = threading.Thread(target=profile.start)
    thread.start()
    thread.join()
    found = []
    assert any("ended without stopping it" in sentence for sentence in warned(lambda: found.append(record(tmp_path, add))))
    assert len(rows(found[0].folder, "kernel_details")) == 4 and not profile.is_running


def test_an_error_of_the_card_is_raised_after_the_profile_was_written(tmp_path):
    """torch waits for the card before it ends the recording, which would go on for ever when that fails."""
    x, index = torch.ones(4, device="npu"), torch.tensor([99], device="npu")
    profile = profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path)))
    with pytest.raises(torch.AcceleratorError, match="index out of range"), profile:
        x.index_select(0, index)
    assert [row["Name"] for row in rows(profile.folder, "kernel_details")] == ["aclnnIndexSelect"]
    assert not torch.autograd._profiler_enabled()
    with pytest.raises(KeyError, match="mine"), profile:
        x.index_select(0, index)
        raise KeyError("mine")
    assert len(rows(record(tmp_path, add).folder, "kernel_details")) == 4


def test_another_profiler_that_is_started_inside_ends_it(tmp_path):
    """torch has one recording at a time: the second takes it over."""
    def work():
        with torch.profiler.profile():
            add()

    assert any("another profiler was started while it recorded" in sentence for sentence in warned(lambda: record(tmp_path, work)))
    assert len(rows(record(tmp_path, add).folder, "kernel_details")) == 4


def test_a_profile_that_is_still_running_when_the_program_ends_is_written(tmp_path):
    code = """
import torch, torch_npu.profiler as profiler
profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler("out")).start()
torch.ones(8, device="npu")
"""
    process = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stderr
    (folder,) = (tmp_path / "out").iterdir()
    assert [row["Name"] for row in rows(folder, "kernel_details")] == ["aclnnInplaceOne"]


def in_child(work):
    """The status of a forked child that has done the work."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_child_forked_while_a_profile_runs_leaves_it_alone(tmp_path):
    with profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path))) as profile:
        add()

        def child():
            assert not profile.is_running
            assert "not running" in warned(profile.step)[0] and "not running" in warned(profile.stop)[0]

        assert in_child(child) == 0
        add()
    assert len(rows(profile.folder, "kernel_details")) == 8
    assert len(list(tmp_path.iterdir())) == 1


def test_a_forked_child_has_profiles_of_its_own(tmp_path):
    """The card is the parent's; operators of the CPU are recorded."""
    add()

    def child():
        made = []
        sentences = warned(lambda: made.append(record(tmp_path, lambda: torch.ones(3) + 1)))
        assert len(sentences) == 1 and "only the CPU is watched" in sentences[0], sentences
        (profile,) = made
        assert "aten::add" in {row["Name"] for row in rows(profile.folder, "operator_details")}
        assert f"_{os.getpid()}_" in profile.folder.name

    assert in_child(child) == 0
    assert len(list(tmp_path.iterdir())) == 1


def test_a_child_forked_before_the_card_is_used_profiles_it(tmp_path):
    code = """if True:
        import os, sys, torch, torch_npu
        from torch_npu import profiler
        child = os.fork()
        with profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(sys.argv[1])) as profile:
            torch.ones(8, device="npu") + 1
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    """
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=120)
    assert [len(rows(folder, "kernel_details")) for folder in tmp_path.iterdir()] == [2, 2]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path):
    tmp_path.chmod(0o550)
    assert "cannot be written" in warned(lambda: record(tmp_path, add))[0]


def test_a_folder_that_vanishes(tmp_path):
    """The program goes on, the next profile is written."""
    profile = profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path / "below")))

    def work():
        with profile:
            add()
            for path in sorted((tmp_path / "below").rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()

    sentences = warned(work)
    assert any("could not be written" in sentence for sentence in sentences) and len(sentences) <= 2
    assert len(rows(record(tmp_path, add).folder, "kernel_details")) == 4


def test_permissions_do_not_depend_on_the_umask(tmp_path):
    before = os.umask(0o077)
    try:
        folder = record(tmp_path / "new", add, profile_memory=True, experimental_config=settings(export_type=["text", "db"])).folder
    finally:
        os.umask(before)
    for path in [folder.parent, folder, *folder.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o750 if path.is_dir() else 0o640), path
