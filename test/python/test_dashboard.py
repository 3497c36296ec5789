"""python -m torch_npu.dashboard: who may ask, what is answered, and the counters behind it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest
from forked import changed
from serving import ask, serving

from torch_npu import _inspection
from torch_npu.dashboard import __main__ as command, server as server_module, snapshots as snapshots_module
from torch_npu.dashboard.snapshots import Snapshots, rates

HOSTILE = "<img src=x onerror=alert(1)>"
LOOP = """
import sys, threading, torch, torch_npu
x, y = (torch.ones(8, device="npu") for _ in range(2))
torch.npu.synchronize()
print("ready", flush=True)
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""


class Child:
    """A process with an npu that runs lines."""

    shown: set[int] = set()  # whom a dashboard of these tests asks: others may be asked by nobody, or be of other tests

    def __init__(self, shown=True, **environment):
        self.process = subprocess.Popen([sys.executable, "-c", LOOP, HOSTILE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=changed(environment))
        self.pid = self.process.pid
        if shown:
            self.shown.add(self.pid)
        assert self.process.stdout.readline() == "ready\n"

    def run(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def calls(self):
        return {launch["name"]: launch["calls"] for launch in _inspection.ask(self.pid, "operators")["operators"]["launches"]}

    def counted(self, line):
        """What is counted while the line runs."""
        before = self.calls()
        self.run(line)
        return {name: calls - before.get(name, 0) for name, calls in self.calls().items() if calls != before.get(name, 0)}

    def end(self):
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def child():
    process = Child(TORCH_NPU_FALLBACK_CPU_DISABLE="0")
    yield process
    process.end()


@pytest.fixture(scope="module", autouse=True)
def asked_once():
    """A process that was asked for its operators before the other tests, then launched five, and when that was."""
    every = _inspection.processes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_inspection, "processes", lambda: [pid for pid in every() if pid in Child.shown])
        process = Child(shown=False)
        process.calls()
        asked = time.monotonic()
        process.run("[x + y for _ in range(5)]")
        yield process, asked
        process.end()


@pytest.fixture(scope="module")
def server():
    with serving(Snapshots()) as one:
        yield one


def get(server, path, method="GET", **headers):
    answer, text = ask(server, path, method, {name.replace("_", "-"): value for name, value in headers.items()})
    return answer, text.decode()


def data(server):
    answer, text = get(server, "/data", Authorization=f"Bearer {server.token}")
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/json; charset=utf-8"
    return json.loads(text)


def row_of(snapshot, pid):
    (row,) = [row for row in snapshot["processes"] if row["pid"] == pid]
    return row


# ---- who may ask ----


@pytest.mark.parametrize("path", ["/", "/data", "/stacks?pid=1", "/?token=", "/data?token=wrong", "/?token=%ff%00", "/nothing"])
def test_without_the_token_a_sentence_says_what_to_do(server, path):
    answer, text = get(server, path)
    sentence = "The dashboard's token is missing or wrong: open the whole address that `python -m torch_npu.dashboard` printed.\n"
    assert (answer.status, text) == (403, sentence)
    answer, _ = get(server, path, Authorization="Bearer wrong")
    assert answer.status == 403


def test_with_the_token_there_is_a_page_that_nothing_else_may_use(server):
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}", server.url)
    answer, page = get(server, server.url.partition(str(server.server_port))[2])
    assert answer.status == 200 and "<h1>npu dashboard</h1>" in page
    assert answer.headers["Cache-Control"] == "no-store" and answer.headers["Referrer-Policy"] == "no-referrer"
    assert not [name for name in answer.headers if name.lower().startswith("access-control") or name.lower() == "set-cookie"]
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe" not in policy and "frame-ancestors 'none'" in policy


@pytest.mark.parametrize("host, status", [("evil.example", 403), ("127.0.0.1.evil.example:80", 403), ("", 403), ("localhost:8000", 200),
                                          ("127.0.0.1", 200)])
def test_a_page_that_calls_itself_this_machine_gets_nothing(server, host, status):
    answer, text = get(server, f"/data?token={server.token}", Host=host)
    assert answer.status == status
    assert status == 200 or text == "The dashboard answers under 127.0.0.1 and localhost only: open the address that it printed.\n"


def test_it_listens_on_the_loopback_address_alone(server, capsys):
    assert server.server_address[0] == "127.0.0.1"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", server.server_port), timeout=5)
    with pytest.raises(SystemExit):
        command.main(["--host", "0.0.0.0"])
    assert "unrecognized arguments: --host" in capsys.readouterr().err


def test_another_user_is_refused_though_he_has_the_token(server, monkeypatch):
    monkeypatch.setattr(server_module, "_user_of", lambda client, own: 65534)
    if os.geteuid() == 65534:
        monkeypatch.setattr(server_module, "_user_of", lambda client, own: 65533)
    answer, text = get(server, f"/?token={server.token}")
    assert (answer.status, text) == (403, "The dashboard belongs to another user: start your own with `python -m torch_npu.dashboard`.\n")


def test_the_kernel_says_whose_a_connection_is(server):
    with socket.create_connection(server.server_address, timeout=5) as connection:
        assert server_module._user_of(connection.getsockname(), server.server_address) == os.geteuid()
    assert server_module._user_of(("127.0.0.1", 1), server.server_address) is None


def test_what_is_no_question_is_answered_in_a_sentence(server):
    token = {"Authorization": f"Bearer {server.token}"}
    answer, text = get(server, "/nothing", **token)
    assert (answer.status, text) == (404, "There is no such page: / has the dashboard, /data what it shows.\n")
    for pid in ("", "0", "-1", "one", "1;2", "9" * 30):
        answer, text = get(server, f"/stacks?pid={pid}", **token)
        assert (answer.status, text) == (400, "pid must be the number of a process.\n")
    answer, text = get(server, "/", method="POST", **token)
    assert answer.status == 501 and text == "Unsupported method ('POST')\n"
    with socket.create_connection(server.server_address, timeout=5) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00\x01\r\n\r\n")
        assert connection.recv(1000).startswith(b"Bad request")
    data(server)


def test_the_page_needs_nothing_from_elsewhere_and_takes_text_for_text():
    page = server_module._PAGE.read_text()
    assert not re.findall(r"//[\w.-]+\.\w|https?:|@import|url\(", page)
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function|\son\w+=|style=", page)


# ---- the command ----


def test_interrupted_it_ends_well():
    with subprocess.Popen([sys.executable, "-m", "torch_npu.dashboard"], stdout=subprocess.PIPE, text=True, env=changed({})) as process:
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        assert "in a browser of this machine" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def test_a_port_that_cannot_be_had(server, capsys):
    assert command.main(["--port", str(server.server_port)]) == 1
    assert capsys.readouterr().err == (f"Port {server.server_port} is taken: give another one with --port, or leave it out for a free "
                                       "one.\n")
    for wrong in ("0", "65536", "-1", "http", "1e3", "99999999999"):
        with pytest.raises(SystemExit):
            command.main([f"--port={wrong}"])
        assert f"'{wrong}' is no port: 1 to 65535" in capsys.readouterr().err


def test_once_as_json(child, capsys):
    assert command.main(["--json"]) == 0
    row = row_of(json.loads(capsys.readouterr().out), child.pid)
    assert row["moves"] is False and row["operators"] == []


# ---- what is shown ----


def test_another_process_is_shown_with_its_memory_and_its_name_is_text(server, child):
    before = row_of(data(server), child.pid)
    assert before["cards"] == [0] and before["rank"] is None and before["runtime"] == "softnpu" and HOSTILE[:20] not in before["name"]
    child.run("kept = torch.empty(48 << 20, dtype=torch.uint8, device='npu')")
    time.sleep(snapshots_module.BETWEEN)
    snapshot = data(server)
    row = row_of(snapshot, child.pid)
    (now,), (then,) = row["memory"], before["memory"]
    assert now["card"] == 0 and now["allocated"] - then["allocated"] == 48 << 20 and row["moves"] is False
    assert now["peak_allocated"] >= now["allocated"] and now["peak_reserved"] >= now["reserved"] >= now["allocated"]
    card = snapshot["cards"][0]
    (there,) = [process for process in card["processes"] if process["pid"] == child.pid]
    assert card["total"] > card["used"] >= there["bytes"] >= now["reserved"]
    child.run("del kept")


def test_a_programs_name_is_what_it_was_called_with_and_not_too_long(child):
    name = snapshots_module._program(child.pid)
    assert name.startswith(os.path.basename(sys.executable) + " -c ") and len(name) == 80 and name.endswith("\u2026")
    with subprocess.Popen(["sh", "-c", "echo; read line", HOSTILE, b"\xff\n"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        assert snapshots_module._program(other.pid) == f"sh -c echo; read line {HOSTILE} \ufffd"
        other.kill()


def test_fallbacks_are_shown(server, child):
    child.run("import warnings; warnings.simplefilter('ignore'); i = torch.ones(2, dtype=torch.int32, device='npu'); "
              "[torch.ops.aten._test_optional_intlist(i, [1, 2]) for _ in range(3)]")
    time.sleep(snapshots_module.BETWEEN)
    assert row_of(data(server), child.pid)["fallbacks"] == [{"name": "aten::_test_optional_intlist", "calls": 3}]


def test_stacks_are_shown(server, child):
    answer, text = get(server, f"/stacks?pid={child.pid}&token={server.token}")
    (main,) = [thread for thread in json.loads(text)["stacks"]["threads"] if thread["main"]]
    assert main["frames"][-1][0] == "<string>"
    _, text = get(server, f"/stacks?pid=999999999&token={server.token}")
    assert json.loads(text) == {"refused": "There is no process 999999999."}


def test_who_ends_disappears_and_who_is_stopped_holds_up_nobody():
    snapshots, stopped, ending = Snapshots(), Child(), Child()
    try:
        assert {stopped.pid, ending.pid} <= {row["pid"] for row in snapshots.take()["processes"]}
        ending.end()
        stopped.process.send_signal(signal.SIGSTOP)
        for _ in range(2):
            time.sleep(snapshots_module.BETWEEN)
            begin = time.monotonic()
            snapshot = snapshots.take()
            assert time.monotonic() - begin < 3 and not {stopped.pid, ending.pid} & {row["pid"] for row in snapshot["processes"]}
            assert not [sentence for sentence in snapshot["refusals"] if str(ending.pid) in sentence]
            assert any(f"Process {stopped.pid} does not answer: it is stopped" in sentence for sentence in snapshot["refusals"])
        stopped.process.send_signal(signal.SIGCONT)
        deadline = time.monotonic() + 10
        while stopped.pid not in {row["pid"] for row in snapshots.take()["processes"]}:
            assert time.monotonic() < deadline
            time.sleep(0.2)
    finally:
        stopped.end()
        ending.end()


def answers(monkeypatch, seconds):
    """Two ranks of which one waits; returns which parts were asked for."""
    asked = []

    def ask(pid, *parts, **_):
        asked.append(parts)
        if parts == ("stacks",):
            main = {"name": "MainThread", "main": True, "frames": [["/home/train.py", 7, "load"]]}
            return {"stacks": {"lock": "free", "threads": [main]}}
        waits = [{"title": "all_reduce", "number": 3, "collective": True, "connecting": False, "peer": None, "seconds": seconds}]
        group = {"name": "0", "place": "here", "rank": pid, "ranks": [0, 1], "called": 3 if pid == 0 else 2, "last": "", "failure": None,
                 "waits": waits if pid == 0 else []}
        return {"process": {"pid": pid, "rank": pid, "cards": [pid], "seconds": 9, "runtime": "cann"}, "queue": {"level": 1, "waiting": 2},
                "streams": None, "groups": [group], "memory": None, "operators": None, "fallbacks": None}

    monkeypatch.setattr(_inspection, "ask", ask)
    monkeypatch.setattr(_inspection, "processes", lambda: [0, 1])
    return asked


def test_the_late_rank_is_named_and_only_then_are_stacks_asked_for(monkeypatch):
    asked = answers(monkeypatch, 0.5)
    assert Snapshots().take()["findings"] == [] and ("stacks",) not in asked
    answers(monkeypatch, 4.2)
    snapshot = Snapshots().take()
    assert snapshot["findings"] == ["Rank 1 has not called all_reduce #3; rank 0 waits in it since 4 s. Rank 1 is at train.py:7 in load."]
    first, second = snapshot["processes"]
    assert first["waits"][0] == {"title": "all_reduce", "number": 3, "collective": True, "connecting": False, "peer": None, "seconds": 4.2,
                                 "group": "0"}
    assert second["waits"] == [] and second["running"] is None and second["moves"] is None and second["queue"] == 2
    assert second["memory"] == [] and second["operators"] is None


# ---- operators ----


def launches(seconds, **rows):
    fields = ("calls", "measured", "nanoseconds")
    return {"seconds": seconds, "launches": [{"name": name, "kind": "kernel", **dict(zip(fields, numbers, strict=True))}
                                             for name, numbers in rows.items()]}


def test_rates_are_of_the_time_between_two_answers():
    before = launches(10.0, add=(100, 0, 0), idle=(7, 1, 1000))
    after = launches(12.0, add=(140, 2, 6_000_000), mul=(4, 0, 0), idle=(7, 1, 1000), mm=(10, 1, 20_000_000))
    assert rates(before, after) == [
        {"name": "mm", "kind": "kernel", "calls": 10, "per_second": 5.0, "busy": 0.1},
        {"name": "add", "kind": "kernel", "calls": 140, "per_second": 20.0, "busy": 0.06},
        {"name": "mul", "kind": "kernel", "calls": 4, "per_second": 2.0, "busy": None}]
    assert rates(after, after) == []


@pytest.mark.parametrize("level", [0, 1, 2])
def test_operators_of_all_threads_are_counted_exactly(child, level):
    child.run(f"torch.npu.set_task_queue_enable({level}); work = lambda: [x + y for _ in range(500)]")
    counted = child.counted("threads = [threading.Thread(target=work) for _ in range(4)]; [t.start() for t in threads]; "
                            "[t.join() for t in threads]; [torch.mul(x, y) for _ in range(7)]; torch.npu.synchronize()")
    assert counted == {"aclnnAdd": 2000, "aclnnMul": 7}
    child.run("torch.npu.set_task_queue_enable(0)")


def test_copies_are_counted_and_launches_that_are_refused_are_not(child):
    assert child.counted("x.cpu()") == {"aclrtMemcpy": 1}
    child.run("b = torch.ones(2, 2, dtype=torch.bool, device='npu'); suppress = __import__('contextlib').suppress(RuntimeError)")
    assert child.counted("exec('with suppress: b @ b')") == {}


def test_replays_of_a_graph_are_counted_and_the_capture_is_not(child):
    child.run("graph = torch.npu.NPUGraph(); stream = torch.npu.Stream(); z = x + y; torch.npu.synchronize()")
    capture = "exec('with torch.npu.graph(graph):\\n for _ in range(60): z = x + y')"
    assert "aclnnAdd" not in child.counted(capture)
    replays = "[graph.replay() for _ in range(50)]; torch.npu.synchronize()"
    assert child.counted(replays) == {"aclmdlRIExecuteAsync": 50}
    child.run("assert z.tolist() == [2] * 8")


def test_some_launches_are_measured(child):
    child.calls()
    child.run("big = torch.ones(256, 256, device='npu'); [(big @ big, x + y) for _ in range(150)]; torch.npu.synchronize()")
    found = {launch["name"]: launch for launch in _inspection.ask(child.pid, "operators")["operators"]["launches"]}
    product, addition = next(launch for name, launch in found.items() if name in ("aclnnMm", "aclnnMatmul")), found["aclnnAdd"]
    assert 0 < product["measured"] < product["calls"] / 4 and addition["measured"]
    assert product["nanoseconds"] / product["measured"] > 5_000  # 34 MFLOP


def test_nothing_is_counted_ten_seconds_after_the_last_question(asked_once):
    process, asked = asked_once
    time.sleep(max(0, asked + 10.6 - time.monotonic()))
    process.run("[x + y for _ in range(3)]")
    operators = _inspection.ask(process.pid, "operators")["operators"]
    assert {launch["name"]: launch["calls"] for launch in operators["launches"]} == {"aclnnAdd": 5}
    assert 10 <= operators["seconds"] < 10.6
    assert process.counted("[x + y for _ in range(4)]") == {"aclnnAdd": 4}
