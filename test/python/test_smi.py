"""npu-smi for softnpu: other processes' memory, and the table."""

import json
import os
import signal
import subprocess
import sys

import pytest

import torch_npu
from torch_npu import smi

pytestmark = pytest.mark.skipif(not torch_npu.is_softnpu(), reason="the driver's own npu-smi is used")


@pytest.fixture
def program():
    """Another process with 8 MiB on card 1."""
    code = "import torch, torch_npu; x = torch.ones(2 << 20, device='npu:1'); print('ready', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def printed(capsys, *arguments):
    assert smi.main(list(arguments)) == 0
    return capsys.readouterr().out


def test_processes_and_their_memory_are_seen_until_they_are_killed(program, capsys):
    cards = json.loads(printed(capsys, "info", "--json"))
    (entry,) = [process for process in cards[1]["processes"] if process["pid"] == program.pid]
    assert entry["memory_mb"] >= 8 and entry["name"].startswith("python") and entry["memory_mb"] < cards[1]["total_mb"]
    assert program.pid not in [process["pid"] for process in cards[0]["processes"]]
    assert f"{program.pid}" in printed(capsys, "info", "-t", "proc-mem", "-i", "1")
    table = printed(capsys, "info").splitlines()
    assert len({len(line) for line in table}) == 1 and any(str(program.pid) in line and "1       0" in line for line in table)
    program.kill()
    program.wait()
    assert program.pid not in [process["pid"] for process in json.loads(printed(capsys, "info", "--json"))[1]["processes"]]


def test_other_forms(capsys):
    count = int(printed(capsys, "info", "-l").splitlines()[0].partition(":")[2])
    assert count == len(json.loads(printed(capsys, "info", "--json")))
    assert "HBM Usage Rate(%)" in printed(capsys, "info", "-t", "usages", "-i", "0")
    assert "HBM Capacity(MB)" in printed(capsys, "info", "-t", "memory", "-i", "0")
    assert os.getpid() not in [process["pid"] for card in smi.cards() for process in card["processes"]]


@pytest.mark.parametrize("arguments", [["info", "-i", "0"], ["info", "-t", "memory"], ["info", "-t", "memory", "-i", "999"], ["set"]])
def test_what_there_is_not(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        smi.main(arguments)
    assert ended.value.code == 2 and "npu-smi" in capsys.readouterr().err


def test_files_that_are_no_records(tmp_path):
    (tmp_path / "use-1-a").write_bytes(b"")
    (tmp_path / "use-2-b").mkdir()
    assert smi.processes(tmp_path) == [] == smi.processes(tmp_path / "absent")


def test_a_pool_has_cards_of_its_own(program, check):
    code = f"""
from torch_npu import smi
x = torch.ones(2 << 20, device="npu:1")
print(smi.record_folder().name, [process["pid"] == {program.pid} for process in smi.processes(smi.record_folder())])
print(sum(torch_npu.npu.mem_get_info(1)) > 0, smi.table(smi.cards()).splitlines()[1].split()[-2:])
"""
    lines = check(code, SOFTNPU_POOL="job.7").splitlines()
    assert lines[0].endswith(".job.7 [False]") and lines[1] == "True ['job.7', '|']"
    assert lines[0].startswith("softnpu")
    assert "True" in check(code.rpartition("print")[0], SOFTNPU_POOL=None)


def test_the_table_is_watched(program, capsys):
    lines = printed(capsys, "watch", "-n", "2", "-d", "0.01").splitlines()
    assert sum("npu-smi (softnpu)" in line for line in lines) == 2 == sum(f"| {program.pid} " in line for line in lines)


def test_watching_ends_when_it_is_interrupted():
    command = [sys.executable, "-m", "torch_npu.smi", "watch", "-d", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith("+---")
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[1] == "" and process.returncode == 0


@pytest.mark.parametrize("arguments", [["-n", "0"], ["-n", "x"], ["-d", "-1"], ["-d", "nan"]])
def test_watching_a_number_of_times_that_is_none(arguments, capsys):
    with pytest.raises(SystemExit):
        smi.main(["watch", *arguments])
    assert "invalid positive number value" in capsys.readouterr().err


@pytest.mark.parametrize(("devices", "reason"), [("x", "SOFTNPU_DEVICES='x' makes no sense"), ("0", "No NPU")])
def test_why_there_are_no_cards(devices, reason):
    command = [sys.executable, "-m", "torch_npu.smi", "info"]
    process = subprocess.run(command, env=os.environ | {"SOFTNPU_DEVICES": devices}, capture_output=True, text=True, timeout=120)
    assert process.returncode == 1 and process.stdout == "" and reason in process.stderr.splitlines()[-1]
