"""Streams and events. torch.npu re-exports all of it; what events do and the two lookups are native (csrc/python)."""

import ctypes

import torch

from torch_npu import _C
from torch_npu._C import current_stream, default_stream
from torch_npu.npu.devices import current_device, set_device

__all__ = [
    "Event",
    "ExternalEvent",
    "ExternalStream",
    "Stream",
    "StreamContext",
    "SyncLaunchStream",
    "current_stream",
    "default_stream",
    "is_current_stream_capturing",
    "set_stream",
    "stream",
]


class Event(_C.Event):
    """Event(enable_timing=False, blocking=False, interprocess=False, external=False)

    A point in the work of a stream: to wait for, to order streams by, or to measure time with. `blocking` is accepted for
    compatibility: a waiting thread always sleeps. With `interprocess` the event can be given to other processes (docs/sharing.md), and has
    no time. `external` is refused: an event that graphs share with the rest of the world is an ExternalEvent.
    """


class ExternalEvent(_C.ExternalEvent):
    """ExternalEvent()

    An event that graphs share with the rest of the world: in a capture record, wait and reset become part of the graph.

    A replay that comes to wait() sleeps until the event is recorded; reset() makes the next one sleep again.
    """

    def record(self, stream: torch.Stream | None = None) -> None:
        super().record(current_stream() if stream is None else stream)

    def wait(self, stream: torch.Stream | None = None) -> None:
        super().wait(current_stream() if stream is None else stream)

    def reset(self, stream: torch.Stream | None = None) -> None:
        super().reset(current_stream() if stream is None else stream)


def _check_keywords(cls: type, keywords: dict, known: tuple[str, ...]) -> None:
    for name in keywords:
        if name not in known:
            raise TypeError(f"{cls.__name__}() got an unexpected keyword argument {name!r}")


class Stream(torch.Stream):
    """A queue of work of one card. Work of one stream runs in order; streams run independently.

    `priority`: lower numbers run first. The streams of a card come from a pool, as those of torch.cuda do.
    """

    def __new__(cls, device=None, priority=0, **kwargs):
        if "stream_id" in kwargs:  # the three numbers of a torch.Stream
            _check_keywords(cls, kwargs, ("stream_id", "device_index", "device_type"))
            if "device_index" not in kwargs:
                raise TypeError(f"{cls.__name__}: stream_id needs device_index beside it")
            return _C.wrap_stream_id(cls, kwargs["stream_id"], kwargs["device_index"])
        _check_keywords(cls, kwargs, ())
        if isinstance(priority, bool) or not isinstance(priority, int):
            raise TypeError(f"{cls.__name__}: priority must be an int, got {type(priority).__name__}")
        return _C.new_stream(cls, device, priority)

    @property
    def npu_stream(self) -> int:
        """The aclrtStream as an int."""
        return _C.stream_handle(self)

    @property
    def priority(self) -> int:
        return _C.stream_priority(self)

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.npu_stream)

    def wait_event(self, event: torch.Event) -> None:
        """Makes later work of this stream wait for the last record of an event."""
        event.wait(self)

    def wait_stream(self, stream: torch.Stream) -> None:
        """Makes later work of this stream wait for what another stream has been given so far."""
        self.wait_event(stream.record_event())

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Records an event (default: a new one) in this stream and returns it."""
        if event is None:
            event = Event()
        event.record(self)
        return event

    def set_data_preprocess_stream(self, is_data_preprocess_stream=False):
        """The official mark of a stream that prepares data; what it changes there is not published. False is what every stream is."""
        if is_data_preprocess_stream:
            raise NotImplementedError(
                "Stream.set_data_preprocess_stream(True) is not supported: what the mark changes is not published; leave it out, "
                "work of a stream of its own runs beside the rest anyway")

    def __eq__(self, other) -> bool:
        return isinstance(other, torch.Stream) and super().__eq__(other)

    def __ne__(self, other) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return super().__hash__()

    def __repr__(self) -> str:
        return f"<torch.npu.Stream device={self.device} npu_stream={self.npu_stream:#x}>"


class ExternalStream(Stream):
    """A stream that another library has made and keeps alive: `stream_ptr` is its aclrtStream as an int."""

    def __new__(cls, stream_ptr, device=None, **kwargs):
        _check_keywords(cls, kwargs, ())
        if isinstance(stream_ptr, bool) or not isinstance(stream_ptr, int):
            raise TypeError(f"ExternalStream: stream_ptr must be the address of an aclrtStream, an int, got {type(stream_ptr).__name__}")
        return _C.new_external_stream(cls, stream_ptr, device)


class SyncLaunchStream(Stream):
    """A stream whose work is launched when it is called, not by the task queue: at level 0 of the queue, where every stream is one."""

    def __new__(cls, device=None, priority=0, **kwargs):
        if level := _C.get_task_queue_enable():
            raise RuntimeError(
                f"the task queue is at level {level} and takes the launches of all streams: call torch.npu.set_task_queue_enable(0), or "
                "set TASK_QUEUE_ENABLE=0, and every stream launches at once")
        return super().__new__(cls, device, priority, **kwargs)


_C.set_stream_class(Stream)


def set_stream(stream: Stream | None) -> None:
    """Makes a stream, and its card, current for this thread. None changes nothing."""
    if stream is not None:
        _C.set_stream(stream)


def _npu_setStream(stream_id: int = 0, device_index: int = 0, device_type: int = 20) -> None:  # noqa: N802 (the official name)
    """torch_npu._C._npu_setStream: set_stream() by the numbers of a stream."""
    set_stream(Stream(stream_id=stream_id, device_index=device_index, device_type=device_type))


_C._npu_setStream = _npu_setStream


class StreamContext:
    """Context manager that makes a stream current. None changes nothing."""

    def __init__(self, stream_ctx: Stream | None) -> None:
        if stream_ctx is not None and not isinstance(stream_ctx, torch.Stream):
            raise TypeError(f"stream must be a torch.npu.Stream or None, got {type(stream_ctx).__name__}")
        self.stream = stream_ctx

    def __enter__(self) -> None:
        if self.stream is None:
            return
        self._device_before = current_device()
        self._stream_before = current_stream(self.stream.device)
        set_stream(self.stream)

    def __exit__(self, *exception) -> None:
        if self.stream is None:
            return
        set_stream(self._stream_before)
        set_device(self._device_before)


def stream(stream: Stream | None) -> StreamContext:
    """`with torch.npu.stream(s):` gives the work of the block to s."""
    return StreamContext(stream)


def is_current_stream_capturing() -> bool:
    """Whether the current stream records a graph instead of running its work."""
    return _C.is_current_stream_capturing()
