"""The parts of python -m torch_npu.verify that are not checks: names, reports and what two differ in, the program of the ABI's tests,
workers, collectives, the command line. test_verify_parts.py has the checks, test_verify.py runs the whole.
"""

import json
import math
import os
import stat
import subprocess
import sys

import pytest
import torch

from torch_npu.verify import (
    __main__,
    checks,
    collective,
    compare,
    conformance,
    machine,
    outcome,
    process,
    report,
    supervisor,
    training,
)

F32, F16, BF16, F64 = torch.float32, torch.float16, torch.bfloat16, torch.float64


# ---- Names ----


def test_patience_and_names():
    assert [checks.patience(name, 10.0) for name in ("op.add", "comm.two_ranks", "train.mlp", "time.calls")] == [10.0, 25.0, 20.0, 20.0]
    names = ["op.add", "op.addmm", "fused.add"]
    assert checks.matching(names, []) == names and checks.matching(names, ["op.add"]) == names[:2]
    assert checks.matching(names, ["*.add"]) == ["op.add", "fused.add"] and checks.matching(names, ["fused", "op.addm"]) == names[1:]
    with pytest.raises(ValueError, match="no check fits 'x'; families are abi, op, fused"):
        checks.matching(names, ["op", "x"])
    trained = {quick: [name for name in checks.functions(quick) if name.startswith("train.")] for quick in (True, False)}
    assert trained[True] == ["train.mlp", "train.gpt.bfloat16", "train.llama"] and len(trained[False]) == len(training.PROGRAMS)


# ---- Reports ----

MACHINE = {"provider": "softnpu", "CANN": "9.1", "SoC": "Ascend", "cards": "2 of 1.0 GiB", "torch_npu": "2.13"}
PROBLEM = {"status": "wrong", "form": "float32 forward", "arguments": "float32[2]", "text": "off", "max_abs": 0.5, "max_rel": 0.25}


def check(status="ok", **more):
    return {"status": status, "seconds": 1.0, "attempts": 2, **more}


def made(found, **more):
    return report.make(MACHINE, found, **({"quick": True, "date": "2026-01-02", "seconds": 65.4, "ended": ""} | more))


def test_the_text_of_a_report():
    found = {
        "op.add": check(numbers={"add": 250.0, "item": 12.5, "at": 100.0}),
        "op.near": check("near", problems=[{"max_rel": 0.001}, {"max_rel": 0.02}, {}]),
        "op.cpu": check("fallback", fallbacks={"aten::x": 3, "aten::y": 5}), "abi.a": check("skipped", note="no card", seconds=0.0),
        "op.bad": check("wrong", seconds=7.0, problems=[PROBLEM, PROBLEM | {"text": "t" * 300}, PROBLEM, PROBLEM]),
        "comm.hang": check("hang", problems=[{"status": "hang", "form": "", "arguments": "", "text": "no answer"}, {"status": "near"}]),
        "random.x": check("near", problems=[]),
    }
    lines = report.text(made(found)).splitlines()
    assert lines[:5] == ["torch_npu verification report", "=" * 29, "2 PROBLEMS in 6 checks: 1 hang, 1 wrong",
                         "softnpu 9.1, Ascend, 2 of 1.0 GiB; torch_npu 2.13", "2026-01-02, 65 s, quick form"]
    rows = {line[:24].strip(): line[24:].split() for line in lines[6:12]}
    assert lines[6].split() == ["checks", "ok", "near", "on", "CPU", "bad", "skipped", "calls", "seconds"]
    assert rows["operators"] == ["4", "1", "1", "1", "1", "0", "8", "10.0"]
    assert rows["collectives"] == ["1", "0", "0", "0", "1", "0", "2", "1.0"]
    assert rows["functions of the C ABI"] == ["1", "0", "0", "0", "0", "1", "2", "0.0"] and "training steps" not in rows
    begin = lines.index("Problems")
    assert lines[begin + 1: begin + 9] == [
        "  HANG     comm.hang: ", "           no answer", "  WRONG    op.bad: float32 forward float32[2]",
        "           off (largest error 0.5, relative 0.25)", "  WRONG    op.bad: float32 forward float32[2]",
        f"           {'t' * 220} (largest error 0.5, relative 0.25)", "           and 2 more forms of it", ""]
    assert "  aten::y (5), aten::x (3)" in lines and "  op.near (2.0e-02), random.x (0.0e+00)" in lines
    assert lines[lines.index("Not run") + 1] == "  1: no card (abi.a)" and "  add 250, item 12.5, at 100" in lines
    slowest = lines[lines.index("Slowest checks (s)") + 1]
    assert slowest.startswith("  op.bad 7.0, ") and slowest.count(",") == 4
    assert lines[lines.index("Machine") + 1] == f"  {'provider':20} softnpu"


def test_the_text_of_a_report_without_problems():
    skipped = {f"abi.{n}": check("skipped", note="why") for n in range(4)}
    text = report.text(made({"op.add": check(), **skipped}, quick=False, ended="early"))
    assert "NO PROBLEM in 1 checks (ended early: early)" in text and "quick" not in text
    assert "  4: why (abi.0, abi.1, abi.2, ...)" in text
    for title in ("Problems", "Computed on the CPU", "Off by more", "Microseconds"):
        assert title not in text
    assert "Not run" not in report.text(made({"op.add": check()}))


def test_long_lists_are_cut():
    many = {f"op.{n}": check("wrong", problems=[PROBLEM, PROBLEM]) for n in range(41)}
    text = report.text(made(many))
    assert text.count("WRONG") == 80 and "  and 1 more, see the data" in text and "more forms" not in text
    text = report.text(made(dict(list(many.items())[:40])))
    assert "see the data" not in text and "40 PROBLEMS in 40 checks: 40 wrong" in text
    near = {f"op.{n}": check("near", problems=[]) for n in range(41)}
    assert report.text(made(near)).count("(0.0e+00)") == 40


def test_a_report_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    given = made({"op.add": check(), "op.x": check("near", problems=[])})
    report.write(given, file := tmp_path / "a.txt")
    assert report.read(file) == given and [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    assert '\n"op.add": {' in file.read_text()
    with pytest.raises(report.ReportError, match="cannot be written to .*: No such file"):
        report.write(given, tmp_path / "none/a.txt")
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with pytest.raises(report.ReportError, match="exists and may not be overwritten"):
        report.require_writable(file)
    report.require_writable(tmp_path / "new.txt")
    monkeypatch.undo()
    report.require_writable(file)
    assert file.stat().st_mode & stat.S_IRUSR


def test_outcomes_of_two_reports():
    def lines(a, b):
        return compare.differences(made(a), made(b))

    bad = check("wrong", problems=[PROBLEM | {"status": "near", "text": "x"}, PROBLEM | {"text": "y" * 200}])
    found, differ = lines({"op.a": check(), "op.b": check("near")}, {"op.a": bad, "op.b": check("near")})
    assert differ and found == ["Outcomes", f"  op.a: ok | wrong (float32 forward float32[2]: {'y' * 160})", ""]
    assert lines({"op.a": bad}, {"op.a": check()})[0][1].startswith("  op.a: wrong | ok (float32 forward")
    assert lines({"op.a": check("crash")}, {"op.a": check()})[0][1] == "  op.a: crash | ok"
    found, differ = lines({"op.a": bad}, {"op.a": check("wrong", problems=[PROBLEM | {"form": "gradient"}])})
    assert differ and found[1] == "  op.a: wrong in float32 forward | in gradient"
    assert lines({"op.a": bad}, {"op.a": bad}) == ([], False)
    assert lines({"op.a": check("near", problems=[PROBLEM])}, {"op.a": check("near", problems=[])}) == ([], False)
    found, differ = lines({"op.a": check("fallback", fallbacks={"x": 1})}, {"op.a": check("fallback", fallbacks={"y": 1})})
    assert differ and found[1] == "  op.a: on the CPU ['x'] | ['y']"
    assert lines({"op.a": check("fallback", fallbacks={"x": 1})}, {"op.a": check("fallback", fallbacks={"x": 2})})[1] is False
    order = lines({"a": check("near"), "b": check(), "c": check("hang")}, {"a": check(), "b": check("wrong", problems=[]), "c": check()})[0]
    assert [line.split(":")[0].strip() for line in order[1:4]] == ["c", "b", "a"]


def test_checks_of_one_report_only_and_times():
    one, many = {"op.a": check()}, {f"op.{n:02}": check() for n in range(21)}
    found, differ = compare.differences(made(one), made(many))
    assert not differ and found[0] == "Only in the first: 1 checks" and found[1] == "  op.a" and found[3] == "Only in the second: 21 checks"
    assert found[4].endswith(", op.19, ...")
    assert compare.differences(made({}), made(dict(list(many.items())[:20])))[0][1].endswith(", op.19")

    def times(first, second):
        return compare.differences(made({"t": check(numbers={"add": first})}), made({"t": check(numbers={"add": second})}))[0][1:-1]

    assert times(2.0, 4.0) == [f"  {'add':28}            2 |            4   x2.00  <--"] and times(2.0, 3.9)[0].endswith("x1.95")
    assert times(4.0, 2.0)[0].endswith("x0.50  <--") and times(0.0, 2.0) == times(2.0, 0.0) == []
    assert compare.differences(made({"t": check(numbers={"x": 1.0})}), made({"t": check(numbers={"y": 1.0})}))[0] == []


# ---- The program of the ABI's tests ----


def program(tmp_path, monkeypatch, text):
    file = tmp_path / "program"
    file.write_text(f"#!{sys.executable}\nimport sys, os, time\n{text}")
    file.chmod(0o755)
    monkeypatch.setattr(conformance, "PROGRAM", file)
    return file


LISTING = 'print("Event.\\n  first\\n  second  # GetParam() = 1\\nHandle.  # TypeParam\\n  any\\nnot a suite\\nMore.\\n  last")'


def test_names_of_the_abis_tests(tmp_path, monkeypatch):
    program(tmp_path, monkeypatch, LISTING)
    assert conformance.names("/x", True) == ["abi.Event.first", "abi.Event.second", "abi.Handle.any", "abi.More.last"]
    assert conformance.names("/x", False) == ["abi.Event.first", "abi.Event.second", "abi.More.last"]
    monkeypatch.setattr(conformance, "PROGRAM", tmp_path / "absent")
    assert conformance.names("/x", True) == []
    monkeypatch.delenv("SOFTNPU_MEMORY", raising=False)
    assert conformance.environment("/x")["ASCEND_TEST_LIBRARY"] == "/x/libascendcl.so"
    assert conformance.environment("/x")["SOFTNPU_MEMORY"] == "1G"
    monkeypatch.setenv("SOFTNPU_MEMORY", "2G")
    assert conformance.environment("/x")["SOFTNPU_MEMORY"] == "2G"


RUN = """
names = [a for a in sys.argv if a.startswith("--gtest_filter=")][0].partition("=")[2].split(":")
for name in names:
    print(f"[ RUN      ] {name}", flush=True)
    if name == "A.crash": print("ouch", flush=True); os.abort()
    if name == "A.hang": time.sleep(30)
    if name == "A.wrong": print("x.cpp:3: Failure\\n  expected   1"); print("[  FAILED  ] A.other (0 ms)")
    if name == "A.skip": print("no card")
    word = {"A.wrong": "[  FAILED  ]", "A.skip": "[  SKIPPED ]"}.get(name, "[       OK ]")
    print(f"{word} {name} (1 ms)", flush=True)
print("[==========] done")
"""


def test_tests_of_the_abi_that_fail_crash_or_hang(tmp_path, monkeypatch):
    program(tmp_path, monkeypatch, RUN)
    found = {}
    conformance.run([f"abi.A.{n}" for n in ("good", "crash", "wrong", "hang", "skip", "last")], "/x", 1.0, found.__setitem__)
    assert {name.removeprefix("abi.A."): check["status"] for name, check in found.items()} == {
        "good": "ok", "crash": "crash", "wrong": "wrong", "hang": "hang", "skip": "skipped", "last": "ok"}
    texts = {name.removeprefix("abi.A."): check["problems"][0]["text"] for name, check in found.items() if "problems" in check}
    assert texts == {"crash": "signal SIGABRT: ouch", "wrong": "x.cpp:3: Failure expected 1", "hang": "no answer in 1 s"}
    assert found["abi.A.skip"]["note"] == "no card" and found["abi.A.skip"]["attempts"] == 0
    assert {found[f"abi.A.{n}"]["attempts"] for n in ("good", "crash", "wrong", "hang")} == {1}
    assert 0.9 <= found["abi.A.hang"]["seconds"] < 10 and found["abi.A.hang"]["problems"][0]["form"] == ""


def test_a_program_that_runs_no_test(tmp_path, monkeypatch):
    program(tmp_path, monkeypatch, "print('no library'); sys.exit(3)")
    found = {}
    conformance.run(["abi.A.x", "abi.A.y"], "/x", 5.0, found.__setitem__)
    assert [check["status"] for check in found.values()] == ["failed"] * 2
    assert found["abi.A.y"]["problems"][0]["text"] == "exit code 3: no library" and found["abi.A.y"]["seconds"] == 0.0
    symbol = '(test::symbol<decltype(aclInit)>("aclInit")) != 0'
    assert conformance.outcome("FAILED", [symbol], 1.23456)["problems"][0]["text"] == "aclInit != 0"
    assert conformance.outcome("OK", ["x"], 1.23456) == {"status": "ok", "seconds": 1.2346, "attempts": 1}
    assert len(conformance.outcome("FAILED", ["y" * 999], 0)["problems"][0]["text"]) == 600
    assert len(conformance.outcome("SKIPPED", ["y" * 999], 0)["note"]) == 200


# ---- Processes ----


def worker(text, **options):
    return process.Worker([sys.executable, "-c", f"import sys, json, os, time\nprint('{{}}', flush=True)\n{text}"], dict(os.environ))


def test_a_worker_answers_and_tells_news():
    made = worker("for line in sys.stdin:\n print('{\"at\": {\"form\": 1}}'); print(line, end='', flush=True)")
    news = []
    assert made.ask({"a": 1}, 20, news.append) == {"a": 1} and news == [{"form": 1}]
    assert made.ask({"b": 2}, 20) == {"b": 2}
    made.stop()
    assert made.process.returncode == -9


def test_a_worker_that_ends():
    made = worker("sys.stdin.readline(); print('x' * 400 + 'last words', file=sys.stderr); os._exit(5)")
    with pytest.raises(ChildProcessError, match=r"^exit code 5: x{289}last words") as error:
        made.ask({}, 20)
    assert len(str(error.value)) == len("exit code 5: ") + 300
    made.stop()
    with pytest.raises(ChildProcessError, match="exit code 3: "):
        process.Worker([sys.executable, "-c", "raise SystemExit(3)"], dict(os.environ))
    assert [process.ending(code) for code in (0, 1, -11, -250)] == ["exit code 0", "exit code 1", "signal SIGSEGV", "signal 250"]


def test_a_worker_is_given_its_time_and_no_more(monkeypatch):
    made = worker("time.sleep(60)")
    now, waits = [100.0], []
    monkeypatch.setattr(process.time, "monotonic", lambda: now[0])

    def select(read, write, special, seconds):
        waits.append(seconds)
        now[0] += 4.0
        return (read if len(waits) < 3 else []), [], []

    monkeypatch.setattr(process.select, "select", select)
    monkeypatch.setattr(process.os, "read", lambda file, size: b"{")
    with pytest.raises(TimeoutError, match="^no answer in 7 s$"):
        made.receive(7.0)
    assert waits == [7.0, 3.0, 0.0]
    monkeypatch.undo()
    made.stop()


class FakeWorker:
    made, answers = [], []

    def __init__(self, command, environment):
        self.stopped = False
        self.made.append(self)

    def ask(self, request, seconds, news=None):
        self.request = (request["check"], seconds)
        if news:
            news({"form": "f", "arguments": "g"})
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stop(self):
        self.stopped = True


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(supervisor, "Worker", FakeWorker)
    FakeWorker.made = []
    return FakeWorker


def test_a_worker_is_replaced_after_a_crash_a_hang_or_an_ill_card(fake):
    found = {}
    boss = supervisor.Supervisor(True, 10.0, found.__setitem__)
    assert boss.command[-1] == "--quick" and "--quick" not in supervisor.Supervisor(False, 1.0, print).command
    assert boss.environment["TORCH_NPU_FALLBACK_CPU_DISABLE"] == "0"
    fake.answers = [{"status": "ok", "healthy": True}, {"status": "ok", "healthy": False}, TimeoutError("no answer\nin 1 s"),
                    ChildProcessError("signal SIGSEGV"), {"status": "near", "healthy": True}]
    boss.run(["op.a", "op.b", "comm.c", "op.d", "op.e"], math.inf)
    assert [check["status"] for check in found.values()] == ["ok", "ok", "hang", "crash", "near"] and len(fake.made) == 4
    assert found["comm.c"]["problems"] == [{"status": "hang", "form": "f", "arguments": "g", "text": "no answer in 1 s"}]
    assert found["op.a"] == {"status": "ok"} and found["op.d"]["attempts"] == 1 and found["op.d"]["seconds"] < 1
    assert fake.made[1].request == ("comm.c", 25.0) and all(w.stopped for w in fake.made) and boss.worker is None


def test_what_is_left_when_the_time_is_up_is_skipped(fake):
    found = {}
    supervisor.Supervisor(True, 1.0, found.__setitem__).run(["op.a"], -1.0)
    assert found == {"op.a": {"status": "skipped", "seconds": 0.0, "attempts": 0, "note": "not run: the time for all checks was up"}}
    assert not fake.made


# ---- Collectives, the machine and the command line ----


def test_ranks_that_differ_fail_or_do_not_answer(monkeypatch):
    class Rank:
        def __init__(self, answer, code=0):
            self.answer, self.returncode, self.killed = answer, code, False

        def communicate(self, timeout):
            if self.answer is None:
                raise subprocess.TimeoutExpired("x", timeout)
            return f"noise\n{json.dumps(self.answer)}\n", "e" * 600 + "end "

        def kill(self):
            self.killed = True

        def wait(self):
            assert self.killed

    def run(*ranks, cards=2):
        waiting = list(ranks)
        monkeypatch.setattr(collective.npu, "device_count", lambda: cards)
        monkeypatch.setattr(collective.subprocess, "Popen", lambda command, **options: waiting.pop(0))
        made = outcome.Outcome(lambda news: None)
        collective.run(made)
        return made

    good = run(Rank({}), Rank({}))
    assert good.status == "ok" and good.attempts == 1
    wrong = run(Rank({}), Rank({"broadcast": "1 where 2"}))
    assert wrong.status == "wrong" and wrong.problems[0]["text"] == "rank 1, broadcast: 1 where 2"
    failed = run(Rank({"x": "y"}, 3), Rank({}))
    assert failed.status == "refused" and failed.problems[0]["text"] == f"rank 0 ended with 3: {'e' * 497}end" and len(failed.problems) == 1
    hung = run(Rank({}), Rank(None))
    assert hung.status == "hang" and hung.problems[0]["text"] == "no answer of rank 1 in 120 s"
    few = run(cards=1)
    assert few.status == "skipped" and few.note == "needs 2 cards, there are 1" and few.attempts == 0


def test_what_a_collective_gives_is_compared():
    x = torch.arange(1.0, 9.0)
    assert collective.same(x.npu(), x) == collective.same(x.half().npu(), x.long()) == collective.same(x.npu() * 1.009, x) == ""
    assert collective.same(x.npu() * 1.011, x) != ""
    assert collective.same(x.npu() + 1, x) == "[2.0, 3.0, 4.0, 5.0] where [1.0, 2.0, 3.0, 4.0] is expected"


def test_one_rank_of_collectives_that_are_wrong(monkeypatch):
    """Collectives that leave their tensors alone: every check says so."""
    import torch.distributed as dist

    for name in ("all_reduce", "broadcast", "all_gather", "reduce_scatter_tensor", "all_to_all_single", "recv", "send", "barrier"):
        monkeypatch.setattr(dist, name, lambda *args: None)
    monkeypatch.setattr(torch.nn.parallel, "DistributedDataParallel", lambda module: module)
    for rank, fine in ((0, {"send and recv"}), (1, {"all_reduce max", "broadcast"})):
        found = collective.checks(rank)
        every = {*(f"all_reduce {t}" for t in ("float32", "float16", "bfloat16", "int32", "int64")), "all_reduce max", "broadcast",
                 "all_gather", "reduce_scatter", "all_to_all", "send and recv", "DDP gradient"}
        assert set(found) == every - fine


def test_drivers_and_trees(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_DRIVER", tmp_path / "version.info")
    assert machine.driver() == "none"
    (tmp_path / "version.info").write_text("Package=x\nversion=25.1.rc1 \n")
    assert machine.driver() == "25.1.rc1"
    (tmp_path / "version.info").write_text("no such line")
    assert machine.driver() == "unknown"
    assert machine.clean_all({"a": ["at /x/y/z.so", 3], "b": None, "/x/y": True}) == {"a": ["at .../z.so", 3], "b": None, "/x/y": True}
    asked, properties = [], torch.npu.get_device_properties
    monkeypatch.setattr(machine.npu, "get_device_properties", lambda card: asked.append(card) or properties(card))
    found = machine.describe()
    assert asked == [0]
    size = torch.npu.get_device_properties(0).total_memory / 2**30
    assert found["provider"] == "softnpu" and found["cards"] == f"{torch.npu.device_count()} of {size:.1f} GiB"
    assert found["machine"].split(", ")[1] == f"{len(os.sched_getaffinity(0))} cores"


@pytest.mark.parametrize("host, user, cleaned", [
    ("host1", "someone", "<host> <user> host12 root"), ("ab", "root", "host1 someone host12 root"),
    ("localhost", "xyz", "host1 someone host12 root")])
def test_names_of_hosts_and_users(host, user, cleaned, monkeypatch):
    monkeypatch.setattr(machine.socket, "gethostname", lambda: host)
    monkeypatch.setattr(machine.getpass, "getuser", lambda: user)
    assert machine.clean("host1 someone host12 root") == cleaned
    monkeypatch.setattr(machine.getpass, "getuser", lambda: (_ for _ in ()).throw(KeyError(1)))
    assert machine.clean("ok") == "ok"


def test_progress_in_a_file_and_on_a_terminal(capsys, monkeypatch):
    progress = __main__.Progress(150)
    for number in range(150):
        progress(f"op.{number}", check() if number != 120 else check("wrong", problems=[{"text": "first"}, {"text": "t" * 200}]))
    progress.end()
    assert capsys.readouterr().err.splitlines() == ["100 of 150 checks, 0 bad", f"WRONG op.120: {'t' * 150}", "150 of 150 checks, 1 bad"]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    progress = __main__.Progress(2)
    progress("op.a", check("crash", problems=[{"text": "x"}]))
    progress.end()
    assert capsys.readouterr().err == "\r\x1b[KCRASH op.a: x\n\r\x1b[K1/2, 1 bad, op.a\r\x1b[K"


def test_options_by_default():
    options = __main__.parser().parse_args([])
    assert (str(options.out), options.quick, options.only, options.timeout, options.minutes, options.list, options.compare) == (
        "torch_npu_verify.txt", False, [], 60.0, 10.0, False, None)


@pytest.fixture
def kit(monkeypatch, tmp_path):
    """The command line with a supervisor that answers at once."""
    monkeypatch.chdir(tmp_path)
    ran = {"statuses": {}, "note": {}}

    class Boss:
        def __init__(self, quick, seconds, note):
            self.note = note
            ran.update(quick=quick, seconds=seconds)

        def describe_machine(self):
            if ran.get("closed"):
                raise TimeoutError("no answer")
            return MACHINE

        def run(self, names, end):
            ran.update(names=names, end=end)
            for name in names:
                self.note(name, check(ran["statuses"].get(name, "ok"), problems=[PROBLEM | {"text": "at /a/b/c"}], **ran["note"]))
            if ran.get("interrupt"):
                raise KeyboardInterrupt

    def abi(names, folder, seconds, note):
        ran.update(abi=names, abi_seconds=seconds)
        for name in names:
            note(name, check())

    monkeypatch.setattr(supervisor, "Supervisor", Boss)
    monkeypatch.setattr(conformance, "names", lambda folder, soft: ["abi.A.x"])
    monkeypatch.setattr(conformance, "run", abi)
    monkeypatch.setattr(__main__.signal, "signal", lambda *args: None)

    def main(*arguments):
        monkeypatch.setattr(sys, "argv", ["verify", *arguments])
        return __main__.main()

    return main, ran


def test_the_command_line(kit, capsys, monkeypatch):
    main, ran = kit
    monkeypatch.setattr(__main__.time, "monotonic", lambda: 1000.0)
    assert main("--only", "op.F.glu", "--only", "abi", "--quick", "--timeout", "7", "--minutes", "2") == 0
    assert (ran["quick"], ran["seconds"], ran["names"], ran["abi"], ran["abi_seconds"]) == (True, 7.0, ["op.F.glu"], ["abi.A.x"], 7.0)
    assert ran["end"] == 1000.0 + 120
    output = capsys.readouterr()
    assert "softnpu 9.1, Ascend: 2 checks" in output.err and output.out.endswith("\nThe report is torch_npu_verify.txt\n")
    found = report.read(__main__.Path("torch_npu_verify.txt"))
    assert list(found["checks"]) == ["abi.A.x", "op.F.glu"] and found["quick"] is True and found["ended"] == "" and found["seconds"] == 0.0
    assert found["checks"]["op.F.glu"]["problems"][0]["text"] == "at .../c"
    ran["statuses"] = {"op.F.glu": "wrong"}
    assert main("--only", "op.F.glu") == 1 and ran["quick"] is False and ran["abi"] == []
    ran.update(statuses={}, interrupt=True)
    assert main("--only", "op.F.glu") == 1 and "ended early: interrupted" in capsys.readouterr().out
    ran.update(interrupt=False, note={"note": supervisor.TIME_IS_UP})
    assert main("--only", "op.F.glu", "--minutes", "0.5") == 1 and "ended early: 0.5 minutes were up" in capsys.readouterr().out


def test_the_command_line_without_a_program_or_a_card(kit, capsys, monkeypatch):
    main, ran = kit
    monkeypatch.setattr(conformance, "names", lambda folder, soft: [])
    assert main("--only", "abi", "--only", "op.F.glu") == 0 and ran["names"] == ["op.F.glu"] and "abi" not in ran
    assert f"  1: {conformance.ABSENT} (abi.conformance)" in capsys.readouterr().out
    ran["closed"] = True
    assert main("--only", "op.F.glu") == 1 and "verify: the first card does not open: no answer" in capsys.readouterr().err
    assert main("--list", "--only", "op.F.glu") == 0 and capsys.readouterr().out == "op.F.glu\n"
    for wrong in (("--timeout", "0"), ("--minutes", "0"), ("--minutes", "-1")):
        assert main("--only", "op.F.glu", *wrong) == 1
    ran["closed"] = False
    assert main("--only", "op.F.glu", "--timeout", "0.5", "--minutes", "0.5") == 0
    capsys.readouterr()
    file = "torch_npu_verify.txt"
    assert main("--compare", file, file) == 0 and capsys.readouterr().out == "The two reports agree.\n"
