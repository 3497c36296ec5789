"""Device and pinned memory: what is in use, limits, caches, private pools, snapshots. torch.npu re-exports all of it.

Names, arguments and results are torch.cuda.memory's. A device argument is an int, a string, a torch.device or None,
which means the current card. Sizes are in bytes.
"""

import contextlib
import ctypes
import os
import pickle
import sys
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch._utils import _augment_memory_snapshot_stack_traces
from typing_extensions import deprecated

from torch_npu import _C
from torch_npu.npu import devices, streams
from torch_npu.npu.devices import is_initialized as is_initialized

__all__ = [
    "MemPool",
    "NPUPluggableAllocator",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "change_current_allocator",
    "empty_cache",
    "empty_virt_addr_cache",
    "get_allocator_backend",
    "get_per_process_memory_fraction",
    "host_empty_cache",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
    "use_mem_pool",
]


# ---- what is in use --------------------------------------------------------------------------------------------------


def memory_allocated(device=None) -> int:
    """Bytes in live tensors of a card."""
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device=None) -> int:
    """The most bytes that were in live tensors at once, since the start or reset_peak_memory_stats()."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device=None) -> int:
    """Bytes that the caching allocator holds of a card: live tensors and what is kept for reuse."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device=None) -> int:
    """The most bytes that the caching allocator held at once, since the start or reset_peak_memory_stats()."""
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


@deprecated("`torch.npu.memory_cached` has been renamed to `torch.npu.memory_reserved`", category=FutureWarning)
def memory_cached(device=None) -> int:
    """Old name of memory_reserved()."""
    return memory_reserved(device)


@deprecated("`torch.npu.max_memory_cached` has been renamed to `torch.npu.max_memory_reserved`", category=FutureWarning)
def max_memory_cached(device=None) -> int:
    """Old name of max_memory_reserved()."""
    return max_memory_reserved(device)


def mem_get_info(device=None) -> tuple[int, int]:
    """(free, total) bytes of a card, over all processes."""
    devices._lazy_init()
    return _C.mem_get_info(device)


# ---- statistics ------------------------------------------------------------------------------------------------------


def _flatten(nested: dict) -> "OrderedDict[str, Any]":
    """{"a": {"b": 1}} -> {"a.b": 1}, sorted; the tuple (0, 1) becomes "0_1"."""
    flat = {}

    def visit(prefix: str, value: Any) -> None:
        if not isinstance(value, dict):
            flat[prefix] = value
            return
        for key, inner in value.items():
            name = "_".join(map(str, key)) if isinstance(key, tuple) else str(key)
            visit(f"{prefix}.{name}" if prefix else name, inner)

    visit("", nested)
    return OrderedDict(sorted(flat.items()))


def memory_stats(device=None) -> "OrderedDict[str, Any]":
    """The allocator's counters for a card, as a flat dict; empty before the npu is initialised.

    "{stat}.{pool}.{metric}" with
      stat: allocation, segment, active, inactive_split (numbers of blocks), allocated_bytes, reserved_bytes,
        active_bytes, inactive_split_bytes, requested_bytes (bytes before rounding)
      pool: all, small_pool (blocks up to 1 MiB), large_pool
      metric: current, peak, allocated, freed (totals since the start or reset_accumulated_memory_stats)
    "oversize_allocations.{metric}", "oversize_segments.{metric}": blocks above max_split_size_mb
    "num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc", "num_device_free", "max_split_size"
    """
    return _flatten(memory_stats_as_nested_dict(device))


def memory_stats_as_nested_dict(device=None) -> dict[str, Any]:
    """memory_stats() with one level of dict per dot."""
    return _C.memory_stats(device) if is_initialized() else {}


def reset_accumulated_memory_stats(device=None) -> None:
    """Restarts the totals ("allocated", "freed", "num_...") of memory_stats()."""
    devices._lazy_init()
    _C.reset_accumulated_memory_stats(device)


def reset_peak_memory_stats(device=None) -> None:
    """Restarts the peaks of memory_stats() from what is in use now."""
    devices._lazy_init()
    _C.reset_peak_memory_stats(device)


def _reset_peaks_instead(name: str, device) -> None:
    warnings.warn(
        f"torch.npu.{name} now calls torch.npu.reset_peak_memory_stats, which resets /all/ peak memory stats.",
        FutureWarning,
        stacklevel=3,
    )
    reset_peak_memory_stats(device)


def reset_max_memory_allocated(device=None) -> None:
    """Old name of reset_peak_memory_stats()."""
    _reset_peaks_instead("reset_max_memory_allocated", device)


def reset_max_memory_cached(device=None) -> None:
    """Old name of reset_peak_memory_stats()."""
    _reset_peaks_instead("reset_max_memory_cached", device)


def host_memory_stats() -> "OrderedDict[str, Any]":
    """The counters of pinned host memory, as a flat dict; empty before the npu is initialised.

    "allocations", "allocated_bytes" (owned, in use or cached), "active_requests", "active_bytes" (in use), each with
    ".current", ".peak", ".allocated", ".freed"; "host_alloc_time", "host_free_time" in microseconds; "num_host_alloc",
    "num_host_free". Sizes are rounded up to a power of two.
    """
    return _flatten(host_memory_stats_as_nested_dict())


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """host_memory_stats() with one level of dict per dot."""
    return _C.host_memory_stats() if is_initialized() else {}


def reset_accumulated_host_memory_stats() -> None:
    """Restarts the totals of host_memory_stats()."""
    _C.reset_accumulated_host_memory_stats()


def reset_peak_host_memory_stats() -> None:
    """Restarts the peaks of host_memory_stats() from what is in use now."""
    _C.reset_peak_host_memory_stats()


def _scaled(value: int, reference: int, step: int, limit: int, units: tuple[str, ...]) -> str:
    """`value` in the unit that makes `reference` at most `limit`."""
    for unit in units[:-1]:
        if reference < limit:
            return f"{value:7d} {unit}"
        value //= step
        reference //= step
    return f"{value:7d} {units[-1]}"


def _bytes_cell(value: int, reference: int) -> str:
    return _scaled(value, reference, 1024, 768 * 1024, ("B  ", "KiB", "MiB", "GiB", "TiB"))


def _count_cell(value: int, reference: int) -> str:
    return _scaled(value, reference, 1000, 750 * 1000, ("   ", "K  ", "M  "))


_SUMMARY_ROWS = (
    ("allocated_bytes", "Allocated memory", _bytes_cell),
    ("active_bytes", "Active memory", _bytes_cell),
    ("requested_bytes", "Requested memory", _bytes_cell),
    ("reserved_bytes", "NPU reserved memory", _bytes_cell),
    ("inactive_split_bytes", "Non-releasable memory", _bytes_cell),
    ("allocation", "Allocations", _count_cell),
    ("active", "Active allocs", _count_cell),
    ("segment", "NPU reserved segments", _count_cell),
    ("inactive_split", "Non-releasable allocs", _count_cell),
)
_SUMMARY_OVERSIZE_ROWS = (
    ("oversize_allocations", "Oversize allocations"),
    ("oversize_segments", "Oversize NPU segments"),
)


def memory_summary(device=None, abbreviated: bool = False) -> str:
    """memory_stats() of a card as a table for people; `abbreviated` leaves out the split into pools."""
    index = devices._get_device_index(device, optional=True)
    devices._lazy_init()
    stats = memory_stats_as_nested_dict(index)
    width = 79

    def row(name: str, metrics: dict, reference: dict, cell) -> str:
        cells = (cell(metrics[key], reference[key]) for key in ("current", "peak", "allocated", "freed"))
        return f" {name:<21} | " + " | ".join(cells) + " "

    counts = f"NPU OOMs: {stats['num_ooms']:<12d} | aclrtMalloc retries: {stats['num_alloc_retries']}"
    lines = [
        "=" * width,
        f"PyTorch NPU memory summary, device ID {index}".center(width),
        "-" * width,
        counts.center(width),
        "=" * width,
        f" {'Metric':^21} | {'Cur Usage':^11} | {'Peak Usage':^11} | {'Tot Alloc':^11} | {'Tot Freed':^11} ",
    ]
    for key, name, cell in _SUMMARY_ROWS:
        pools = stats[key]
        lines.append("-" * width)
        lines.append(row(name, pools["all"], pools["all"], cell))
        if not abbreviated:
            lines.append(row("      from large pool", pools["large_pool"], pools["all"], cell))
            lines.append(row("      from small pool", pools["small_pool"], pools["all"], cell))
    for key, name in _SUMMARY_OVERSIZE_ROWS:
        lines.append("-" * width)
        lines.append(row(name, stats[key], stats[key], _count_cell))
    lines.append("=" * width)
    return "".join(f"|{line:<{width}}|\n" for line in lines)


# ---- caches and limits -----------------------------------------------------------------------------------------------


def empty_cache() -> None:
    """Returns the memory that no tensor uses to the cards. Waits for running work."""
    if is_initialized():
        _C.collect_shared()  # memory that other processes are done with can go back
        _C.empty_cache()


def empty_virt_addr_cache() -> None:
    """Returns reserved address ranges that no tensor uses; they go back with their memory, in empty_cache()."""
    empty_cache()


def host_empty_cache() -> None:
    """Returns pinned host memory that no tensor uses."""
    if is_initialized():
        _C.host_empty_cache()


def set_per_process_memory_fraction(fraction, device=None) -> None:
    """Limits this process to a fraction (0 to 1) of a card's memory; beyond it there is an out-of-memory error."""
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    devices._lazy_init()
    _C.set_memory_fraction(fraction, device)


def get_per_process_memory_fraction(device=None) -> float:
    """The fraction of a card's memory that this process may use."""
    devices._lazy_init()
    return _C.get_memory_fraction(device)


def _set_allocator_settings(env: str) -> None:
    """Replaces the settings of PYTORCH_NPU_ALLOC_CONF, in its syntax."""
    _C.set_allocator_settings(env)


# ---- raw memory and private pools ------------------------------------------------------------------------------------


def caching_allocator_alloc(size, device=None, stream=None) -> int:
    """Takes memory from the allocator for another library and returns its address.

    `stream` (a torch.npu.Stream or the int of an aclrtStream; default: the current one) is where the memory may be used
    without further waiting.
    """
    index = devices._get_device_index(device, optional=True)
    if stream is None:
        stream = streams.current_stream(index)
    elif isinstance(stream, int) and not isinstance(stream, bool):
        stream = streams.ExternalStream(stream, device=index) if stream else streams.default_stream(index)
    elif not isinstance(stream, torch.Stream):
        raise TypeError(
            "Invalid type for stream argument, must be `torch.npu.Stream` or `int` representing a pointer to an "
            "existing stream"
        )
    devices._lazy_init()
    return _C.caching_allocator_alloc(size, stream)


def caching_allocator_delete(mem_ptr) -> None:
    """Gives back memory of caching_allocator_alloc()."""
    _C.caching_allocator_delete(mem_ptr)


def get_allocator_backend() -> str:
    """ "native", or "pluggable" after change_current_allocator()."""
    return _C.allocator_backend()


class _NPUAllocator:
    """Something that MemPool and change_current_allocator can allocate with."""

    def __init__(self, allocator: _C._npu_NPUAllocator) -> None:
        self._allocator = allocator

    def allocator(self) -> _C._npu_NPUAllocator:
        return self._allocator


class NPUPluggableAllocator(_NPUAllocator):
    """Two functions of a shared library:

    void* alloc_fn_name(ssize_t size, int device, aclrtStream stream);
    void free_fn_name(void* ptr, ssize_t size, int device, aclrtStream stream);
    """

    def __init__(self, path_to_so_file: str, alloc_fn_name: str, free_fn_name: str) -> None:
        library = ctypes.CDLL(path_to_so_file)
        functions = (getattr(library, name) for name in (alloc_fn_name, free_fn_name))
        super().__init__(_C.pluggable_allocator(*(ctypes.cast(f, ctypes.c_void_p).value for f in functions)))


def change_current_allocator(allocator: _NPUAllocator) -> None:
    """Allocates every npu tensor with `allocator`. Only before the first tensor; then there are no statistics."""
    if not isinstance(allocator, _NPUAllocator):
        raise TypeError(f"allocator must be a torch.npu.memory.NPUPluggableAllocator, got {type(allocator).__name__}")
    _C.change_current_allocator(allocator.allocator())


class MemPool(_C._MemPool):
    """Memory of the current card that only allocations inside use_mem_pool() get.

    `allocator`: of an NPUPluggableAllocator, where the memory comes from (default: the driver). `use_on_oom`: others
    may take what is free in it before they run out of memory. `no_split`: a segment serves one tensor at a time.
    """

    def __init__(
        self, allocator: _C._npu_NPUAllocator | None = None, use_on_oom: bool = False, no_split: bool = False
    ) -> None:
        if allocator is not None and not isinstance(allocator, _C._npu_NPUAllocator):
            raise TypeError(f"allocator must be what NPUPluggableAllocator.allocator() gives, or None, got {type(allocator).__name__}")
        for name, value in (("use_on_oom", use_on_oom), ("no_split", no_split)):
            if not isinstance(value, bool):
                raise TypeError(f"{name} must be True or False, got {value!r}")
        devices._lazy_init()
        super().__init__(allocator, True, use_on_oom, no_split)

    def snapshot(self) -> list[dict[str, Any]]:
        """memory_snapshot() of this pool."""
        return memory_snapshot(self.id)


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device=None) -> Iterator[None]:
    """Routes this thread's allocations on a card to `pool`. Threads started inside (backward) are not routed."""
    if not isinstance(pool, _C._MemPool):
        raise TypeError(f"pool must be a torch.npu.MemPool, got {type(pool).__name__}")
    index = devices._get_device_index(device, optional=True)
    _C.begin_allocate_current_thread_to_pool(index, pool.id)
    try:
        yield
    finally:
        _C.end_allocate_to_pool(index, pool.id)
        _C.release_pool(index, pool.id)


# ---- snapshots and history -------------------------------------------------------------------------------------------


def memory_snapshot(mempool_id=None, include_traces: bool = True) -> list[dict[str, Any]]:
    """The segments of all cards, or of one MemPool, with their blocks; see _snapshot() for the fields.

    `include_traces` is accepted as by torch.cuda: segments hold no traces, so it changes nothing.
    """
    if mempool_id is not None and not (isinstance(mempool_id, (tuple, list)) and len(mempool_id) == 2):
        raise TypeError(f"mempool_id must be the id of a torch.npu.MemPool, two numbers, got {mempool_id!r}")
    return _C.memory_snapshot(tuple(mempool_id or (0, 0)), with_traces=False)["segments"]


def _snapshot(device=None, augment_with_fx_traces: bool = False):
    """Segments, blocks and recorded history of all cards, as torch.cuda.memory._snapshot() describes them.

    pytorch.org/memory_viz and torch/cuda/_memory_viz.py read it.
    """
    snapshot = _C.memory_snapshot()
    return _augment_memory_snapshot_stack_traces(snapshot) if augment_with_fx_traces else snapshot


def _dump_snapshot(filename="dump_snapshot.pickle", augment_with_fx_traces: bool = False) -> None:
    """Writes _snapshot() to a file."""
    snapshot = _snapshot(augment_with_fx_traces=augment_with_fx_traces)
    with open(os.fspath(filename), "wb") as file:
        pickle.dump(snapshot, file)


def _record_memory_history(
    enabled: Literal["state", "all"] | None = "all",
    context: Literal["state", "alloc", "all"] | None = "all",
    stacks: Literal["python", "all"] = "all",
    max_entries: int = sys.maxsize,
    device=None,
    clear_history: bool = False,
    compile_context: bool = False,
    global_record_annotations: bool = False,
    skip_actions: list[str] | None = None,
) -> None:
    """Starts (or, with None, stops) recording stack traces and the history of allocations for _snapshot().

    enabled: "state" keeps the traces of live memory, "all" also a history of the last `max_entries` actions.
    context: which of them get a stack trace: live memory, also past allocations, also frees.
    stacks: frames of Python (and TorchScript) only, or of C++ too.
    skip_actions: actions that are not recorded, such as "free_requested".
    device: changes nothing, all cards are recorded, as by torch.cuda.
    """
    if compile_context or global_record_annotations:
        raise NotImplementedError("compile_context and global_record_annotations are not supported by torch.npu")
    if isinstance(enabled, bool):
        enabled = "all" if enabled else None
    _C.record_memory_history(enabled, context, stacks, max_entries, clear_history, skip_actions or [])


def _allocation_traceback(data_ptr: int) -> list[dict[str, Any]] | None:
    """The recorded stack trace of the live allocation at an address, or None."""
    return _C.allocation_traceback(data_ptr)


def _set_memory_metadata(metadata: str) -> None:
    """Attaches a text to the history entries that follow; empty: none."""
    _C.set_memory_metadata(metadata)


def _get_memory_metadata() -> str:
    """The text of _set_memory_metadata()."""
    return _C.get_memory_metadata()


def _save_segment_usage(filename="output.svg", snapshot=None) -> None:
    """Draws the segments of a snapshot (default: a new one)."""
    from torch.cuda._memory_viz import segments

    with open(filename, "w") as file:
        file.write(segments(_snapshot() if snapshot is None else snapshot))


def _save_memory_usage(filename="output.svg", snapshot=None) -> None:
    """Draws what uses the memory in a snapshot (default: a new one)."""
    from torch.cuda._memory_viz import memory

    with open(filename, "w") as file:
        file.write(memory(_snapshot() if snapshot is None else snapshot))


def erase_stream(tensor: torch.Tensor, stream) -> None:
    """Takes back tensor.record_stream(stream): when the tensor is freed, its memory no longer waits for that stream."""
    if tensor.device.type != "npu":
        raise ValueError(f"Expected a tensor of the npu, but got one of {tensor.device}")
    _C.erase_stream(tensor, stream)
