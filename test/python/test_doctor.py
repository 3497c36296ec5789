"""python -m torch_npu.doctor: what it finds, as text and as JSON."""

import glob
import json
import os
import platform
import subprocess
import sys

import pytest
import torch

import torch_npu
from torch_npu import _C, doctor


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


# ---- each check by itself ----


def said(check):
    return [tuple(finding) for finding in doctor._CHECKS[check]()]


def test_versions(monkeypatch):
    whole = (f"torch_npu {torch_npu.__version__}, torch {torch.__version__}, Python {platform.python_version()} on {platform.platform()}")
    assert said("versions") == [("ok", whole)] and torch.__version__.startswith(doctor._SERIES)
    for version in ("2.12.0", "2.130.0", "12.13.0"):
        monkeypatch.setattr(torch, "__version__", version)
        ok, bad = said("versions")
        assert ok[0] == "ok" and bad == ("bad", f"torch_npu {torch_npu.__version__} is made for torch 2.13", "pip install torch==2.13.0")
    monkeypatch.undo()
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    _, note = said("versions")
    assert note == ("note", "torch is built for CUDA 12.8", "the CPU build is smaller and does all that the npu needs")


@pytest.fixture
def runtime(monkeypatch):
    """runtime(soft, missing, **variables): another one than there is."""
    def choose(soft=True, missing=(), reason="", cards=(), **variables):
        for name in ("TORCH_NPU_RUNTIME", "ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(torch_npu, "is_softnpu", lambda: soft)
        for name, value in (("why_unavailable", reason), ("runtime_path", "/lib64"), ("missing_functions", list(missing))):
            monkeypatch.setattr(_C, name, lambda value=value: value)
        monkeypatch.setattr(glob, "glob", lambda pattern: list(cards) if pattern == "/dev/davinci[0-9]*" else [])

    return choose


def test_the_runtime_and_why_it_was_chosen(runtime):
    runtime()
    assert said("runtime") == [("ok", "softnpu, the software NPU in /lib64, because no CANN is in the environment")]
    runtime(False, ASCEND_HOME_PATH="/cann", ASCEND_TOOLKIT_HOME="/other")
    assert said("runtime") == [("ok", "CANN in /lib64, because ASCEND_HOME_PATH is /cann")]
    runtime(False, ASCEND_TOOLKIT_HOME="/other", cards=["/dev/davinci0"])
    assert said("runtime") == [("ok", "CANN in /lib64, because ASCEND_HOME_PATH is /other")]
    runtime(ASCEND_HOME_PATH="/cann", TORCH_NPU_RUNTIME="soft", cards=["/dev/davinci0"])
    assert said("runtime") == [
        ("ok", "softnpu, the software NPU in /lib64, because TORCH_NPU_RUNTIME=soft"),
        ("note", "this machine has Ascend cards, but softnpu is used", "source CANN's set_env.sh before the program")]
    runtime(reason=" no library\nin detail")
    cure = "source CANN's set_env.sh, or unset ASCEND_HOME_PATH and TORCH_NPU_RUNTIME for softnpu"
    assert said("runtime") == [("bad", "no library", cure)]


@pytest.mark.parametrize(("soft", "cure"), [(True, ""), (False, "a newer CANN has them")])
def test_what_is_missing_is_told_once(runtime, soft, cure):
    runtime(soft, ["aclrtResetEvent", "aclmdlRIA", "aclmdlRIB", "aclNew", "aclrtIpcMemX"])
    assert said("runtime")[1:] == [("note", "it lacks 5 functions, which turns off: aclNew, events that graphs share, graphs, tensors of "
                                            "other processes", cure)]


def test_device_nodes(runtime, monkeypatch):
    there, allowed = set(), set()
    monkeypatch.setattr(os.path, "exists", there.__contains__)
    monkeypatch.setattr(os, "access", lambda path, mode: mode == os.R_OK | os.W_OK and path in allowed)
    runtime(True, cards=["/dev/davinci1", "/dev/davinci0"])
    assert said("device nodes") == [("ok", "not needed by softnpu; 2 cards of hardware are here")]
    runtime(False, reason="none")
    assert said("device nodes") == [("ok", "not needed by softnpu; 0 cards of hardware are here")]
    runtime(False)
    text = "there is no /dev/davinci_manager, /dev/devmm_svm, /dev/hisi_hdc, /dev/davinci0"
    assert said("device nodes") == [("bad", text, "install the driver, or ask who administers the machine")]
    for mark in ("/.dockerenv", "/run/.containerenv"):
        there.add(mark)
        (finding,) = said("device nodes")
        assert finding[:2] == ("bad", text) and finding[2].startswith("start the container with --ipc=host --device=/dev/davinci0 ")
        there.clear()
    runtime(False, cards=["/dev/davinci1"])
    there |= {*doctor._NODES, "/dev/davinci1"}
    closed = ("bad", "no right to read and write /dev/davinci_manager, /dev/devmm_svm, /dev/hisi_hdc, /dev/davinci1",
              "add the user to the group HwHiAiUser, then log in again")
    assert said("device nodes") == [closed]
    allowed |= there
    assert said("device nodes") == [("ok", "1 cards, and they may be opened")]
    there.remove("/dev/hisi_hdc")
    assert [finding[:2] for finding in said("device nodes")] == [("bad", "there is no /dev/hisi_hdc")]


def test_libraries_that_are_loaded_twice(monkeypatch, tmp_path):
    maps = tmp_path / "maps"
    monkeypatch.setattr("builtins.open", lambda path, real=open: real(maps if path == "/proc/self/maps" else path))

    def loaded(*files):
        lines = [f"7f00-7f01 r--p 00000000 00:00 0    {file}" for file in files]
        maps.write_text("\n".join([*lines, *lines, "7fff-8000 r--p 0 0:0 0 [vdso.so]", "7fff-8000 r--p 0 0:0 0 /a/data"]))
        return said("libraries")

    assert loaded("/t/libgomp-a34.so.1", "/u/libstdc++.so.6") == [("ok", "one OpenMP (libgomp-a34.so.1), one libstdc++")]
    assert loaded("/u/libcomp.so") == [("ok", "one OpenMP (none), one libstdc++")]
    two = ("note", "two OpenMP runtimes are loaded: /t/libgomp.so.1, /u/libiomp5.so",
           "their thread teams fight for the cores: import torch first")
    assert loaded("/u/libiomp5.so", "/t/libgomp.so.1") == [two]
    standard = ("note", "two libstdc++ are loaded: /a/libstdc++.so.6, /u/libstdc++.so.6", "remove the older one from LD_LIBRARY_PATH")
    assert loaded("/u/libstdc++.so.6", "/a/libstdc++.so.6") == [standard]
    assert loaded("/u/libomp.so", "/t/libgomp.so.1", "/u/libstdc++.so.6", "/a/libstdc++.so.6")[1] == standard


def test_variables_that_do_nothing(monkeypatch):
    for name in [name for name in os.environ if name.startswith(("SOFTNPU_", "TORCH_NPU_", "GOMP_"))]:
        monkeypatch.delenv(name)
    assert said("variables") == [("ok", "none that does nothing")]
    monkeypatch.setenv("SOFTNPU_ZZZZZZZZZZ", "1")
    assert said("variables") == [("note", "nothing reads SOFTNPU_ZZZZZZZZZZ", "unset it")]
    monkeypatch.delenv("SOFTNPU_ZZZZZZZZZZ")
    monkeypatch.setenv("TASK_QUEUE_ENABLE", "yes")
    assert said("variables") == [("note", "TASK_QUEUE_ENABLE takes a number, so 'yes' has no effect", "set a number, or unset it")]
    monkeypatch.delenv("TASK_QUEUE_ENABLE")
    monkeypatch.setenv("GOMP_CPU_AFFINITY", "0-3")
    assert said("variables") == [("note", "GOMP_CPU_AFFINITY=0-3 binds all threads of OpenMP to these cores", "unset it")]


def test_a_card_that_computes_and_one_that_does_not(monkeypatch):
    monkeypatch.setattr(torch_npu.npu, "mem_get_info", lambda: (3 << 29, 5 << 30))
    monkeypatch.setattr(torch_npu.npu, "device_count", lambda: 7)
    assert said("self-test") == [("ok", f"npu:0 of 7 ({torch.npu.get_device_name()}) computes; 1.5 of 5.0 GiB are free")]
    real = torch.Tensor.npu
    monkeypatch.setattr(torch.Tensor, "npu", lambda self: real(self * 1.001))
    assert said("self-test")[0][0] == "ok"  # a card of reduced products
    monkeypatch.setattr(torch.Tensor, "npu", lambda self: real(self * 1.1))
    assert said("self-test") == [("bad", "a product on npu:0 is not that of the CPU", "run python -m torch_npu.verify")]
    monkeypatch.setattr(torch_npu.npu, "is_available", lambda: False)
    asked = []
    monkeypatch.setattr(torch_npu.npu, "init", lambda: asked.append(1))
    absent = [("bad", "there is no card", "see what stands above")]
    assert said("self-test") == absent and asked == [1]
    monkeypatch.setattr(_C, "why_unavailable", lambda: "no library")
    assert said("self-test") == absent and asked == [1]


def test_errors_are_told_in_a_line():
    text = "\nwhat failed\n[ERROR] 2026 for searches\nwhat it is about\n"
    assert doctor._said(RuntimeError(text)) == "what failed"
    assert doctor._said(torch.AcceleratorError(text)) == "what failed what it is about"


def test_the_printed_form(monkeypatch, capsys):
    one, two = doctor.Finding("a", "ok", "is well"), doctor.Finding("b", "note", "is odd", "mend it")
    monkeypatch.setattr(doctor, "findings", lambda: [one, two])
    assert doctor.main([]) == 0
    assert capsys.readouterr().out == "[  ok] a: is well\n[note] b: is odd\n       -> mend it\n"
    monkeypatch.setattr(doctor, "findings", lambda: [one, doctor.Finding("c", "bad", "x")])
    assert doctor.main([]) == 1 and capsys.readouterr().out == "[  ok] a: is well\n[ bad] c: x\n"
    assert doctor.main(["--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"healthy": False, "findings": [
        {"topic": "a", "state": "ok", "text": "is well", "cure": ""}, {"topic": "c", "state": "bad", "text": "x", "cure": ""}]}
