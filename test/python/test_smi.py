"""npu-smi for softnpu: other processes' memory, and the table."""

import fcntl
import json
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

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


# ---- the parts ----

GPU = {"id": 0, "name": "Ascend910B1", "health": "OK", "total_mb": 2048.0, "free_mb": 1536.4, "used_mb": 512.6,
       "processes": [{"pid": 4321, "name": "python", "memory_mb": 500.6}, {"pid": 5, "name": "a" * 30, "memory_mb": 12.0}]}
IDLE = {"id": 1, "name": "Ascend910B1", "health": "OK", "total_mb": 0.0, "free_mb": 0.0, "used_mb": 0.0, "processes": []}
TABLE = """\
+------------------------------------------------------------------------------------------------+
| npu-smi (softnpu)                Version: VERSION|
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B1               | OK            | N/A         N/A               N/A                  |
| 0                         | N/A           | N/A         0    / 0          513 / 2048           |
+===========================+===============+====================================================+
| 1     910B1               | OK            | N/A         N/A               N/A                  |
| 0                         | N/A           | N/A         0    / 0          0 / 0                |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 0       0                 | 4321          | python                   | 501                     |
| 0       0                 | 5             | aaaaaaaaaaaaaaaaaaaaaaaa | 12                      |
+===========================+===============+====================================================+
| No running processes found in NPU 1                                                            |
+===========================+===============+====================================================+"""


@pytest.mark.parametrize("pool", ["", "ci", "p" * 60])
def test_the_whole_table_has_one_width(monkeypatch, pool):
    monkeypatch.setenv("SOFTNPU_POOL", pool)
    first = f"npu-smi (softnpu)                Version: {torch_npu.__version__}{'    Pool: ' if pool else ''}{pool}"
    assert smi.table([GPU, IDLE]) == TABLE.replace("| npu-smi (softnpu)                Version: VERSION|", f"| {first[:95]:95}|")


def pairs(text):
    """What stands beside what, block by block."""
    return [[tuple(part.strip() for part in line.split(":", 1)) for line in block.splitlines()] for block in text.split("\n\n")]


def test_details_of_a_card():
    head = [("NPU ID", "0"), ("Chip Count", "1")]
    assert pairs(smi._details("memory", GPU)) == [[*head, ("DDR Capacity(MB)", "0"), ("HBM Capacity(MB)", "2048"),
                                                   ("HBM Clock Speed(MHz)", "N/A"), ("Chip ID", "0")]]
    usages = dict(pairs(smi._details("usages", GPU))[0])
    assert usages["HBM Capacity(MB)"] == "2048" and usages["HBM Usage Rate(%)"] == "25" and usages["Chip ID"] == "0"
    assert usages["NPU ID"] == "0" and usages["Chip Count"] == "1" and usages["HBM Bandwidth Usage Rate(%)"] == "N/A"
    assert [usages[f"Ai{kind} Usage Rate(%)"] for kind in ("core", "cpu")] == ["N/A", "N/A"] and len(usages) == 9
    assert dict(pairs(smi._details("usages", IDLE))[0])["HBM Usage Rate(%)"] == "N/A"
    lines = smi._details("proc-mem", GPU).splitlines()
    assert pairs("\n".join(lines[:3])) == [[*head, ("Chip ID", "0")]] and smi._details("memory", GPU).startswith(f"\t{'NPU ID':<30} : 0\n")
    assert lines[3:] == ["\tProcess id:4321         Process name:python                   Process memory(MB):501",
                         f"\tProcess id:5            Process name:{'a' * 30} Process memory(MB):12"]
    assert smi._details("proc-mem", IDLE).splitlines()[3:] == ["\tNo running processes found in NPU 1"]


def test_cards_are_listed():
    product = [("Product Name", "Ascend910B1"), ("Serial Number", "N/A"), ("Chip Count", "1")]
    assert pairs(smi._listed([GPU, IDLE])) == [[("Total Count", "2")], [("NPU ID", "0"), *product], [("NPU ID", "1"), *product]]


@pytest.mark.parametrize(("variables", "folder"), [
    ({"XDG_RUNTIME_DIR": "/run/me"}, "/run/me/softnpu"), ({"XDG_RUNTIME_DIR": "/run/me", "SOFTNPU_POOL": "ci"}, "/run/me/softnpu.ci"),
    ({"TMPDIR": "/t"}, "/t/softnpu-7"), ({"TMPDIR": "", "SOFTNPU_POOL": "ci"}, "/tmp/softnpu-7.ci"), ({}, "/tmp/softnpu-7"),
])
def test_where_records_are(monkeypatch, variables, folder):
    for name in ("XDG_RUNTIME_DIR", "TMPDIR", "SOFTNPU_POOL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "geteuid", lambda: 7)
    assert smi.record_folder() == Path(folder)


def test_records_of_living_processes(tmp_path):
    """What runtime/records.h says, written here: a magic number, the process, bytes on their way, bytes of each of 64 cards."""
    magic = int.from_bytes(b"snpuuce1", "little")

    def record(name, start, pid, *used, size=0):
        content = struct.pack("=QQQ64Q", start, pid, 99, *used, *[0] * (64 - len(used)))
        (tmp_path / name).write_bytes(content + b"x" * size if size >= 0 else content[:size])
        return (tmp_path / name).open("rb")

    files = [record("use-2", magic, os.getpid(), 5 << 20, 7), record("use-1", magic, (1 << 31) - 1, 0, 1), record("use-4", magic + 1, 1),
             record("use-5", magic, 1, size=-1), record("use-6", magic, 1, size=1), record("other-7", magic, 1)]
    record("use-3", magic, 1).close()  # nobody has its lock any more
    for file in files:
        fcntl.flock(file, fcntl.LOCK_EX)
    dead, own, *more = smi.processes(tmp_path)
    for file in files:
        file.close()
    assert dead == {"pid": (1 << 31) - 1, "name": "N/A", "used": [0, 1] + [0] * 62}
    assert own["pid"] == os.getpid() and own["used"][:3] == [5 << 20, 7, 0] and own["name"] == Path("/proc/self/comm").read_text().strip()
    assert [process["pid"] for process in more] == [1]  # of a longer record the beginning counts


def test_memory_of_cards(monkeypatch):
    used = [3 << 20, 0] + [0] * 62
    monkeypatch.setattr(smi, "processes", lambda folder: [{"pid": os.getpid(), "name": "me", "used": used},
                                                          {"pid": 11, "name": "a", "used": used}, {"pid": 12, "name": "b", "used": used}])
    monkeypatch.setattr(torch_npu.npu, "mem_get_info", lambda index: (index + 1 << 20, index + 8 << 20))
    monkeypatch.setattr(torch_npu.npu, "device_count", lambda: 2)
    monkeypatch.setattr(torch_npu.npu, "get_device_name", lambda index: f"card {index}")
    first, second = smi.cards()
    assert first == {"id": 0, "name": "card 0", "health": "OK", "total_mb": 8.0, "free_mb": 1.0, "used_mb": 6.0,
                     "processes": [{"pid": 11, "name": "a", "memory_mb": 3.0}, {"pid": 12, "name": "b", "memory_mb": 3.0}]}
    assert (second["id"], second["name"], second["total_mb"], second["free_mb"], second["used_mb"]) == (1, "card 1", 9.0, 2.0, 0)
    assert second["processes"] == []


@pytest.fixture
def two(monkeypatch):
    monkeypatch.setattr(smi, "cards", lambda: [GPU, IDLE])


def test_what_is_printed_for_which_arguments(two, capsys):
    assert json.loads(printed(capsys, "info", "--json")) == [GPU, IDLE]
    assert json.loads(printed(capsys, "info", "-t", "memory", "-i", "1", "--json")) == [IDLE]
    assert printed(capsys, "info") == smi.table([GPU, IDLE]) + "\n" and printed(capsys, "info", "-l") == smi._listed([GPU, IDLE]) + "\n"
    for kind in ("usages", "memory", "proc-mem"):
        for card in (GPU, IDLE):
            assert printed(capsys, "info", "-t", kind, "-i", str(card["id"])) == smi._details(kind, card) + "\n"
    for index in ("-1", "2"):
        with pytest.raises(SystemExit):
            smi.main(["info", "-t", "memory", f"-i={index}"])
        assert f"there is no NPU {index}: there are 2, from 0" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        smi.main([])
    assert "required: command" in capsys.readouterr().err


@pytest.mark.parametrize("terminal", [False, True])
def test_watching_shows_and_waits_in_turn(two, monkeypatch, capsys, terminal):
    waited = []
    monkeypatch.setattr(smi.time, "sleep", waited.append)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
    table = smi.table([GPU, IDLE])
    assert printed(capsys, "watch", "-n", "3") == 3 * f"{chr(27) + '[H' + chr(27) + '[2J' if terminal else ''}{table}\n"
    assert waited == [1.0, 1.0]
    printed(capsys, "watch", "-n", "2", "-d", "0.25")
    assert waited[2:] == [0.25]
    for wrong in ("0", "1000000"):
        with pytest.raises(SystemExit):
            smi.main(["watch", "-d", wrong])
        assert "invalid positive number" in capsys.readouterr().err
    assert smi._positive(float)("999999.5") == 999999.5


def test_with_cann_the_drivers_own_is_run(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(torch_npu, "is_softnpu", lambda: False)
    own, driver, after = (tmp_path / name for name in ("own", "driver", "after"))
    for file in (own, driver, after):
        file.touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [str(own), "info", "-l"])
    monkeypatch.setattr(smi, "_DRIVERS", (str(tmp_path / "absent"), str(own), str(driver), str(after)))
    run = []
    monkeypatch.setattr(os, "execv", lambda *command: run.append(command))
    smi.main()
    assert run == [(str(driver), [str(driver), "info", "-l"])]
    monkeypatch.setattr(smi, "_DRIVERS", (str(own),))
    capsys.readouterr()
    assert smi.main(["info"]) == 1 and len(run) == 1
    assert capsys.readouterr().err == "npu-smi: CANN is in use here, and its driver's npu-smi is not installed.\n"


def test_without_cards_the_reason_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(smi, "cards", lambda: [])
    monkeypatch.setattr(torch_npu.npu, "init", lambda: (_ for _ in ()).throw(RuntimeError("\n no card here\nmore")))
    assert smi.main(["info"]) == 1 and capsys.readouterr().err == "npu-smi: no card here\n"
    monkeypatch.setattr(torch_npu._C, "why_unavailable", lambda: " nothing\nto load")
    assert smi.main(["info"]) == 1 and capsys.readouterr().err == "npu-smi: nothing\n"
    assert smi.main(["watch"]) == 1 and capsys.readouterr().out == ""
