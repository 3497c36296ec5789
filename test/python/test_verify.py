"""python -m torch_npu.verify: a whole run, a provider that is broken in five ways, reports that are compared, and what is refused."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torch_npu
from torch_npu.verify import __main__, checks, compare, conformance, machine, operators, report
from torch_npu.verify.check_operator import with_gaps
from torch_npu.verify.values import measure

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
INSTALLED = os.path.dirname(torch_npu.__path__[0])
sys.path.insert(0, str(ROOT / "test/cann_like"))
import folder as cann_like  # noqa: E402


def verify(*arguments, cwd, timeout=400, **variables):
    environment = {**os.environ, "PYTHONPATH": INSTALLED, **variables}
    return subprocess.run([sys.executable, "-m", "torch_npu.verify", *map(str, arguments)], cwd=cwd, env=environment, capture_output=True,
                          text=True, timeout=timeout)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The quick form of everything."""
    place = tmp_path_factory.mktemp("whole")
    process = verify("--quick", "--out", "report.txt", cwd=place, PRIVATE_TOKEN="tulip", TASK_QUEUE_ENABLE="1")
    return process, place / "report.txt"


def test_softnpu_has_no_problem(whole):
    process, file = whole
    assert process.returncode == 0, process.stdout
    assert "NO PROBLEM" in process.stdout
    found = report.read(file)["checks"]
    families = {family: sum(name.startswith(family + ".") for name in found) for family in checks.FAMILIES}
    assert families["op"] >= 300 and families["fused"] >= 30 and families["train"] >= 3 and families["comm"] == 1
    assert families["abi"] >= 90 or not conformance.PROGRAM.exists()
    assert {check["status"] for check in found.values()} <= {"ok", "skipped"}
    skipped = [name for name, check in found.items() if check["status"] == "skipped"]
    assert all(name.startswith("abi.") for name in skipped)
    assert found["time.calls"]["numbers"]["add 16x16"] > 0


def test_a_report_is_read_in_a_minute_and_holds_nothing_private(whole):
    process, file = whole
    text = file.read_text()
    head = text.partition("==== ")[0]
    assert len(head.splitlines()) < 60
    assert {"torch", "torch_npu", "provider", "CANN", "driver", "SoC", "python", "libc"} <= report.read(file)["machine"].keys()
    for private in ("tulip", "PRIVATE_TOKEN", str(Path.home()) + "/", str(ROOT), os.uname().nodename):
        assert private not in text, private
    assert "$TASK_QUEUE_ENABLE" in text  # it changes what runs


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """A folder that looks like CANN's with operators and a runtime that are broken."""
    if not shutil.which("gcc"):
        pytest.skip("no gcc")
    place = tmp_path_factory.mktemp("broken")
    variables = cann_like.make(place / "cann")
    library = place / "opp/op_api/lib/libcust_opapi.so"
    library.parent.mkdir(parents=True)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, HERE / "broken_operators.c", "-ldl"], check=True)
    runtime = place / "cann/lib64/libascendcl.so"
    runtime.unlink()
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", runtime, HERE / "broken_runtime.c", "-Wl,--no-as-needed", f"-L{place}/cann/driver",
                    "-lsoftnpu", "-Wl,--allow-shlib-undefined"], check=True)
    names = ["op.tanh", "op.erf", "op.atan", "op.cos", "op.exp", "op.add", "random.rand"]
    only = [f"--only={name}" for name in names + ["abi.Event"] * conformance.PROGRAM.exists()]
    process = verify("--quick", *only, "--timeout", 20, cwd=place, ASCEND_CUSTOM_OPP_PATH=str(place / "opp"), **variables)
    return process, place / "torch_npu_verify.txt"


EVENTS = {f"abi.Event.{name}": "wrong"
          for name in ("times_are_those_of_the_stream_not_of_the_call", "without_timing_or_record_has_no_time")}


def test_a_broken_provider_is_named(broken):
    process, file = broken
    assert process.returncode == 1, process.stderr
    found = report.read(file)["checks"]
    bad = {name: found[name]["status"] for name in report.bad({"checks": found})}
    of_abi = {name: bad.pop(name) for name in list(bad) if name.startswith("abi.")}
    assert of_abi == (EVENTS if conformance.PROGRAM.exists() else {})
    assert bad == {"op.tanh": "wrong", "op.erf": "refused", "op.atan": "hang", "op.cos": "crash"}
    first = {name: found[name]["problems"][0] for name in bad}
    assert first["op.tanh"]["max_abs"] > 0.1 and re.search(r"\d+ elements are off, the first at \[0, 0\]", first["op.tanh"]["text"])
    assert "161002" in first["op.erf"]["text"] and "aclnnErf" in first["op.erf"]["text"]
    for name in bad:
        assert (first[name]["form"], first[name]["arguments"]) == ("float32 forward", "float32[33, 64]")
    assert "no answer in 20 s" in first["op.atan"]["text"] and "SIGSEGV" in first["op.cos"]["text"]
    assert found["op.exp"]["status"] == found["op.add"]["status"] == "ok"  # they came behind


def test_a_broken_provider_is_seen_at_the_top_of_the_text(broken):
    process, file = broken
    lines = file.read_text().partition("==== ")[0].splitlines()
    wrong = 1 + len(EVENTS) * conformance.PROGRAM.exists()
    assert f"{3 + wrong} PROBLEMS" in lines[2] and f"1 hang, 1 crash, 1 refused, {wrong} wrong" in lines[2]
    for status, name in (("HANG", "op.atan"), ("CRASH", "op.cos"), ("REFUSED", "op.erf"), ("WRONG", "op.tanh")):
        assert any(line.split()[:2] == [status, f"{name}:"] for line in lines), name
    assert len(lines) < 60


def test_two_reports_are_compared(whole, broken):
    process = verify("--compare", whole[1], broken[1], cwd=ROOT)
    assert process.returncode == 1
    assert re.search(r"op\.tanh: ok \| wrong \(float32 forward float32\[33, 64\]: ", process.stdout)
    assert re.search(r"provider: softnpu \| CANN", process.stdout) and "Only in the first" in process.stdout
    process = verify("--compare", whole[1], whole[1], cwd=ROOT)
    assert process.returncode == 0 and "op." not in process.stdout


@pytest.mark.parametrize(("arguments", "words"), [
    (["--only", "op.nothing"], "no check fits 'op.nothing'; families are abi, op"),
    (["--out", "nowhere/report.txt"], "cannot be written to nowhere/report.txt: No such file"),
    (["--out", "."], "is a folder"),
    (["--only", "op.add", "--timeout", "0"], "--timeout and --minutes must be more than 0"),
    (["--compare", "absent.txt", "absent.txt"], "absent.txt cannot be read: No such file"),
])
def test_what_cannot_run_says_why(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["verify", *arguments])
    assert __main__.main() == 1
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(("variables", "words"), [
    ({"ASCEND_RT_VISIBLE_DEVICES": ""}, "verify: the first card does not open: exit code 1: "),
    ({"TORCH_NPU_RUNTIME": "cann", "ASCEND_HOME_PATH": "/nowhere"}, "verify: no NPU can be used: CANN was asked for"),
])
def test_a_machine_without_a_card_says_why(variables, words, tmp_path):
    process = verify(cwd=tmp_path, **variables)
    assert process.returncode == 1
    assert words in process.stderr and "Traceback" not in process.stderr


def test_damaged_reports_are_refused(whole, tmp_path):
    text = whole[1].read_text()
    for content, words in ((text[:-200], "is damaged"), (text.partition("====")[0], "not a report"), ("", "not a report"),
                           (text.replace('"format": 1', '"format": 9'), "has format 9"),
                           (text.replace('"status": "ok"', '"status": "fine"', 1), "is damaged")):
        file = tmp_path / "report.txt"
        file.write_text(content)
        with pytest.raises(report.ReportError, match=words):
            report.read(file)


def test_a_run_whose_time_is_up_says_what_it_left_out(tmp_path):
    process = verify("--only", "op.a", "--minutes", 1e-6, cwd=tmp_path)
    assert process.returncode == 1
    assert "ended early" in process.stdout and "the time for all checks was up" in process.stdout


def test_names_are_listed(tmp_path):
    listed = verify("--list", "--only", "op.F.softm*", "--only", "F.glu", cwd=tmp_path)
    assert listed.stdout.split() == ["op.F.glu", "op.F.softmax", "op.F.softmin", "op.F.softmax_first"]
    assert not list(tmp_path.iterdir())


def test_variables_in_a_report_are_those_of_the_page():
    page = (ROOT / "docs/environment.md").read_text().partition("## Building")[0]
    documented = {name for row in re.findall(r"^\| (`.*?`) \|", page, re.M) for name in re.findall(r"`([A-Z_0-9]+)`", row)}
    assert set(machine.VARIABLES) == documented - {"TORCH_NPU_FALLBACK_CPU_DISABLE"}


@pytest.mark.parametrize(("text", "cleaned"), [
    ("cannot open /home/someone/cann/lib64/libopapi.so (2)", "cannot open .../libopapi.so (2)"),
    ("3/4 of op/x", "3/4 of op/x"),
    ("rank at 10.1.2.3:29500", "rank at <address>:29500"),
    ("127.0.0.1:1", "127.0.0.1:1"),
    (f"on {os.uname().nodename}: no", "on <host>: no" if len(os.uname().nodename) > 2 and os.uname().nodename != "localhost" else None),
])
def test_texts_lose_what_is_private(text, cleaned):
    if cleaned:
        assert machine.clean(text) == cleaned


@pytest.mark.parametrize(("change", "dtype", "verdict"), [
    (0.0, torch.float32, "close"), (1e-6, torch.float32, "close"), (1e-3, torch.float32, "near"), (0.1, torch.float32, "wrong"),
    (float("nan"), torch.float32, "wrong"), (float("inf"), torch.float16, "wrong"), (1, torch.int64, "wrong"), (1, torch.int8, "near"),
    (2, torch.int8, "wrong"),
])
def test_verdicts(change, dtype, verdict):
    expected = torch.ones(3, 4).to(dtype)
    actual = expected.clone()
    actual[1, 2] += change
    found = measure(actual, expected, dtype)
    assert found.verdict == verdict
    assert verdict != "wrong" or found.first.startswith("at [1, 2] ")


def test_another_type_or_shape_is_wrong():
    assert "float16[3] where the CPU has float32[3]" in measure(torch.ones(3).half(), torch.ones(3), torch.float32).text
    assert measure(torch.ones(1, 3), torch.ones(3), torch.float32).verdict == "wrong"
    nan = torch.tensor([float("nan"), float("inf")])
    assert measure(nan, nan, torch.float32).verdict == "close"


def test_gaps_keep_the_numbers():
    x = torch.arange(24.0).view(2, 3, 4)
    y = with_gaps(x)
    assert torch.equal(x, y) and not y.is_contiguous() and y.stride(-1) != 1


def test_operators_have_names_of_their_own():
    names = [operator.name for table in operators.TABLES for operator in table.OPERATORS]
    assert len(names) == len(set(names)) >= 300


def test_differences_of_machines_and_times():
    def made(**more):
        return report.make({"torch": "2.13"} | more.pop("machine", {}), {"time.calls": {"status": "ok", "numbers": {"add": 2.0}} | more})

    lines, differ = compare.differences(made(), made(machine={"CANN": "9"}, numbers={"add": 8.0}))
    assert not differ and any("CANN: - | 9" in line for line in lines) and any("x4.00  <--" in line for line in lines)
    json.dumps(lines)


def test_health_and_weights():
    import torch

    from torch_npu.verify.outcome import is_healthy
    from torch_npu.verify.training import weight_difference

    assert is_healthy() is True
    weights = torch.zeros(100)
    assert weight_difference(weights + 0.019, weights).verdict != "wrong"
    assert weight_difference(weights + 0.021, weights).verdict == "wrong"
    few = weights.clone()
    few[:2] = 1
    assert weight_difference(few, weights).verdict != "wrong"
    few[2] = 1
    assert weight_difference(few, weights).verdict == "wrong"
    assert weight_difference(torch.full((100,), float("nan")), weights).verdict == "wrong"


def test_a_worker_that_does_not_answer_is_stopped():
    import sys

    from torch_npu.verify.supervisor import Supervisor

    supervisor = Supervisor(True, 0.5, print)
    supervisor.command = [sys.executable, "-c", "import time; print('{}', flush=True); time.sleep(60)"]
    with pytest.raises(TimeoutError):
        supervisor.describe_machine()
    assert supervisor.worker is None
