"""Timing on a noisy machine: many short slices, interleaved between the things compared, medians of thread-CPU time."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable


def slice_ns(function: Callable[[], object], calls: int, clock: Callable[[], int] = time.thread_time_ns) -> float:
    """Nanoseconds per call over one slice."""
    start = clock()
    for _ in range(calls):
        function()
    return (clock() - start) / calls


def interleaved(functions: dict[str, Callable[[], object]], slices: int = 60, calls: int = 300,
                clock: Callable[[], int] = time.thread_time_ns) -> dict[str, float]:
    """Median nanoseconds per call of each function; one slice of each in turn, in an order that changes: what a function leaves
    in the caches is not always the same one's burden."""
    order = random.Random(0)
    for function in functions.values():
        slice_ns(function, calls)
    samples: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(slices):
        for name in order.sample(list(functions), len(functions)):
            samples[name].append(slice_ns(functions[name], calls, clock))
    return {name: statistics.median(values) for name, values in samples.items()}


def table(rows: list[tuple], header: tuple) -> str:
    """A plain text table with aligned columns."""
    cells = [tuple(str(c) for c in row) for row in [header, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in cells]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])
