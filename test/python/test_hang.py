"""python -m torch_npu.hang: verdicts, and what processes answer or why they do not. Ranks that really hang are in test/distributed."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch

import torch_npu
from torch_npu import _inspection, hang

USES = "import torch, torch_npu; x = torch.ones(1, device='npu'); "


@pytest.fixture
def process():
    """process(code): another one, which has printed a line."""
    started = []

    def start(code):
        child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(child)
        child.stdout.readline()
        return child

    yield start
    for child in started:
        child.kill()
        child.communicate()


def refusal(pid):
    with pytest.raises(_inspection.CannotAsk) as refused:
        _inspection.ask(pid, "process", seconds=1)
    return str(refused.value)


def test_a_process_tells_what_it_does_and_goes_on(process, capsys):
    child = process(USES + "print(1, flush=True); exec(compile('def wait(): input()\\nwait()', 'user.py', 'exec')); "
                    "print('went on', flush=True)")
    assert child.pid in _inspection.processes() and os.getpid() in _inspection.processes() + [os.getpid()]
    assert hang.main([str(child.pid)]) == 0
    printed = capsys.readouterr().out
    assert "user.py:1 in wait" in printed and "MainThread (most recent call first):" in printed
    assert 'File "user.py", line 2 in <module>' in printed
    assert "No collective, send or receive has waited for more than 1 s." in printed
    assert hang.main([str(child.pid), "--json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)["processes"]
    assert report["process"]["pid"] == child.pid and report["process"]["cards"] == [0] and report["groups"] is None
    child.stdin.write("\n")
    child.stdin.flush()
    assert child.stdout.readline() == "went on\n"


def test_a_thread_that_keeps_pythons_lock_hides_no_stacks(process):
    child = process(USES + "import ctypes; print(1, flush=True)\ndef stuck(): ctypes.PyDLL(None).sleep(60)\nstuck()")
    time.sleep(0.2)
    stacks = _inspection.ask(child.pid, "stacks")["stacks"]
    (main,) = [thread for thread in stacks["threads"] if thread["main"]]
    assert stacks["lock"] == "held" and main["frames"][0] == ["<string>", 2, "stuck"]


def test_all_threads_are_listed_with_their_names(check):
    lines = check("""
import json, threading
from torch_npu import _inspection
event = threading.Event()
thread = threading.Thread(target=event.wait, name="loader")
thread.start()
print(sorted(t["name"] for t in json.loads(_inspection.stacks())["threads"]))
event.set()
""")
    assert lines == "['loader']"  # the asking thread leaves itself out


def test_a_dump_of_faulthandler_is_read():
    text = ('Thread 0x00007f12 (most recent call first):\n  File "/a b.py", line 3 in wait\n  File "x.py", line 1 in <module>\n\n'
            'Current thread 0x00007f13 (most recent call first):\n  File "main.py", line 9 in <lambda>\n  ...\n')
    assert _inspection._threads_of_dump(text) == [
        {"name": "Thread 0x00007f12", "main": False, "frames": [["/a b.py", 3, "wait"], ["x.py", 1, "<module>"]]},
        {"name": "MainThread", "main": True, "frames": [["main.py", 9, "<lambda>"]]}]


def test_who_cannot_be_asked(process):
    unused = process("import torch, torch_npu; print(1, flush=True); input()")
    name = _inspection._name(unused.pid)
    assert refusal(unused.pid) == (f"Process {unused.pid} ({name}) has loaded torch_npu, but has not used an npu, so nothing of it can "
                                   "wait for one.")
    with subprocess.Popen(["sleep", "60"]) as other:
        assert refusal(other.pid) == f"Process {other.pid} (sleep) has not loaded torch_npu."
        other.kill()
        time.sleep(0.2)
        assert refusal(other.pid) == f"Process {other.pid} has ended."
    assert refusal(other.pid) == f"There is no process {other.pid}."
    stopped = process(USES + "print(1, flush=True); input()")
    stopped.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, stopped.pid, os.WSTOPPED | os.WNOWAIT)
    assert refusal(stopped.pid) == (f"Process {stopped.pid} does not answer: it is stopped, by a signal or a debugger; "
                                    f"`kill -CONT {stopped.pid}` lets it go on.")
    stopped.send_signal(signal.SIGCONT)
    assert _inspection.ask(stopped.pid, "process")["process"]["pid"] == stopped.pid


def test_refusals_are_sentences_on_stderr(capsys):
    assert hang.main(["999999999"]) == 1
    assert capsys.readouterr().err == "There is no process 999999999.\n"
    with pytest.raises(SystemExit):
        hang.main(["trainer"])
    assert "invalid int value: 'trainer'" in capsys.readouterr().err


def test_a_part_that_is_not_known_is_null_and_many_may_ask(process):
    child = process(USES + "print(1, flush=True); input()")
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(_inspection.ask(child.pid, "weather", "queue"))) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [{"weather": None, "queue": {"level": answers[0]["queue"]["level"], "waiting": 0}}] * 12


def test_a_child_does_not_keep_its_parents_socket(process):
    child = process(USES + "import os, time\nif os.fork() == 0: os.close(1), time.sleep(60)\nprint(1, flush=True); input()")
    assert child.pid in _inspection.processes()
    child.kill()
    child.wait()
    assert child.pid not in _inspection.processes()


# ---- verdicts ----


def report(rank, called, waits=(), ranks=(0, 1, 2, 3), failure=None, running=(), place="host:1"):
    group = {"name": "0", "place": place, "rank": rank, "ranks": list(ranks), "called": called, "last": "", "failure": failure,
             "waits": [{"title": title, "number": number, "collective": peer is None, "connecting": False, "peer": peer, "seconds": seconds}
                       for title, number, seconds, peer in waits]}
    streams = [{"device": 0, "stream": 0, "queued": 0, "done": 1, "running": name} for name in running]
    stacks = {"lock": "free", "threads": [{"name": "MainThread", "main": True, "frames": [["/site-packages/torch/x.py", 1, "inner"],
                                                                                          [f"/home/train{rank}.py", 7, "step"]]}]}
    return {"process": {"pid": 100 + rank, "rank": rank, "cards": [rank]}, "queue": {"level": 0, "waiting": 0}, "streams": streams,
            "groups": [group], "stacks": stacks, "moves": False}


WAIT = ("all_reduce", 17, 12.3, None)


def test_the_late_rank_is_named():
    reports = [report(rank, 16 if rank == 2 else 17, [] if rank == 2 else [WAIT]) for rank in range(4)]
    assert hang.verdicts(reports) == [
        "Rank 2 has not called all_reduce #17; ranks 0, 1 and 3 wait in it since 12 s. Rank 2 is at train2.py:7 in step."]
    rows = hang.table(reports).splitlines()
    assert rows[1].split() == ["0", "100", "0", "train0.py:7", "in", "step", "0", "-", "no", "all_reduce", "#17,", "12.3", "s"]


def test_ranks_that_are_not_there_are_named():
    assert hang.verdicts([report(0, 17, [WAIT]), report(1, 17, [WAIT])]) == [
        "Ranks 0 and 1 wait in all_reduce #17 since 12 s. Ranks 2 and 3 are not among these processes: ended, or on another machine."]


def test_different_collectives_under_one_number():
    reports = [report(0, 17, [WAIT], (0, 1)), report(1, 17, [("broadcast", 17, 11.0, None)], (0, 1))]
    assert hang.verdicts(reports) == [
        "The ranks call different collectives as #17: rank 0 all_reduce, rank 1 broadcast; they wait since 12 s."]


def test_a_kernel_before_the_collective():
    reports = [report(0, 17, [WAIT], (0, 1), running=["all_reduce"]), report(1, 17, [WAIT], (0, 1), running=["aclnnMatmul"])]
    assert hang.verdicts(reports) == ["All ranks have called all_reduce #17, which has not ended since 12 s: rank 1 runs aclnnMatmul."]


def test_receives_failures_other_jobs_and_young_collectives():
    assert hang.verdicts([report(0, 3, [("recv", 2, 5.0, 1)], (0, 1)), report(1, 3, [], (0, 1))]) == [
        "Rank 0 waits in recv from rank 1 (#2) since 5 s. Rank 1 is at train1.py:7 in step."]
    assert hang.verdicts([report(0, 3, [], (0,), failure="all_reduce #3 failed.\nmore")]) == [
        "A collective of rank 0 failed: all_reduce #3 failed."]
    quiet = ["No collective, send or receive has waited for more than 1 s."]
    assert hang.verdicts([report(0, 17, [("all_reduce", 17, 0.4, None)])]) == quiet
    both = hang.verdicts([report(0, 17, [WAIT], (0, 1)), report(1, 5, [], (0, 1), place="host:2")])
    assert both == ["Rank 0 waits in all_reduce #17 since 12 s. Rank 1 is not among these processes: ended, or on another machine."]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_refused(check):
    lines = check(f"import os\nfrom torch_npu import _inspection\nos.setgid(65534); os.setuid(65534)\n"
                  f"try: _inspection.ask({os.getpid()}, 'process')\nexcept _inspection.CannotAsk as why: print(why)")
    assert lines == f"Process {os.getpid()} belongs to another user (root): only that user or root may ask it."


def test_this_process_answers_itself():
    torch.ones(1, device="npu")
    answer = _inspection.ask(os.getpid(), "process", "streams")
    assert answer["process"]["runtime"] == ("softnpu" if torch_npu.is_softnpu() else "cann")
    assert (answer["streams"] is None) == (not torch_npu.is_softnpu())
