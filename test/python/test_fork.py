"""fork: children that stay on the CPU work and leave the parent's tensors alone; those that do not get a sentence."""

import os

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

MESSAGE = (
    "Cannot re-initialize NPU in forked subprocess. "
    "To use NPU with multiprocessing, you must use the 'spawn' start method"
)


def in_child(function):
    """Runs `function` in a forked child; returns what it raised as text, or its result."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = str(function())
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(write, answer.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        answer = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return answer


def test_data_loader_workers_stay_on_the_cpu():
    x = torch.arange(1000.0).npu()
    data = TensorDataset(torch.arange(100.0).reshape(50, 2), torch.arange(50))
    for _epoch in range(2):
        seen = 0
        for features, _ in DataLoader(data, batch_size=10, num_workers=2, shuffle=True):
            seen += features.npu().sum().item()
        assert seen == 4950
    assert torch.equal(x.cpu(), torch.arange(1000.0))


def test_data_loader_pins_for_the_npu():
    data = TensorDataset(torch.arange(100.0))
    for (batch,) in DataLoader(data, batch_size=50, num_workers=1, pin_memory=True):
        assert batch.is_pinned()
        assert batch.npu(non_blocking=True).sum().item() == batch.sum().item()


@pytest.mark.parametrize(
    "use",
    [
        lambda: torch.empty(1, device="npu"),
        lambda: torch.ones(1).npu(),
        lambda: torch.npu.synchronize(),
        lambda: torch.npu.init(),
        lambda: torch.npu.set_device(0),
        lambda: torch.npu.Stream(),
        lambda: torch.npu.Event().record(),
    ],
    ids=["empty", "npu", "synchronize", "init", "set_device", "Stream", "record"],
)
def test_using_the_npu_in_a_child_is_refused(use):
    torch.npu.init()
    assert in_child(use) == f"RuntimeError: {MESSAGE}"


def test_inherited_tensors_are_refused_and_unharmed():
    x = torch.arange(1000.0).npu()

    def use():
        global x_in_child
        x_in_child = x + 1
        return x_in_child.sum().item()

    assert MESSAGE in in_child(use)
    assert in_child(lambda: torch.npu._is_in_bad_fork() and not torch.npu.is_initialized()) == "True"
    assert torch.equal(x.cpu(), torch.arange(1000.0))


def test_a_child_that_exits_normally_leaves_the_parent_alone(check):
    code = """
import gc, os
x = torch.arange(100000.0).npu()
y = x * 2
child = os.fork()
if child == 0:
    del x, y
    gc.collect()
    torch.manual_seed(1)
    raise SystemExit(0)
assert os.waitpid(child, 0)[1] == 0
assert y.sum().item() == 2 * x.cpu().sum().item()
assert torch.equal(x.cpu(), torch.arange(100000.0))
"""
    check(code)


def test_questions_before_the_fork_do_not_poison_it(check):
    code = """
import os
torch.manual_seed(1); torch.npu.device_count(); torch.npu.get_device_name(); torch.npu.get_device_properties(0)
child = os.fork()
ok = torch.ones(3, device="npu").sum().item() == 3
if child == 0:
    os._exit(0 if ok else 1)
assert os.waitpid(child, 0)[1] == 0 and ok
"""
    check(code)


def test_spawned_process_uses_the_npu(check, tmp_path):
    script = tmp_path / "spawned.py"
    script.write_text("import torch, torch_npu\ndef work(rank):\n    assert torch.ones(2, device='npu').sum().item() == 2\n")
    code = """
import sys; sys.path.insert(0, "."); import spawned
if __name__ == "__main__":
    x = torch.ones(1, device="npu")
    torch.multiprocessing.spawn(spawned.work, nprocs=2)
"""
    check(code, PYTHONPATH=str(tmp_path))
