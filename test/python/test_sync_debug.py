"""set_sync_debug_mode: the operators that make the host wait, which are those that the official client reports, and copies to the host."""

import warnings

import pytest
import torch

n = torch.npu


@pytest.fixture(params=[0, 1, 2], autouse=True)
def level(request):
    before = n.get_task_queue_enable()
    n.set_task_queue_enable(request.param)
    yield
    n.set_sync_debug_mode(0)
    n.set_task_queue_enable(before)


def waiting(x):
    return {"item": lambda: x.sum().item(), "cpu": x.cpu, "tolist": x.tolist, "from host": lambda: torch.ones(3).npu(),
            "nonzero": x.nonzero, "mask": lambda: x[x > 0], "masked_select": lambda: torch.masked_select(x, x > 0),
            "unique": lambda: torch.unique(x),
            "stream": n.current_stream().synchronize, "if": lambda: bool(x.sum() > 0)}


def test_waiting_is_an_error_or_a_warning_or_nothing():
    x = torch.ones(4, device="npu")
    n.synchronize()
    torch._C._set_warnAlways(True)
    try:
        for name, work in waiting(x).items():
            n.set_sync_debug_mode("error")
            assert n.get_sync_debug_mode() == 2
            with pytest.raises(RuntimeError, match="called a synchronizing NPU operation"):
                work()
            n.set_sync_debug_mode("warn")
            with pytest.warns(UserWarning, match="called a synchronizing NPU operation"):
                work()
            n.set_sync_debug_mode("default")
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                work()
            assert n.get_sync_debug_mode() == 0, name
    finally:
        torch._C._set_warnAlways(False)


def test_what_does_not_wait_is_not_reported():
    x, event = torch.ones(4, device="npu"), n.Event()
    pinned = torch.ones(4).pin_memory()
    n.set_sync_debug_mode(2)
    y = (x + pinned.to("npu", non_blocking=True)).relu_()
    host = torch.empty(4, pin_memory=True)
    host.copy_(y, non_blocking=True)
    event.record()
    event.synchronize()
    n.synchronize()
    assert host.tolist() == [2] * 4


@pytest.mark.parametrize(("mode", "error", "words"), [
    ("loud", RuntimeError, "expected one of `default`, `warn`, `error`"), (3, RuntimeError, "expected one of 0, 1, 2"),
    (-1, RuntimeError, "expected one of 0, 1, 2"), (None, TypeError, "debug_mode must be an int or a string, but got NoneType"),
    (True, TypeError, "but got bool")])
def test_bad_modes_are_named(mode, error, words):
    with pytest.raises(error, match=words):
        n.set_sync_debug_mode(mode)
    assert n.get_sync_debug_mode() == 0
