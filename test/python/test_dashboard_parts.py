"""The parts of python -m torch_npu.dashboard without a process to look at: snapshots, rates, the server's answers, the command."""

import base64
import errno
import hashlib
import json
import os
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from serving import ask, serving

import torch_npu
from torch_npu import _C, _inspection, hang, smi
from torch_npu.dashboard import __main__ as command, server as server_module, snapshots as module
from torch_npu.dashboard.server import Server


def launches(seconds, **calls):
    return {"seconds": seconds, "launches": [{"name": name, "kind": "kernel", "calls": count, "measured": 0, "nanoseconds": 0}
                                             for name, count in calls.items()]}


def answer(streams=None, operators=None):
    return {"streams": streams, "operators": operators}


def stream(done):
    return [{"device": 0, "stream": 1, "done": done, "queued": 0, "running": ""}]


class Process(module._Process):
    """One whose answers are given."""

    def told(self, given):
        self.answer = Future()
        if isinstance(given, Exception):
            self.answer.set_exception(given)
        elif given is not None:
            self.answer.set_result(given)
        return self.report()


# ---- Snapshots ----


def test_a_process_moves_when_its_streams_did():
    process = Process(5)
    assert process.told(answer(stream(1))) == answer(stream(1)) | {"moves": None, "rates": None}
    assert process.told(answer(stream(1)))["moves"] is False and process.told(answer(stream(2)))["moves"] is True
    assert process.told(answer(None))["moves"] is None and process.told(answer(stream(2)))["moves"] is None and process.answer is None


def test_rates_are_of_the_last_five_seconds():
    process = Process(5)
    rates = [process.told(answer(None, launches(second, add=count)))["rates"] for second, count in
             ((0.0, 0), (2.0, 10), (4.0, 20), (6.0, 20), (7.0, 20), (9.0, 20))]
    assert [[row["per_second"] for row in each] for each in rates] == [[], [5.0], [5.0], [pytest.approx(20 / 6)], [2.0], []]
    assert [entry["seconds"] for entry in process._operators] == [4.0, 6.0, 7.0, 9.0]
    assert process.told(answer(None, launches(1.0, add=4)))["rates"] == [] and len(process._operators) == 1  # the PID of another process
    assert process.told(answer(None, None))["rates"] is None


def test_rates_of_a_launch_in_half_a_second():
    (row,) = module.rates(launches(1.0, add=4), launches(1.5, add=5))
    assert (row["per_second"], row["calls"]) == (2.0, 5) and module.rates(launches(1.0), launches(1.0, add=5)) == []


def test_answers_that_do_not_come(monkeypatch):
    now = [10.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0], time=lambda: 0.0))
    asked, process = [], Process(os.getpid())
    pool = SimpleNamespace(submit=lambda *given, **options: asked.append((*given, options)) or Future())
    with pytest.raises(_inspection.CannotAsk):
        process.report()
    process.begin(pool, ("a", "b"))
    process.begin(pool, ("a", "b"))  # it is asked already
    assert asked == [(_inspection.ask, os.getpid(), "a", "b", {"seconds": 3.0})]
    now[0] = 11.26
    with pytest.raises(_inspection.CannotAsk, match=f"Process {os.getpid()} did not answer within 1.3 s."):
        process.report()
    with pytest.raises(_inspection.CannotAsk, match="^busy$"):
        process.told(_inspection.CannotAsk("busy"))
    assert process.answer is None  # it is asked again


def test_who_asks_too_early_gets_the_last_snapshot(monkeypatch):
    now = [10.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0], time=lambda: 77.0))
    snapshots, gathered = module.Snapshots(), []
    monkeypatch.setattr(snapshots, "_gather", lambda: gathered.append(now[0]) or {"n": len(gathered)})
    found = []
    for moment in (10.0, 10.4, 10.5, 10.9, 11.0):
        now[0] = moment
        found.append(snapshots.take()["n"])
    assert found == [1, 1, 2, 2, 3] and module.BETWEEN == 0.5


GROUP = {"name": "g", "waits": [{"title": "send", "seconds": 0.5}], "ranks": [0, 1], "rank": 1, "place": "p", "failure": None, "called": 2}
REPORT = {"process": {"pid": 5, "rank": 1, "cards": [0], "seconds": 9}, "queue": {"level": 2, "waiting": 3}, "moves": True,
          "streams": [{"device": 0, "stream": 0, "queued": 4, "done": 1, "running": "x"}], "groups": [GROUP],
          **dict.fromkeys(("memory", "fallbacks", "operators", "rates"))}


def test_a_row_of_the_page(monkeypatch):
    monkeypatch.setattr(module, "_program", lambda pid: f"program {pid}")
    usual = {"pid": 5, "rank": 1, "cards": [0], "seconds": 9, "name": "program 5", "queue": 7, "level": 2, "running": ["x"], "moves": True,
             "waits": [{"title": "send", "seconds": 0.5, "group": "g"}], "memory": [], "fallbacks": [], "operators": None}
    assert module._row(REPORT) == usual
    more = {"streams": None, "groups": None, "memory": [1], "fallbacks": [2], "rates": [3]}
    changed = {"queue": 3, "running": None, "waits": [], "memory": [1], "fallbacks": [2], "operators": [3]}
    assert module._row(REPORT | more) == usual | changed


def test_a_snapshot_has_all_processes_but_this_one(monkeypatch):
    class Asked(module._Process):
        def report(self):
            if self.pid == 7:
                raise _inspection.CannotAsk("7 is busy")
            return REPORT | {"process": {"pid": self.pid, "rank": 9 - self.pid}}

    monkeypatch.setattr(module, "_Process", Asked)
    monkeypatch.setattr(_inspection, "processes", lambda: [5, os.getpid(), 6, 7])
    monkeypatch.setattr(_inspection, "ask", lambda pid, *parts, **more: {})
    monkeypatch.setattr(module, "_cards", lambda: ([1], "why"))
    monkeypatch.setattr(hang, "findings", lambda reports: [len(reports)])
    snapshots = module.Snapshots()
    stacks = []
    monkeypatch.setattr(snapshots, "_add_stacks", lambda reports: stacks.append(len(reports)))
    found = snapshots._gather()
    assert found.keys() == {"time", "cards", "cards_refused", "processes", "findings", "refusals"} and found["time"] > 1e9
    assert (found["cards"], found["cards_refused"], found["findings"], found["refusals"]) == ([1], "why", [2], ["7 is busy"])
    assert [row["pid"] for row in found["processes"]] == [6, 5] and stacks == []  # by rank
    known = snapshots._processes[5]
    monkeypatch.setattr(_inspection, "processes", lambda: [5])
    monkeypatch.setattr(hang, "waits_long", lambda report: True)
    snapshots._gather()
    assert snapshots._processes == {5: known} and stacks == [1]


def test_stacks_of_those_that_answer(monkeypatch):
    def ask(pid, *parts):
        assert parts == ("stacks",)
        if pid == 2:
            raise _inspection.CannotAsk("no")
        return {"stacks": pid}

    monkeypatch.setattr(_inspection, "ask", ask)
    reports = [{"process": {"pid": pid}} for pid in (1, 2)]
    module.Snapshots()._add_stacks(reports)
    assert [report.get("stacks") for report in reports] == [1, None]


@pytest.mark.parametrize("soft", [True, False])
def test_cards_in_bytes(monkeypatch, soft):
    monkeypatch.setattr(module, "_program", lambda pid: f"program {pid}")
    monkeypatch.setattr(torch_npu, "is_softnpu", lambda: soft)
    card = {"id": 1, "name": "n", "total_mb": 8.0, "free_mb": 2.5, "used_mb": 1.25, "processes": [{"pid": 4, "memory_mb": 1.25}]}
    monkeypatch.setattr(smi, "cards", lambda: [card])
    assert module._cards() == ([{"id": 1, "name": "n", "total": 8 << 20, "used": round((1.25 if soft else 5.5) * (1 << 20)),
                                 "processes": [{"pid": 4, "name": "program 4", "bytes": 5 << 18}]}], None)
    monkeypatch.setattr(smi, "cards", lambda: (_ for _ in ()).throw(RuntimeError(" a card\nhas failed")))
    assert module._cards() == ([], "a card")
    monkeypatch.setattr(_C, "why_unavailable", lambda: "\nno library\n")
    assert module._cards() == ([], "no library")


def test_names_of_programs(monkeypatch, tmp_path):
    line = tmp_path / "cmdline"
    monkeypatch.setattr(module, "Path", lambda path: {"/proc/5/cmdline": line}[path])
    monkeypatch.setattr(_inspection, "_name", lambda pid: f"name {pid}")
    for text, name in (("/usr/bin/python\0a.py\0 b\n c\0", "python a.py b c"), ("", "name 5"), ("/x/" + "p" * 80 + "\0", "p" * 80),
                       ("/x/" + "p" * 81, "p" * 79 + "\u2026")):
        line.write_text(text)
        assert module._program(5) == name
    line.unlink()
    assert module._program(5) == "name 5"


# ---- The server ----


@pytest.fixture
def server():
    with serving(SimpleNamespace(take=lambda: {"taken": 1})) as one:
        yield one


def get(server, path, method="GET", **headers):
    answer, text = ask(server, path, method, headers)
    return answer.status, dict(answer.headers), text


def test_every_header_of_an_answer(server):
    status, headers, page = get(server, "/", Authorization=f"bearer {server.token}")
    assert status == 200 and page == server_module._PAGE.read_bytes() == server.page
    assert headers.pop("Date") and headers == {
        "Server": "torch_npu ", "Content-Type": "text/html; charset=utf-8", "Content-Length": str(len(page)), "Cache-Control": "no-store",
        "Content-Security-Policy": server.policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin"}
    status, headers, text = get(server, f"/data?token={server.token}")
    assert (status, headers["Content-Type"], json.loads(text)) == (200, "application/json; charset=utf-8", {"taken": 1})
    status, headers, text = get(server, f"/none?token={server.token}")
    assert (status, headers["Content-Type"]) == (404, "text/plain; charset=utf-8") and int(headers["Content-Length"]) == len(text)


def test_the_policy_lets_the_pages_own_parts_run():
    def mark(text):
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    policy = server_module._policy("<style>a</style><script>b\nc</script><p>d</p><script>e</script>")
    assert policy.split("; ") == ["default-src 'none'", f"script-src 'sha256-{mark(chr(98) + chr(10) + 'c')}' 'sha256-{mark('e')}'",
                                  f"style-src 'sha256-{mark('a')}'", "connect-src 'self'", "img-src data:", "base-uri 'none'",
                                  "form-action 'none'", "frame-ancestors 'none'"]


def test_a_token_in_the_header_goes_first(server):
    assert get(server, f"/data?token={server.token}", Authorization="Bearer wrong")[0] == 403
    assert get(server, f"/data?token={server.token}", Authorization="Basic wrong")[0] == 200
    assert get(server, "/data", Authorization=f"Basic {server.token}")[0] == 403
    assert len(server.token) == 32 and server.url == f"http://127.0.0.1:{server.server_port}/?token={server.token}"
    other = Server(0, None)
    other.server_close()
    assert other.token != server.token


@pytest.mark.parametrize(("user", "status"), [(None, 200), (0, 200), (os.geteuid(), 200), (4242, 403)])
def test_whose_connections_are_answered(server, monkeypatch, user, status):
    monkeypatch.setattr(server_module, "_user_of", lambda client, own: user)
    assert get(server, f"/data?token={server.token}")[0] == status


def test_stacks_of_a_process(server, monkeypatch):
    asked = []

    def ask(*given):
        asked.append(given)
        if given[0] == 2:
            raise _inspection.CannotAsk("no such process")
        return {"stacks": 1}

    monkeypatch.setattr(_inspection, "ask", ask)
    assert json.loads(get(server, f"/stacks?pid=1234567890&token={server.token}")[2]) == {"stacks": 1}
    status, headers, text = get(server, f"/stacks?token={server.token}&pid=2&pid=3")
    assert (status, headers["Content-Type"], json.loads(text)) == (200, "application/json; charset=utf-8", {"refused": "no such process"})
    assert asked == [(1234567890, "stacks"), (2, "stacks")]
    for wrong in ("", "?pid=01", "?pid=12345678901"):
        separator = "&" if wrong else "?"
        assert get(server, f"/stacks{wrong}{separator}token={server.token}")[0] == 400
    assert len(asked) == 2


def test_what_is_no_get_ends_the_connection(server):
    status, headers, text = get(server, "/", method="POST", Authorization=f"Bearer {server.token}")
    assert (status, text) == (501, b"Unsupported method ('POST')\n") and headers["Content-Type"] == "text/plain; charset=utf-8"


def test_whose_a_connection_is_as_the_kernel_lists_it(monkeypatch, tmp_path):
    table = tmp_path / "tcp"
    monkeypatch.setattr(server_module, "Path", lambda path: {"/proc/net/tcp": table}[path])
    row = "   0: {} {} 01 00000000:00000000 00:00000000 00000000  {}        0 1 1 0000 20 4 0 10 -1\n"
    one, two = "0100007F:0050", "0200007F:1F90"  # 127.0.0.1:80 and 127.0.0.2:8080, as a machine with small ends first has them
    table.write_text("  sl  local_address rem_address   st\n" + row.format(two, one, 5) + row.format(one, one, 6) + row.format(one, two, 7))
    assert server_module._user_of(("127.0.0.1", 80), ("127.0.0.2", 8080)) == 7
    assert server_module._user_of(("127.0.0.2", 8080), ("127.0.0.1", 80)) == 5
    assert server_module._user_of(("127.0.0.2", 8080), ("127.0.0.2", 8080)) is None
    table.unlink()
    assert server_module._user_of(("127.0.0.1", 80), ("127.0.0.2", 8080)) is None


# ---- The command ----


def test_ports():
    assert [command._port(text) for text in ("1", "80", "65535", "00080")] == [1, 80, 65535, 80]
    for wrong in ("0", "65536", "", "1.0", " 1", "000080"):
        with pytest.raises(command.argparse.ArgumentTypeError, match=f"'{wrong}' is no port: 1 to 65535"):
            command._port(wrong)


def test_once_as_json_takes_two_looks(monkeypatch, capsys):
    done = []
    monkeypatch.setattr(command, "Snapshots", lambda: SimpleNamespace(take=lambda: done.append("look") or {"n": len(done)}))
    monkeypatch.setattr(command.time, "sleep", done.append)
    assert command.main(["--json"]) == 0 and done == ["look", 0.5, "look"]
    assert capsys.readouterr().out == '{\n  "n": 3\n}\n'


@pytest.mark.parametrize(("number", "words"), [
    (errno.EADDRINUSE, "Port 7 is taken: give another one with --port, or leave it out for a free one.\n"),
    (errno.EACCES, "Port 7 cannot be had (Permission denied): give another one with --port, or leave it out for a free one.\n"),
    (None, f"Port 7 cannot be had ({os.strerror(0)}): give another one with --port, or leave it out for a free one.\n"),
])
def test_a_port_that_cannot_be_had(monkeypatch, capsys, number, words):
    def refuse(port, snapshots):
        error = OSError()
        error.errno = number
        raise error

    monkeypatch.setattr(command, "Server", refuse)
    assert command.main(["--port", "7"]) == 1 and capsys.readouterr().err == words


def test_the_command_serves_until_it_is_interrupted(monkeypatch, capsys):
    done = []

    def serve(poll_interval):
        done.append(poll_interval)
        raise KeyboardInterrupt

    made = SimpleNamespace(url="the address", serve_forever=serve, server_close=lambda: done.append("closed"))
    monkeypatch.setattr(command, "Server", lambda port, snapshots: done.append(port) or made)
    monkeypatch.setattr(command.signal, "signal", lambda *given: done.append(given))
    assert command.main([]) == 0
    assert done == [0, (command.signal.SIGINT, command.signal.default_int_handler), 0.1, "closed"]
    first, second = capsys.readouterr().out.splitlines()
    assert first == "the address" and second.startswith("Open this address in a browser of this machine.")
