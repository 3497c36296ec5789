"""torch.npu.mstx: marks and ranges of a program, by name and domain. They are ranges of torch.profiler, which shows them.

A mark or range that is given a stream is on the host's timeline all the same.
"""

import functools
import threading
from typing import Any

import torch

from torch_npu.npu import nvtx
from torch_npu.npu.streams import Stream

__all__ = ["annotate", "mstx"]

_open_ranges = threading.local()
listener: Any = None  # a recording of torch_npu.profiler with mstx=True: mark(), begin() and end() (profiler/_listeners.py)


def _name(message: str, stream, domain: str) -> str:
    if not isinstance(message, str) or not message:
        raise ValueError(f"message must be a text that is not empty, but got {message!r}")
    if stream is not None and not isinstance(stream, Stream):
        raise TypeError(f"stream must be a torch.npu.Stream or None, but got {stream!r}")
    _check(domain)
    return message if domain == "default" else f"{domain}: {message}"


def _check(domain: str) -> None:
    if not isinstance(domain, str) or not domain:
        raise ValueError(f"domain must be a text that is not empty, but got {domain!r}")


def _stack(domain: str) -> list:
    return _open_ranges.__dict__.setdefault("stacks", {}).setdefault(domain, [])


class mstx:
    """Marks and ranges. A range that is opened with range_start() may be closed out of order, by range_end()."""

    @staticmethod
    def mark(message: str, stream=None, domain: str = "default"):
        """A moment in the profile."""
        nvtx.mark(_name(message, stream, domain))
        if listener is not None:
            listener.mark(message, domain)

    @staticmethod
    def range_push(message: str, stream=None, domain: str = "default") -> int:
        """Opens a range of the domain on this thread; returns how many were open before."""
        opened = torch.profiler.record_function(_name(message, stream, domain))
        _stack(domain).append(opened)
        opened.__enter__()
        if listener is not None:
            listener.begin(id(opened), message, domain)
        return len(_stack(domain)) - 1

    @staticmethod
    def range_pop(domain: str = "default") -> int:
        """Closes the last range that this thread has opened in the domain; returns how many are left, -1 if there was none."""
        _check(domain)
        if not _stack(domain):
            return -1
        opened = _stack(domain).pop()
        opened.__exit__(None, None, None)
        if listener is not None:
            listener.end(id(opened))
        return len(_stack(domain))

    @staticmethod
    def range_start(message: str, stream=None, domain: str = "default") -> int:
        """Opens a range; returns the number by which range_end() closes it."""
        number = nvtx.range_start(_name(message, stream, domain))
        if listener is not None:
            listener.begin((number, domain), message, domain)
        return number

    @staticmethod
    def range_end(range_id: int, domain: str = "default"):
        """Closes the range that range_start() has opened in the domain. One that is closed already is let alone."""
        _check(domain)
        if isinstance(range_id, bool) or not isinstance(range_id, int):
            raise TypeError(f"range_id must be what range_start() returned, but got {range_id!r}")
        nvtx.range_end(range_id)
        if listener is not None:
            listener.end((range_id, domain))

    @staticmethod
    def mstx_range(message: str, stream=None, domain: str = "default"):
        """A decorator: each call of the function is a range."""
        return annotate(message, stream, domain)


class annotate:
    """A range around a block (`with annotate("step"):`) or around each call of a function (`@annotate()`)."""

    def __init__(self, message: str = "", stream=None, domain: str = "default"):
        self.message, self.stream, self.domain = message, stream, domain
        self._ids: list[int] = []

    def __enter__(self):
        self._ids.append(mstx.range_start(self.message, self.stream, self.domain))
        return self

    def __exit__(self, kind, error, trace):
        mstx.range_end(self._ids.pop(), self.domain)

    def __call__(self, function):
        message = self.message or function.__name__

        @functools.wraps(function)
        def annotated(*args, **kwargs):
            with annotate(message, self.stream, self.domain):
                return function(*args, **kwargs)

        return annotated


mstx.annotate = annotate  # type: ignore[attr-defined] # the official name
