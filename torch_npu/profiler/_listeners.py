"""What the host tells a recording beside kineto: mstx marks and ranges by domain, and Python's garbage collections."""

import gc
import threading
import time
from importlib import import_module
from typing import Any

_mstx: Any = import_module("torch_npu.npu.mstx")  # torch_npu.npu.mstx, as an attribute, is the class in it


class Listeners:
    """Records from start() to stop(). `takes_domain` says which domains of mstx; None: none. `gc_threshold` in milliseconds."""

    def __init__(self, takes_domain=None, gc_threshold: float | None = None):
        self._takes_domain, self._gc_threshold = takes_domain, gc_threshold
        self._marks: list[dict] = []
        self._collections: list[dict] = []
        self._open: dict = {}
        self._gc_begin = 0

    def start(self) -> None:
        if self._takes_domain:
            _mstx.listener = self
        if self._gc_threshold is not None:
            gc.callbacks.append(self._collecting)

    def stop(self) -> dict:
        """What was recorded. A range that is still open ends here."""
        if _mstx.listener is self:
            _mstx.listener = None
        if self._collecting in gc.callbacks:
            gc.callbacks.remove(self._collecting)
        for key in list(self._open):
            self.end(key)
        return {"mstx": self._marks, "gc": self._collections}

    def mark(self, message: str, domain: str) -> None:
        now = time.time_ns()
        if self._takes_domain(domain):
            self._marks.append({"message": message, "domain": domain, "begin": now, "end": now, "thread": threading.get_native_id()})

    def begin(self, key, message: str, domain: str) -> None:
        if self._takes_domain(domain):
            self._open[key] = {"message": message, "domain": domain, "begin": time.time_ns(), "thread": threading.get_native_id()}

    def end(self, key) -> None:
        if (mark := self._open.pop(key, None)) is not None:
            self._marks.append({**mark, "end": time.time_ns()})

    def _collecting(self, phase: str, info: dict) -> None:
        now = time.time_ns()
        if phase == "start":
            self._gc_begin = now
        elif self._gc_threshold is not None and self._gc_begin and now - self._gc_begin >= self._gc_threshold * 1e6:
            self._collections.append({"begin": self._gc_begin, "end": now, "thread": threading.get_native_id()})
