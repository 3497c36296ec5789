"""Overflows: inf and nan in results, and the float status of a card."""

import os
import subprocess
import sys
from threading import Thread

import pytest
import torch
from torch.nn import functional as F

import torch_npu
from torch_npu.npu import utils
from torch_npu.npu.amp import GradScaler

INF = float("inf")
LARGE = torch.full((40,), 60000.0)


def status() -> bool:
    numbers = torch_npu.npu_get_float_status(torch.zeros(8, device="npu")).tolist()
    assert len(numbers) == 8 and not any(numbers[1:])
    return numbers[0] != 0


def clear() -> None:
    assert torch_npu.npu_clear_float_status(torch.ones(8, device="npu")).tolist() == [0.0] * 8


@pytest.fixture
def watched():
    clear()
    yield
    clear()


OVERFLOWS = {
    "float16 product": lambda: LARGE.half().npu() * 2,
    "in place": lambda: LARGE.half().npu().mul_(2),
    "exponential": lambda: torch.full((3, 5), 100.0, device="npu").exp(),
    "cast": lambda: (LARGE * 2).npu().half(),
    "copy of another type": lambda: torch.empty(40, dtype=torch.half, device="npu").copy_((LARGE * 2).npu()),
    "bfloat16": lambda: torch.full((9,), 3e38, dtype=torch.bfloat16, device="npu") * 4,
    "float64": lambda: torch.full((2,), 1e308, dtype=torch.float64, device="npu") * 10,
    "matrix product": lambda: torch.full((4, 64), 100.0).half().npu() @ torch.full((64, 4), 100.0).half().npu(),
    "sum": lambda: LARGE.half().npu().sum(),
    "division by zero": lambda: torch.ones(7, device="npu") / torch.zeros(7, device="npu"),
    "transposed": lambda: torch.full((4, 3), 60000.0).half().npu().t() * 2,
    "list of tensors": lambda: torch._foreach_mul([LARGE.half().npu(), LARGE.half().npu()], 2.0),
    "complex": lambda: torch.full((4,), 3e38 + 0j, dtype=torch.complex64, device="npu") * 4,
    "gradient": lambda: (LARGE.half().npu().requires_grad_() * 2).backward(LARGE.half().npu()),
}
FINITE = {
    "product": lambda: LARGE.half().npu() * 0.5,
    "division with a rest of a vector": lambda: torch.ones(13, device="npu") / torch.full((13,), 3.0, device="npu"),
    "softmax of a mask": lambda: torch.zeros(2, 2, device="npu").masked_fill(torch.eye(2).bool().npu(), -INF).softmax(-1),
    "filled with infinity": lambda: torch.full((4,), INF, device="npu"),
    "an infinity passed on": lambda: torch.tensor([INF, 1.0], device="npu") + 1,
    "an infinity changed in place": lambda: torch.tensor([INF, 1.0], device="npu").add_(1),
    "masked selection": lambda: torch.arange(8.0, device="npu").masked_select(torch.arange(8, device="npu") > 5),
    "integers": lambda: torch.tensor([2**31 - 1], dtype=torch.int32, device="npu") * 2,
    "nothing": lambda: torch.empty(0, device="npu").exp(),
    "training step": lambda: F.cross_entropy(torch.nn.Linear(8, 4).npu()(torch.ones(3, 8).npu()), torch.tensor([0, 1, 3]).npu()).backward(),
}


@pytest.mark.parametrize("work", OVERFLOWS.values(), ids=OVERFLOWS)
def test_an_overflow_is_reported_until_it_is_cleared(watched, work):
    work()
    assert status() and status()
    clear()
    assert not status()
    work()  # into the memory that holds the infinities of before
    assert status()


@pytest.mark.parametrize("work", FINITE.values(), ids=FINITE)
def test_work_without_overflow_is_not_reported(watched, work):
    stale = LARGE.half().npu() * 2  # memory that the next tensors get
    del stale
    clear()
    work()
    assert not status()


def test_a_new_status_is_zero(watched):
    OVERFLOWS["exponential"]()
    assert torch_npu.npu_alloc_float_status(torch.ones(2, 3).npu()).tolist() == [0.0] * 8
    assert status()


def test_the_status_belongs_to_the_card(watched):
    if torch.npu.device_count() < 2:
        pytest.skip("needs two cards")
    with torch.npu.device(1):
        clear()
    OVERFLOWS["exponential"]()
    with torch.npu.device(1):
        assert not status()
    assert status()


def test_overflows_of_another_thread_and_stream_are_reported(watched):
    def work():
        with torch.npu.stream(torch.npu.Stream()):
            OVERFLOWS["float16 product"]()
        torch.npu.synchronize()

    thread = Thread(target=work)
    thread.start()
    thread.join()
    assert status()


def test_types_and_modes():
    numbers = torch.zeros(2, dtype=torch.half, device="npu")
    assert torch_npu.npu_get_float_status(numbers).dtype == (torch.float32 if torch.npu.get_device_name() == "Ascend910A" else torch.int32)
    assert torch_npu.npu_clear_float_status(numbers).dtype == torch.half
    assert torch.ops.npu.npu_get_float_status(torch.empty(8, device="meta")).shape == (8,)
    for function in (torch_npu.npu_get_float_status, torch_npu.npu_clear_float_status):
        with pytest.raises(RuntimeError, match="mode must be 0, or 1"):
            function(numbers, 2)


def test_the_scaler_reads_the_float_status(watched):
    OVERFLOWS["float16 product"]()
    assert GradScaler.get_npu_overflow_flag()
    GradScaler.clear_npu_overflow_flag()
    assert not GradScaler.get_npu_overflow_flag()


def test_results_show_overflows():
    assert utils.is_support_inf_nan()
    assert not utils.is_force_overflow_check()
    assert utils.npu_check_overflow(torch.tensor([1.0, INF], device="npu"))
    assert utils.npu_check_overflow(float("nan"))
    assert not utils.npu_check_overflow(torch.ones(2, device="npu"))
    with pytest.raises(RuntimeError, match="npu_check_overflow"):
        utils.get_npu_overflow_flag()
    with pytest.warns(UserWarning, match="remove clear_npu_overflow_flag"):
        utils.clear_npu_overflow_flag()


@pytest.mark.parametrize("environment", [{"TASK_QUEUE_ENABLE": "1"}, {"TASK_QUEUE_ENABLE": "2"}, {"SOFTNPU_SOC": "Ascend910A"}], ids=str)
def test_the_same_at_other_levels_and_on_first_chips(environment):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", __file__, "-k", "not same_at"]
    run = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
