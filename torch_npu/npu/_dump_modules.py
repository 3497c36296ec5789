"""The names of modules in a dump: while there is one, each forward() is a named range, which the observers of operators see."""

from __future__ import annotations

import threading

import torch
from torch.autograd.profiler import record_function
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook


class ModuleNames:
    """Global hooks of torch.nn. A name is the module's place in the outermost one that is running on its thread."""

    def __init__(self) -> None:
        self._thread = threading.local()
        self._handles = (register_module_forward_pre_hook(self._enter), register_module_forward_hook(self._leave, always_call=True))

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _enter(self, module, _inputs) -> None:
        if torch.compiler.is_compiling():
            return
        ranges = self._thread.__dict__.setdefault("ranges", [])
        if not ranges:
            self._thread.names = {each: name for name, each in module.named_modules()}
        name = self._thread.names.get(module, "")
        entered = record_function(f"module {name} ({type(module).__name__})".replace("  ", " "))
        entered.__enter__()
        ranges.append((module, entered))

    def _leave(self, module, _inputs, _result) -> None:
        ranges = getattr(self._thread, "ranges", [])
        while any(entered is module for entered, _ in ranges):  # what an exception passed over ends too
            entered, range_ = ranges.pop()
            range_.__exit__(None, None, None)
            if entered is module:
                return
