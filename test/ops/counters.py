"""What softnpu has counted since it was loaded: tasks, copies, synchronisations."""

from __future__ import annotations

import ctypes
from functools import cache

import torch

NAMES = ("tasks", "h2d_copies", "d2h_copies", "synchronizations")


@cache
def _library() -> ctypes.CDLL:
    with open("/proc/self/maps") as maps:
        path = next(line.split()[-1] for line in maps if "libsoftnpu" in line)
    library = ctypes.CDLL(path)
    library.softnpu_counter.restype = ctypes.c_uint64
    return library


def _counter(name: str) -> int:
    return _library().softnpu_counter(name.encode())


class Counted:
    """with Counted() as count: ...; count.tasks is what the block added."""

    def __enter__(self):
        torch.npu.synchronize()
        self._start = {name: _counter(name) for name in NAMES}
        return self

    def __exit__(self, *_):
        waits = _counter("synchronizations")
        torch.npu.synchronize()  # what the task queue holds is counted too
        for name, start in self._start.items():
            setattr(self, name, (waits if name == "synchronizations" else _counter(name)) - start)
