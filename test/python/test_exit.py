"""The end of the process: with work in flight, by an exception, by a signal. Bounded, silent, and cards are freed."""

import os
import signal
import subprocess
import sys
import time

import pytest

import torch_npu

INSTALLED = os.path.dirname(torch_npu.__path__[0])

QUEUE = """
import torch, torch_npu, sys
x = torch.ones(1000, device="npu")
for _ in range(10000): x.add_(1)
"""


@pytest.mark.parametrize("asynchronous", ["0", "1"])
@pytest.mark.parametrize("level", ["0", "1", "2"])
def test_exit_with_ten_thousand_tasks_queued(run, level, asynchronous):
    began = time.monotonic()
    process = run(QUEUE, TASK_QUEUE_ENABLE=level, SOFTNPU_ASYNC=asynchronous)
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("ending", ["sys.exit(3)", "raise KeyError(1)", "import os; os._exit(4)"])
def test_exit_status_survives(run, ending):
    expected = {"s": 3, "r": 1, "i": 4}[ending[0]]
    assert run(QUEUE + ending, SOFTNPU_ASYNC="1", TASK_QUEUE_ENABLE="1").returncode == expected


def test_tensors_streams_and_events_that_outlive_the_device(run):
    code = """
import torch, torch_npu, builtins
class Late:
    def __init__(self): self.things = torch.ones(3, device="npu"), torch.npu.Stream(), torch.npu.Event()
    def __del__(self): self.things = None
builtins.late = Late()
builtins.late.things[2].record()
cycle = [torch.ones(3, device="npu")]; cycle.append(cycle)
import threading
threading.Thread(target=lambda: torch.ones(3, device="npu").sum().item()).start()
"""
    process = run(code)
    assert (process.returncode, process.stderr) == (0, "")


def test_autograd_threads_end_before_python(run):
    code = """
import atexit, glob
def threads(): return [name for name in (open(path).read() for path in glob.glob("/proc/self/task/*/comm")) if "autograd" in name]
atexit.register(lambda: print("at exit", len(threads())))  # runs after torch_npu's handler, which is registered later
import torch, torch_npu
torch.ones(3, device="npu", requires_grad=True).sum().backward()
print("running", len(threads()) > 0)
"""
    process = run(code)
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.splitlines() == ["running True", "at exit 0"]


BUSY = """
import torch, torch_npu
a = torch.rand(100, 100).npu()
torch.npu.synchronize()
print("ready", flush=True)
while True:
    for _ in range(10): a = (a @ a).softmax(0)
    torch.npu.synchronize()
"""


def heed_interrupts():
    """A job that a shell put into the background ignores them, and so would its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def seconds_to_end(folder, number, asynchronous):
    env = {**os.environ, "PYTHONPATH": INSTALLED, "SOFTNPU_ASYNC": asynchronous, "TASK_QUEUE_ENABLE": "1"}
    process = subprocess.Popen([sys.executable, "-c", BUSY], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, preexec_fn=heed_interrupts)  # fmt: skip
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.5)
        began = time.monotonic()
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode in (-number, 1)
    assert number == signal.SIGTERM or errors.strip().endswith("KeyboardInterrupt")
    return time.monotonic() - began


@pytest.mark.parametrize("asynchronous", ["0", "1"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_the_process_within_five_seconds(tmp_path, number, asynchronous):
    """The interpreter's own end takes a second of processor time, so that a busy machine cannot tell."""
    if os.getloadavg()[0] > 2 * os.cpu_count():
        pytest.skip("the machine is too busy to measure")
    assert seconds_to_end(tmp_path, number, asynchronous) < 5


HOLD = """
import torch, torch_npu, time
x = torch.ones(1 << 28, dtype=torch.uint8, device="npu")
torch.npu.synchronize()
print("ready", flush=True)
time.sleep(60)
"""


def test_memory_of_a_killed_process_comes_back(tmp_path):
    """On a card of its own: 1 GiB, and accounts that no other process of the user writes to."""
    env = {**os.environ, "PYTHONPATH": INSTALLED, "TORCH_NPU_RUNTIME": "soft", "SOFTNPU_MEMORY": "1G",
           "XDG_RUNTIME_DIR": str(tmp_path)}  # fmt: skip
    tmp_path.chmod(0o700)

    def free():
        code = "import torch, torch_npu; print(torch.npu.mem_get_info()[0])"
        return int(subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True).stdout)

    before = free()
    process = subprocess.Popen([sys.executable, "-c", HOLD], cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    assert free() <= before - (1 << 28)
    process.kill()
    process.wait()
    assert free() == before
