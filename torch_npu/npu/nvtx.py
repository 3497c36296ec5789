"""torch.npu.nvtx: the ranges of torch.cuda.nvtx, as ranges of torch.profiler, which is what shows them on npu."""

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]

_open_ranges = threading.local()
_started: dict[int, torch.profiler.record_function] = {}
_numbers = itertools.count(1)


def range_push(msg: str) -> int:
    """Opens a range on this thread; returns how many were open before."""
    stack = _open_ranges.__dict__.setdefault("stack", [])
    stack.append(torch.profiler.record_function(msg))
    stack[-1].__enter__()
    return len(stack) - 1


def range_pop() -> int:
    """Closes the last range that this thread has opened; returns how many are left, -1 if there was none."""
    stack = _open_ranges.__dict__.get("stack")
    if not stack:
        return -1
    stack.pop().__exit__(None, None, None)
    return len(stack)


def range_start(msg: str) -> int:
    """Opens a range that need not nest with others; returns the number by which range_end() closes it."""
    number = next(_numbers)
    _started[number] = torch.profiler.record_function(msg)
    _started[number].__enter__()
    return number


def range_end(range_id: int) -> None:
    """Closes the range that range_start() has opened."""
    if opened := _started.pop(range_id, None):
        opened.__exit__(None, None, None)


def mark(msg: str) -> None:
    """A moment in the profile."""
    with torch.profiler.record_function(msg):
        pass


@contextmanager
def range(msg: str, *args, **kwargs) -> Iterator[None]:
    """`with torch.npu.nvtx.range("step {}", i):` puts a block into a range; the text is formatted as by str.format."""
    with torch.profiler.record_function(msg.format(*args, **kwargs)):
        yield
