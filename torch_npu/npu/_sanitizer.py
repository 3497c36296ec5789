"""The stream sanitizer: work of two streams on one tensor, one of them writing, with nothing that orders it, is an error.

TORCH_NPU_SANITIZER=1, or enable_npu_sanitizer() before the first tensor. The analysis is upstream's (torch.cuda._sanitizer); here are what
operators read and write, and the callbacks of this device. It judges by what was asked for, not by what happened to run first, so it
finds a race also when softnpu runs the program in order. Seen are the operators of the thread that enabled it and of its backward passes;
a collective counts as work of the stream that it was called on.
"""

import atexit
import sys
from collections import defaultdict
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from torch_npu.npu import _gpu_trace


class NPUSanitizerErrors(Exception):
    """The races of one operator; they have been printed."""

    def __init__(self, errors: list) -> None:
        super().__init__(f"detected {len(errors)} errors")
        self.errors = errors


class _Accesses:
    """What one call reads and writes, by address as upstream has it."""

    def __init__(self) -> None:
        self.read: set[int] = set()
        self.written: set[int] = set()
        self.outputs: set[int] = set()
        self.names: dict[int, list[str]] = defaultdict(list)
        self.storages: dict[int, int] = {}  # address -> beginning of its memory
        self.device: torch.device | None = None

    def add(self, value, alias, name: str | None, only_metadata: bool) -> None:
        for tensor in tree_leaves(value):
            if not isinstance(tensor, torch.Tensor) or tensor.device.type != "npu" or tensor.layout != torch.strided:
                continue
            address = tensor.data_ptr()
            if not address:  # no elements
                continue
            self.device = tensor.device
            self.storages[address] = tensor.untyped_storage().data_ptr()
            if name is None:
                self.outputs.add(address)
            else:
                self.names[address].append(name)
            self.names[address]  # noqa: B018  (an entry for each)
            if alias is not None:  # without a write it is a view, which touches no numbers
                if alias.is_write:
                    self.written.add(address)
            elif not only_metadata:
                (self.written if name is None else self.read).add(address)


def _arguments(schema, args: tuple, kwargs: dict):
    for argument, value in zip(schema.arguments, args, strict=False):
        yield argument, value
    for argument in schema.arguments[len(args):]:
        if argument.name in kwargs:
            yield argument, kwargs[argument.name]


class NPUSanitizerMode(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        from torch.cuda._sanitizer import EventHandler  # its import activates torch's GPU trace

        self.handler = handler = EventHandler()
        self.waited = 0  # how often the host has waited for streams
        self.inside: dict[int, set[int]] = defaultdict(set)  # beginning of memory -> addresses in it that were used
        torch._C._activate_gpu_trace()
        self.callbacks: list[tuple[Any, Any]] = [
            (_gpu_trace.EventCreationCallbacks, handler._handle_event_creation),
            (_gpu_trace.EventDeletionCallbacks, handler._handle_event_deletion),
            (_gpu_trace.EventRecordCallbacks, handler._handle_event_record),
            (_gpu_trace.EventWaitCallbacks, handler._handle_event_wait),
            (_gpu_trace.MemoryAllocationCallbacks, handler._handle_memory_allocation),
            (_gpu_trace.MemoryDeallocationCallbacks, self._forget),
            (_gpu_trace.StreamCreationCallbacks, handler._handle_stream_creation),
            (_gpu_trace.DeviceSynchronizationCallbacks, handler._handle_device_synchronization),
            (_gpu_trace.StreamSynchronizationCallbacks, handler._handle_stream_synchronization),
            (_gpu_trace.EventSynchronizationCallbacks, handler._handle_event_synchronization),
            (_gpu_trace.StreamSynchronizationCallbacks, self._count_wait),
            (_gpu_trace.DeviceSynchronizationCallbacks, self._count_wait),
        ]
        for registry, callback in self.callbacks:
            registry.add_callback(callback)

    def end(self) -> None:
        for registry, callback in self.callbacks:
            registry.callback_list.remove(callback)

    def _count_wait(self, *stream: int) -> None:
        self.waited += 1

    def _forget(self, memory: int) -> None:
        """Also what views in it have left: the next tensor there is another one."""
        for address in self.inside.pop(memory, set()) | {memory}:
            self.handler._handle_memory_deallocation(address)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        schema, name = func._schema, func._schema.name.partition("::")[2]
        if name == "record_stream":  # launches nothing
            return func(*args, **kwargs)
        like = name.startswith("new_") or name.endswith("_like")  # reads no numbers of its arguments
        empty = name.startswith(("empty", "new_empty"))  # writes none
        arguments, results = _Accesses(), _Accesses()
        for argument, value in _arguments(schema, args, kwargs):
            arguments.add(value, argument.alias_info, argument.name, like)
        self._launch(schema, arguments)  # before it waits for its own work, which a copy to the host does
        waited = self.waited
        outputs = func(*args, **kwargs)
        for returned, value in zip(schema.returns, outputs if len(schema.returns) > 1 else (outputs,), strict=False):
            if returned.alias_info is None:  # else it is an argument, or a view of one
                results.add(value, None, None, empty)
        self._launch(schema, results)
        if results.device is not None and self.waited != waited:
            self.handler._handle_stream_synchronization(self._stream(results.device))
        return outputs

    @staticmethod
    def _stream(device: torch.device) -> int:
        return torch.npu.current_stream(device).npu_stream  # type: ignore[attr-defined]

    def _launch(self, schema, accesses: _Accesses) -> None:
        if accesses.device is None:
            return
        for address, memory in accesses.storages.items():
            if address != memory:
                self.inside[memory].add(address)
        errors = self.handler._handle_kernel_launch(self._stream(accesses.device), accesses.read - accesses.written, accesses.written,
                                                    accesses.outputs, schema, accesses.names)
        if errors:
            for error in errors:
                print(error, file=sys.stderr)
            raise NPUSanitizerErrors(errors)


class NPUSanitizer:
    def __init__(self) -> None:
        self.mode: NPUSanitizerMode | None = None

    @property
    def enabled(self) -> bool:
        return self.mode is not None

    def enable(self) -> None:
        if self.mode is None:
            self.mode = NPUSanitizerMode()
            self.mode.__enter__()
            atexit.register(self.disable)

    def disable(self) -> None:
        if self.mode is not None:
            self.mode.__exit__(None, None, None)
            self.mode.end()
            self.mode = None
            atexit.unregister(self.disable)


npu_sanitizer = NPUSanitizer()


def enable_npu_sanitizer() -> None:
    """From now on races between streams raise NPUSanitizerErrors; operators, streams and stacks are printed to stderr."""
    npu_sanitizer.enable()
