"""The parts of python -m torch_npu.hang: what is asked of a process, what may be answered, and every word that is printed."""

import json
import os
import re
import struct
import threading
from types import SimpleNamespace

import pytest
from test_hang import WAIT, report

from torch_npu import _inspection, hang

# ---- what is asked, and what may be answered ----


class Socket:
    """Of a process that answers with `chunks`; an exception among them is raised."""

    def __init__(self, chunks, peer, refuses):
        self.chunks, self.peer, self.refuses, self.said = list(chunks), peer, refuses, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.said.append("closed")

    def settimeout(self, seconds):
        self.said.append(seconds)

    def connect(self, address):
        self.said.append(address)
        if self.refuses:
            raise ConnectionRefusedError

    def getsockopt(self, level, option, size):
        return struct.pack("3i", *self.peer)

    def sendall(self, data):
        self.said.append(data)

    def recv(self, size):
        chunk = self.chunks.pop(0) if self.chunks else b""
        if isinstance(chunk, Exception):
            raise chunk
        return chunk


@pytest.fixture
def answers(monkeypatch):
    """answers(chunks): what this process says when it is asked."""

    def prepare(*chunks, peer=None, refuses=False):
        made = Socket(chunks, peer or (os.getpid(), os.geteuid(), 0), refuses)
        monkeypatch.setattr(_inspection, "socket", SimpleNamespace(AF_UNIX=1, SOCK_STREAM=1, SOL_SOCKET=1, SO_PEERCRED=17,
                                                                   socket=lambda *_: made))
        return made

    return prepare


def test_the_parts_of_an_answer_are_put_together(answers):
    asked = answers(b'{"process": {"pid"', b': 5}}\n{"queue"', b': null}\n')
    assert _inspection.ask(os.getpid(), "process", "queue") == {"process": {"pid": 5}, "queue": None}
    assert asked.said == [10.0, f"\0torch_npu/{os.stat('/proc/self/ns/pid').st_ino}/{os.getpid()}", b"process queue\n", "closed"]
    assert answers(b'{"stacks": {"dumped": "Thread 0x1 (most recent call first):\\n  File \\"a\\", line 1 in f\\n"}}\n')
    assert _inspection.ask(os.getpid(), "stacks")["stacks"] == {"lock": "held", "threads": [
        {"name": "MainThread", "main": True, "frames": [["a", 1, "f"]]}]}
    answers(b'{"stacks": null}\n')
    assert _inspection.ask(os.getpid(), "stacks") == {"stacks": None}


@pytest.mark.parametrize(("chunks", "more", "words"), [
    ([b'{"refused": "it is busy"}'], {}, "Process PID does not answer: it is busy."),
    ([b'{"queue": 1}\n'], {}, "Process PID broke off before it answered process: it has ended."),
    ([], {}, "Process PID broke off before it answered process: it has ended."),
    ([b"x" * 20] * 9, {}, "Process PID answers without an end."),
    ([TimeoutError()], {}, "Process PID did not answer within 2.5 s."),
    ([], {"refuses": True}, "Process PID (NAME) has loaded torch_npu, but has not used an npu, so nothing of it can wait for one."),
    ([], {"peer": (1, 0, 0)}, "Process PID cannot be asked: process 1 has taken its socket."),
    ([], {"peer": (os.getpid(), 123456, 0)}, "Process PID cannot be asked: process PID has taken its socket."),
])
def test_answers_that_are_none(answers, monkeypatch, chunks, more, words):
    monkeypatch.setattr(_inspection, "_ANSWER", 100)
    answers(*chunks, **more)
    with pytest.raises(_inspection.CannotAsk) as why:
        _inspection.ask(os.getpid(), "process", "queue", seconds=2.5)
    assert str(why.value) == words.replace("PID", str(os.getpid())).replace("NAME", _inspection._name(os.getpid()))


def test_an_answer_may_be_as_long_as_the_limit(answers, monkeypatch):
    text = b'{"process": 1}\n'
    monkeypatch.setattr(_inspection, "_ANSWER", len(text))
    answers(text)
    assert _inspection.ask(os.getpid(), "process") == {"process": 1}


def test_who_may_be_asked(monkeypatch):
    def refused(user=7, own=7, state="S", other=None):
        monkeypatch.setattr(_inspection, "_user", lambda pid: user)
        monkeypatch.setattr(_inspection.os, "geteuid", lambda: own)
        monkeypatch.setattr(_inspection, "_state", lambda pid: state)
        monkeypatch.setattr(_inspection, "_namespace", lambda pid, kind="pid": 2 if (pid, kind) == ("5", other) else 1)
        try:
            return _inspection._check_process(5)
        except _inspection.CannotAsk as why:
            return str(why)
        finally:
            monkeypatch.undo()

    assert refused() is None is refused(own=0) and refused(state="T") is None
    assert refused(user=None) == "There is no process 5."
    assert refused(user=0) == "Process 5 belongs to another user (root): only that user or root may ask it."
    assert refused(user=123456) == "Process 5 belongs to another user (number 123456): only that user or root may ask it."
    assert refused(state="Z") == "Process 5 has ended."
    for kind in ("pid", "net"):
        assert refused(other=kind) == "Process 5 lives in another container (PID or network namespace): run this in there."


def test_what_the_system_says_of_a_process(monkeypatch):
    own = os.getpid()
    assert _inspection._user(own) == os.geteuid() and _inspection._state(own) == "R" and _inspection._state(1 << 30) == "X"
    assert _inspection._user(1 << 30) is None is _inspection._namespace(str(1 << 30)) and _inspection._name(1 << 30) == "?"
    assert _inspection._namespace(str(own), "net") == os.stat("/proc/self/ns/net").st_ino != _inspection._namespace(str(own))
    assert _inspection._why_silent(1 << 30) == (f"Process {1 << 30} (?) does not answer, and the system does not let anybody look at it.")
    for state, stopped in (("T", True), ("t", True), ("S", False)):
        monkeypatch.setattr(_inspection, "_state", lambda pid, state=state: state)
        assert ("it is stopped" in _inspection._why_late(5, 3.0)) is stopped
    assert _inspection._why_late(5, 3.0) == "Process 5 did not answer within 3 s."


def test_processes_of_this_namespace_and_user(monkeypatch, tmp_path):
    place = os.stat("/proc/self/ns/pid").st_ino
    names = [f"@torch_npu/{place}/{pid}" for pid in (30, 20, 20, 10)] + [f"@torch_npu/{place + 1}/40", f"@torch_npu/{place}/50/x", "@x"]
    table = tmp_path / "unix"
    table.write_text("".join(f"0000000000000000: 00000003 00000000 00000000 0001 03 12345 {name}\n" for name in names))
    monkeypatch.setattr(_inspection, "Path", lambda path: table if path == "/proc/net/unix" else tmp_path / "none")
    monkeypatch.setattr(_inspection, "_user", lambda pid: os.geteuid() if pid != 30 else 123456)
    assert _inspection.processes() == [10, 20]
    table.unlink()
    assert _inspection.processes() == []


def test_stacks_have_the_innermost_call_first():
    found = []

    def inner(event):
        event.wait()

    def outer(event):
        inner(event)

    event = threading.Event()
    beside = threading.Thread(target=outer, args=(event,), name="beside")
    beside.start()
    asking = threading.Thread(target=lambda: found.append(json.loads(_inspection.stacks())), name="asking")
    asking.start()
    asking.join()
    event.set()
    threads = {thread["name"]: thread for thread in found[0]["threads"]}
    assert found[0]["lock"] == "free" and "asking" not in threads
    assert threads["MainThread"]["main"] is True and threads["beside"]["main"] is False
    names = [name for file, _, name in threads["beside"]["frames"] if file == __file__]
    assert names == ["inner", "outer"]
    lines = [line for file, line, _ in threads["beside"]["frames"] if file == __file__]
    assert lines == [inner.__code__.co_firstlineno + 1, outer.__code__.co_firstlineno + 1]


# ---- what is printed ----


def test_the_line_of_the_user():
    own, library = ["/home/me/train.py", 7, "step"], ["/x/site-packages/torch/nn.py", 3, "forward"]

    def at(*frames, main=True):
        other = {"main": False, "frames": [["/b.py", 1, "b"]]}
        return hang.place({"stacks": {"threads": [other, {"main": main, "frames": list(frames)}]}})

    others = library, ["<frozen importlib>", 1, "load"], [threading.__file__, 2, "wait"], [hang.__file__, 9, "x"]
    assert at(*others, own, ["/a.py", 1, "a"]) == "train.py:7 in step"
    assert at(library, ["<string>", 1, "f"]) == "nn.py:3 in forward"
    assert at(own, main=False) == "unknown" == hang.place({"stacks": None}) == hang.place({})


def test_the_rank_is_that_of_the_process_or_of_its_largest_group():
    def rank(own, *groups):
        return hang.rank_of({"process": {"rank": own}, "groups": [{"rank": r, "ranks": list(range(n))} for r, n in groups] or None})

    assert rank(3, (1, 2)) == 3 and rank(0) == 0 and rank(None) is None and rank(None, (1, 2), (5, 8), (0, 4)) == 5
    reports = [{"process": {"rank": r, "pid": pid}, "groups": None} for r, pid in ((None, 2), (1, 9), (0, 8), (None, 1), (0, 7))]
    assert [report["process"]["pid"] for report in hang.in_order(reports)] == [7, 8, 9, 1, 2]


def test_two_looks_tell_whether_a_process_moves(monkeypatch):
    asked, slept = [], []

    def look(*streams):
        looks = list(streams)

        def ask(pid, *parts):
            asked.append((pid, parts))
            return {"streams": looks.pop(0)}

        monkeypatch.setattr(_inspection, "ask", ask)
        return hang.look(5)

    monkeypatch.setattr(hang.time, "sleep", slept.append)
    one, two = ([{"device": 0, "stream": 1, "done": n, "queued": 3, "running": "x"}] for n in (4, 5))
    assert look(one, two)["moves"] is True and look(one, one) == {"streams": one, "moves": False} and look(None, None)["moves"] is None
    assert asked[:2] == [(5, ("process", "queue", "streams", "groups", "stacks")), (5, ("streams",))] and slept == [0.5] * 3
    assert hang.done(one) == {(0, 1): 4} and hang.done(None) == {}


def test_groups_of_some_ranks_are_named_and_one_second_is_patience():
    young, old = ("all_reduce", 4, 0.9, None), ("all_reduce", 4, 1.0, None)
    assert not hang.waits_long(report(0, 4, [young])) and hang.waits_long(report(0, 4, [young, old]))
    assert not hang.waits_long({"groups": None}) and hang.findings([report(0, 4, [young])]) == []
    whole, part = (report(0, 4, ranks=(0, 1, 2)), report(0, 4, [old], ranks=(0, 2)))
    part["groups"][0]["name"] = "tp"
    whole["groups"] += part["groups"]
    late = report(2, 3, ranks=(0, 2))
    late["groups"][0]["name"] = "tp"
    assert hang.verdicts([whole, late]) == [
        "Rank 2 has not called all_reduce #4 (group tp); rank 0 waits in it since 1 s. Rank 2 is at train2.py:7 in step."]


def test_transfers_that_wait():
    members = {1: (report(1, 3), None)}

    def said(title, peer, connecting=False):
        wait = {"title": title, "number": 2, "peer": peer, "connecting": connecting, "seconds": 61.6}
        return hang._transfer(0, wait, members, " (group g)")

    there = " Rank 1 is at train1.py:7 in step."
    assert said("send", 1) == f"Rank 0 waits in send to rank 1 (#2) (group g) since 62 s.{there}"
    assert said("recv", 5) == "Rank 0 waits in recv from rank 5 (#2) (group g) since 62 s."
    assert said("send", None) == "Rank 0 waits in send (#2) (group g) since 62 s."
    assert said("send", 1, True) == f"Rank 0 waits for a communicator for send (group g) since 62 s.{there}"


def test_the_oldest_collective_counts_and_several_ranks_are_late():
    waits = [("broadcast", 18, 5.0, None), ("all_reduce", 17, 12.3, None)]
    reports = [report(0, 18, waits), report(1, 16), report(2, 16)]
    assert hang.verdicts(reports) == [
        "Ranks 1 and 2 have not called all_reduce #17; rank 0 waits in it since 12 s. Rank 1 is at train1.py:7 in step. Rank 2 is at "
        "train2.py:7 in step. Rank 3 is not among these processes: ended, or on another machine."]
    assert hang.verdicts([report(0, 17, [WAIT], (0, 1)), report(1, 17, [], (0, 1))]) == [  # it has ended there
        "All ranks have called all_reduce #17, which has not ended since 12 s."]
    one = report(0, 17, [WAIT], (0, 1), running=["HcclX", "aclnnB"])
    assert hang.verdicts([one, report(1, 17, [WAIT], (0, 1), running=["aclnnA"])]) == [
        "All ranks have called all_reduce #17, which has not ended since 12 s: rank 0 runs aclnnB; rank 1 runs aclnnA."]


def test_the_table_and_the_stacks():
    first = report(0, 17, [WAIT, ("send", 3, 0.44, 1)], running=["a", "", "b"]) | {"moves": True, "queue": {"level": 1, "waiting": 4}}
    first["streams"][0]["queued"] = 2
    other = {"process": {"pid": 7, "rank": None, "cards": []}, "queue": {"level": 0, "waiting": 0}, "streams": None, "groups": None,
             "stacks": None, "moves": None}
    cards = report(12, 1) | {"process": {"pid": 112, "rank": 12, "cards": [0, 3]}}
    head, *rows = [re.split("  +", line) for line in hang.table([first, other, cards]).splitlines()]
    assert head == ["rank", "pid", "npu", "main thread at", "queue", "running", "moves", "waits for"]
    assert rows == [["0", "100", "0", "train0.py:7 in step", "6", "a, b", "yes", "all_reduce #17, 12.3 s; send #3, 0.4 s"],
                    ["-", "7", "-", "unknown", "0", "unknown", "unknown", "-"],
                    ["12", "112", "0,3", "train12.py:7 in step", "0", "-", "no", "-"]]
    lines = hang.table([first, other, cards]).splitlines()
    assert [line.index("train" if "train" in line else "unknown") for line in lines[1:]] == [lines[0].index("main")] * 3
    assert hang.stacks(other) == "process 7: no Python stacks"
    assert hang.stacks(first).splitlines() == ["process 100, rank 0", "  MainThread (most recent call first):",
                                               '    File "/site-packages/torch/x.py", line 1 in inner',
                                               '    File "/home/train0.py", line 7 in step']
    held = cards | {"stacks": {"lock": "held", "threads": []}}
    assert hang.stacks(held) == "process 112, rank 12; a thread keeps Python's lock"


def test_all_of_the_users_processes_or_those_that_are_named(monkeypatch, capsys):
    looked = []

    def look(pid):
        looked.append(pid)
        if pid == 9:
            raise _inspection.CannotAsk("Nobody is 9.")
        return report(pid, 17, [WAIT], (1, 2))

    monkeypatch.setattr(hang, "look", look)
    monkeypatch.setattr(_inspection, "processes", lambda: [2, os.getpid(), 1])
    assert hang.main([]) == 0 and sorted(looked) == [1, 2]
    printed = capsys.readouterr().out.split("\n\n")
    assert printed[0].splitlines()[1].split()[:2] == ["1", "101"] and printed[1].startswith("All ranks have called all_reduce #17")
    assert [part.splitlines()[0] for part in printed[2:]] == ["process 101, rank 1", "process 102, rank 2"]
    looked.clear()
    assert hang.main(["2", "9", "2"]) == 1 and sorted(looked) == [2, 9]
    captured = capsys.readouterr()
    assert captured.err == "Nobody is 9.\n" and "process 102, rank 2" in captured.out
    assert hang.main(["9", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"processes": [], "verdicts": [], "refusals": ["Nobody is 9."]}
    assert hang.main(["1", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["verdicts"] == hang.verdicts(answer["processes"]) and len(answer["verdicts"]) == 1
    monkeypatch.setattr(_inspection, "processes", lambda: [os.getpid()])
    assert hang.main([]) == 1 and capsys.readouterr().err == "No process of this user uses an npu.\n"
