"""python -m torch_npu.doctor: what it finds, as text and as JSON."""

import json
import os
import subprocess
import sys

import pytest

from torch_npu import doctor


def run(*arguments, **variables):
    command = [sys.executable, "-W", "ignore", "-m", "torch_npu.doctor", *arguments]
    return subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, timeout=120)


def test_a_sound_installation(monkeypatch, capsys):
    for name in list(os.environ):
        if name.startswith("GOMP_"):
            monkeypatch.delenv(name)
    assert doctor.main(["--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    topics = [finding["topic"] for finding in report["findings"]]
    assert report["healthy"] and list(dict.fromkeys(topics)) == list(doctor._CHECKS)
    texts = {finding["topic"]: finding["text"] for finding in report["findings"]}
    assert "softnpu" in texts["runtime"] and "computes" in texts["self-test"]


def test_what_is_wrong_has_a_cure():
    process = run(SOFTNPU_MEMROY="1", GOMP_CPU_AFFINITY="0", TORCH_NPU_RUNTIME="soft")
    assert process.returncode == 0, process.stdout + process.stderr
    assert "nothing reads SOFTNPU_MEMROY\n       -> did you mean SOFTNPU_MEMORY?" in process.stdout
    assert "GOMP_CPU_AFFINITY=0" in process.stdout and "because TORCH_NPU_RUNTIME=soft" in process.stdout


@pytest.mark.parametrize(("variable", "text", "reason"), [
    ("SOFTNPU_DEVICES", "x", "SOFTNPU_DEVICES='x' makes no sense"), ("ASCEND_RT_VISIBLE_DEVICES", "", "ASCEND_RT_VISIBLE_DEVICES is ''"),
    ("SOFTNPU_FAULT", "lost@launch=1", "card 0 was lost"),
])  # fmt: skip
def test_why_there_is_no_card(variable, text, reason):
    process = run(**{variable: text})
    assert process.returncode == 1 and reason in process.stdout.splitlines()[-1]


def test_a_cann_that_is_not_there(tmp_path):
    process = run("--json", ASCEND_HOME_PATH=str(tmp_path))
    assert process.returncode == 1, process.stdout + process.stderr
    states = {finding["topic"]: finding for finding in json.loads(process.stdout)["findings"] if finding["state"] == "bad"}
    assert states["runtime"]["cure"] and states["self-test"]["text"] == "there is no card"


def test_a_check_that_fails_is_a_finding(monkeypatch):
    def broken():
        raise RuntimeError("first line\nsecond")
        yield

    monkeypatch.setitem(doctor._CHECKS, "libraries", broken)
    found = {finding.topic: finding for finding in doctor.findings()}
    assert found["libraries"].state == "bad" and found["libraries"].text == "RuntimeError: first line"


def test_missing_functions_name_what_is_off(monkeypatch):
    monkeypatch.setattr("torch_npu._C.missing_functions", lambda: ["aclmdlRICaptureBegin", "aclrtMapMem", "aclrtUnmapMem", "aclrtOther"])
    texts = [finding.text for finding in doctor.findings() if finding.topic == "runtime"]
    assert "it lacks 4 functions, which turns off: aclrtOther, expandable segments, graphs" in texts
