"""Errors that end the search: the operator, shapes and line of a launch that failed later, tensors that fill a card, anomalies."""

import pytest
import torch

FAILING = """
import torch
def look_up(table, index):
    return table.index_select(0, index)
table, index = torch.ones(5, 3, device="npu"), torch.tensor([1, 99], device="npu")
_ = table.index_select(0, index - index)
rows = look_up(table, index)
other = table + 1
try:
    torch.npu.synchronize()
except torch.AcceleratorError as error:
    print(error)
"""
MODES = [{"SOFTNPU_ASYNC": "1"}, {"TASK_QUEUE_ENABLE": "1"}, {"TASK_QUEUE_ENABLE": "2"},
         {"TASK_QUEUE_ENABLE": "2", "SOFTNPU_ASYNC": "1"}]  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_a_failure_that_shows_later_names_operator_shapes_and_line(run, mode):
    text = run(FAILING, TORCH_NPU_ERROR_ORIGIN="1", **mode).stdout
    assert text.count("aclnnIndexSelect(") == 1
    assert "It was launched by aten::index_select(float32[5, 3], int64[2]) -> float32[2, 3] at <string>:4 in look_up" in text
    assert "With ASCEND_LAUNCH_BLOCKING=1 the error is raised there." in text


@pytest.mark.parametrize("mode", MODES)
def test_without_origins_the_message_says_how_to_get_them(run, mode):
    text = run(FAILING, **mode).stdout
    assert text.count("aclnnIndexSelect(") == 1 and "look_up" not in text
    assert "Set ASCEND_LAUNCH_BLOCKING=1 to see the right one, or TORCH_NPU_ERROR_ORIGIN=1 to have operator and line named here." in text


def test_a_blocking_launch_fails_where_it_is_made(run):
    process = run(FAILING, ASCEND_LAUNCH_BLOCKING="1", SOFTNPU_ASYNC="1")
    assert "in look_up" in process.stderr and "launched asynchronously" not in process.stderr
    assert process.stderr.count("aclnnIndexSelect(") == 1


def test_the_backward_pass_is_named(run):
    code = """
import torch
class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1
    @staticmethod
    def backward(ctx, grad):
        return grad.index_select(0, torch.tensor([0, 7], device="npu"))
x = torch.ones(2, device="npu", requires_grad=True)
try:
    Wrong.apply(x).sum().backward()
    torch.npu.synchronize()
except torch.AcceleratorError as error:
    print(error)
"""
    text = run(code, TORCH_NPU_ERROR_ORIGIN="1", TASK_QUEUE_ENABLE="1").stdout
    assert "aten::index_select" in text and "<string>:9 in backward" in text and "WrongBackward" in text


FULL = """
import torch
{begin}
def hoard():
    return torch.empty(5 << 20, device="npu", dtype=torch.int8), torch.empty(21 << 20, device="npu", dtype=torch.int8)
kept = hoard()
try:
    torch.empty(60 << 20, device="npu", dtype=torch.int8)
except torch.OutOfMemoryError as error:
    print(error)
"""


FULL_CARD = {"SOFTNPU_MEMORY": "64M", "SOFTNPU_POOL": "test-origins"}  # a pool, for this process may have more than that of a card


def test_a_full_card_lists_the_largest_tensors(run):
    begin = 'torch.npu.memory._record_memory_history(stacks="python")'
    lines = run(FULL.format(begin=begin), **FULL_CARD).stdout.splitlines()
    at = lines.index("The largest live tensors:")
    assert lines[at + 1].startswith("  22.00 MiB") or lines[at + 1].startswith("  21.00 MiB")
    assert "<string>:5 in hoard < <string>:6 in <module>" in lines[at + 1] and "  5.00 MiB" in lines[at + 2]


def test_a_full_card_says_how_to_get_the_list(run):
    text = run(FULL.format(begin=""), **FULL_CARD).stdout
    assert text.count("Call torch.npu.memory._record_memory_history() at the start") == 1 and "largest live" not in text


def test_anomaly_mode_names_the_function_and_its_forward_line():
    x = torch.tensor([-1.0], device="npu", requires_grad=True)
    with pytest.warns(UserWarning, match="test_origins.py"), torch.autograd.detect_anomaly(check_nan=True):
        y = (x.sqrt() * 0).sum()
        with pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan values"):
            y.backward()
