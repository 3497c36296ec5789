"""Graphs: work that is captured once and replayed without Python. torch.npu re-exports it; torch.accelerator.Graph is the same graph.

The graph is upstream's class over csrc/graph. What a captured stream is given runs at replay() only, in memory that belongs to the
graph, so inputs are copied into the tensors that were captured. docs/graphs.md tells what can be captured.
"""

from __future__ import annotations

import gc
import warnings

import torch

from torch_npu import _C
from torch_npu._C import (
    _weak_ref_tensor as TensorWeakRef,  # noqa: F401 (an official name)
    graph_task_group_begin,
    graph_task_group_end,
    graph_task_update_begin,
    graph_task_update_end,
)
from torch_npu.npu._graph_updates import DispatchCapture, NpuGraphOpHandler, register_npu_graph_handler
from torch_npu.npu._graphed_callables import make_graphed_callables
from torch_npu.npu.devices import current_device, synchronize
from torch_npu.npu.memory import empty_cache
from torch_npu.npu.streams import Stream, StreamContext, is_current_stream_capturing

_GraphDispatchMode = DispatchCapture  # its official name

__all__ = [
    "NPUGraph",
    "NpuGraphOpHandler",
    "graph",
    "graph_pool_handle",
    "graph_task_group_begin",
    "graph_task_group_end",
    "graph_task_update_begin",
    "graph_task_update_end",
    "is_current_stream_capturing",
    "make_graphed_callables",
    "register_npu_graph_handler",
    "super_kernel_scope_begin",
    "super_kernel_scope_end",
]


def graph_pool_handle() -> tuple[int, int]:
    """A name for the memory of several graphs that never run at the same time: pass it as `pool` to each capture."""
    return _C.graph_pool_handle()


class NPUGraph(torch._C._acceleratorGraph):
    """A captured graph. Use it through `with torch.npu.graph(g):`, then `g.replay()`."""

    def __new__(cls, keep_graph: bool = False):
        return super().__new__(cls, keep_graph)

    def __init__(self, keep_graph: bool = False) -> None:
        super().__init__(keep_graph)
        self.graph_dispatch_mode: DispatchCapture | None = None

    def capture_begin(self, pool: tuple[int, int] | None = None, capture_error_mode: str = "global") -> None:
        """Begins to capture the current stream, which must not be the default one."""
        if capture_error_mode not in ("global", "thread_local", "relaxed"):
            raise ValueError(f"capture_error_mode must be 'global', 'thread_local' or 'relaxed', but got '{capture_error_mode}'")
        super().capture_begin(pool=pool, capture_error_mode=capture_error_mode)  # type: ignore[arg-type]

    def update(self, cpu_update_input: list[dict]) -> None:
        """Gives operators that were captured with auto_dispatch_capture=True new host arguments, a dict for all or one for each."""
        if self.graph_dispatch_mode is None:
            raise RuntimeError("update() needs a graph that was captured with auto_dispatch_capture=True")
        self.graph_dispatch_mode.update(cpu_update_input)

    def debug_dump(self, debug_path: str) -> None:
        """Writes the graph as JSON: a stream, a name and the arguments for each task."""
        super().debug_dump(str(debug_path))

    def register_generator_state(self, generator: torch.Generator) -> None:
        """Only checks its argument: every generator that a capture uses is registered by itself."""
        if generator.device.type != "npu":
            raise ValueError(f"generator must be one of an npu, but its device is {generator.device}")

    def super_kernel_optimize(self, optimize_options=None, debug_options=None) -> None:
        raise NotImplementedError("Super kernels are machine code that only CANN builds; replay() the graph as it is.")


class graph:
    """Captures the work of the block into `npu_graph`.

    `pool` shares memory with other graphs (graph_pool_handle() or another graph's pool()), `stream` is captured (default: a side
    stream that all captures use), `capture_error_mode` is upstream's; auto_dispatch_capture=True prepares NPUGraph.update().
    """

    default_capture_stream: Stream | None = None

    def __init__(self, npu_graph, pool=None, stream=None, auto_dispatch_capture=False, capture_error_mode: str = "global"):
        if not isinstance(auto_dispatch_capture, bool):  # torch.cuda.graph has capture_error_mode in this place
            raise TypeError(f"auto_dispatch_capture must be True or False, but got {auto_dispatch_capture!r}")
        if stream is None:
            if graph.default_capture_stream is None or graph.default_capture_stream.device_index != current_device():
                graph.default_capture_stream = Stream()
            stream = graph.default_capture_stream
        self.npu_graph = npu_graph
        self.pool = pool
        self.capture_stream = stream
        self.capture_error_mode = capture_error_mode
        self.dispatch_mode = DispatchCapture() if auto_dispatch_capture else None
        self._stream_context = StreamContext(stream)

    def __enter__(self) -> None:
        # Memory that only garbage holds would be missing while the graph holds its own.
        synchronize()
        if torch.compiler.config.force_cudagraph_gc:  # upstream's setting, and its default: collecting takes longer than a capture
            gc.collect()
        empty_cache()
        self._stream_context.__enter__()
        try:
            self.npu_graph.capture_begin(*((self.pool,) if self.pool else ()), capture_error_mode=self.capture_error_mode)
        except BaseException:
            self._stream_context.__exit__(None, None, None)
            raise
        if self.dispatch_mode is not None:
            self.npu_graph.graph_dispatch_mode = self.dispatch_mode
            self.dispatch_mode.__enter__()

    def __exit__(self, *exception) -> None:
        if self.dispatch_mode is not None:
            self.dispatch_mode.__exit__(*exception)
        try:
            with warnings.catch_warnings():
                if exception[0] is not None:  # the error of the block is the cause, and is raised
                    warnings.simplefilter("ignore")
                self.npu_graph.capture_end()
        except RuntimeError:
            if exception[0] is None:
                raise
        finally:
            self._stream_context.__exit__(*exception)


def super_kernel_scope_begin(scope_name: str | None = None) -> None:
    raise NotImplementedError("Super kernels are machine code that only CANN builds; capture without the scope.")


def super_kernel_scope_end(scope_name: str | None = None) -> None:
    raise NotImplementedError("Super kernels are machine code that only CANN builds; capture without the scope.")
