"""The processor cores of the calling thread."""

from __future__ import annotations

import os
from typing import Any

__all__: list[str] = []

_at_import = os.sched_getaffinity(0)


def set_thread_affinity(core_range: list[int] | list[list[int]] | None = None):
    """Binds the calling thread, and threads that it starts, to cores: [first, last], or a list of such ranges, both ends included.

    None gives it the cores that the program had when this module was imported.
    """
    if core_range is None:
        os.sched_setaffinity(0, _at_import)
        return
    single = isinstance(core_range, list) and len(core_range) == 2 and all(isinstance(core, int) for core in core_range)
    ranges: Any = [core_range] if single else core_range
    if not isinstance(ranges, list) or not ranges or not all(_is_range(part) for part in ranges):
        raise ValueError(f"core_range must be [first, last] with 0 <= first <= last, or a list of such ranges, but got {core_range!r}")
    cores = {core for first, last in ranges for core in range(first, last + 1)}
    if missing := cores - set(range(os.cpu_count() or 1)):
        raise ValueError(f"core_range {core_range!r} names cores that this machine does not have: {sorted(missing)}")
    os.sched_setaffinity(0, cores)


def _is_range(part) -> bool:
    return isinstance(part, list) and len(part) == 2 and all(type(core) is int for core in part) and 0 <= part[0] <= part[1]


def reset_thread_affinity():
    """Gives the calling thread the cores that the program had when this module was imported."""
    os.sched_setaffinity(0, _at_import)
