"""How many of a card's cores the operators of this process or of one stream may use, and how long one operator may."""

from __future__ import annotations

from torch_npu import _C
from torch_npu.npu import devices
from torch_npu.npu.streams import Stream

__all__ = ["get_device_limit", "get_stream_limit", "reset_stream_limit", "set_device_limit", "set_op_timeout_ms", "set_stream_limit"]

_CUBE, _VECTOR = 0, 1  # aclrtDevResLimitType
_was_set = False


def _checked(device: int) -> int:
    if isinstance(device, bool) or not isinstance(device, int):
        raise TypeError(f"device must be an int, but got {type(device).__name__}")
    if not 0 <= device < devices.device_count():
        raise AssertionError("Invalid device id")
    devices.init()
    return device


def _check_numbers(function: str, cube_num: int, vector_num: int) -> None:
    for name, number in (("cube_num", cube_num), ("vector_num", vector_num)):
        if not isinstance(number, int) or isinstance(number, bool):
            raise TypeError(f"{name} must be an int, but got {type(number).__name__}")
        if number < 1 and number != -1:
            raise ValueError(f"{name} must be 1 or more, or -1, got {number}")
    if cube_num == vector_num == -1:
        raise ValueError(f"{function}: give cube_num or vector_num")


def _checked_stream(stream: Stream) -> Stream:
    if not isinstance(stream, Stream):
        raise AssertionError(f"stream should be a torch.npu.Stream, but got {type(stream).__name__}")
    devices.init()
    return stream


def get_device_limit(device: int) -> dict[str, int]:
    """The cores of a card that operators may use: `{"cube_core_num": 24, "vector_core_num": 48}`."""
    device = _checked(device)
    return {"cube_core_num": _C.device_limit(device, _CUBE), "vector_core_num": _C.device_limit(device, _VECTOR)}


def set_device_limit(device: int, cube_num: int = -1, vector_num: int = -1) -> None:
    """Limits the cores of a card, -1 leaves a number as it is. Once in a process: later calls are errors, as with the official plugin.

    softnpu keeps the numbers and computes as before.
    """
    global _was_set
    device = _checked(device)
    _check_numbers("set_device_limit", cube_num, vector_num)
    if _was_set:
        raise RuntimeError("set_device_limit was called before; it can be called once in a process")
    if cube_num != -1:
        _C.set_device_limit(device, _CUBE, cube_num)
    if vector_num != -1:
        _C.set_device_limit(device, _VECTOR, vector_num)
    _was_set = True


def get_stream_limit(stream: Stream) -> dict[str, int]:
    """The cores that operators of a stream may use; those of its card while the stream has no limit of its own."""
    stream = _checked_stream(stream)
    return {"cube_core_num": _C.stream_limit(stream, _CUBE), "vector_core_num": _C.stream_limit(stream, _VECTOR)}


def set_stream_limit(stream: Stream, cube_num: int = -1, vector_num: int = -1) -> None:
    """Limits the cores of a stream's operators from here on, -1 leaves a number as it is. Any number of times.

    From the first limit on, launches of this process are slower: operators are planned anew for every call.
    """
    stream = _checked_stream(stream)
    _check_numbers("set_stream_limit", cube_num, vector_num)
    if cube_num != -1:
        _C.set_stream_limit(stream, _CUBE, cube_num)
    if vector_num != -1:
        _C.set_stream_limit(stream, _VECTOR, vector_num)


def reset_stream_limit(stream: Stream) -> None:
    """The stream has the cores of its card again."""
    _C.reset_stream_limit(_checked_stream(stream))


def set_op_timeout_ms(timeout: int) -> None:
    """How long an operator may run on the current card before CANN ends it. softnpu takes the number and never ends an operator."""
    if isinstance(timeout, bool) or not isinstance(timeout, int):
        raise TypeError(f"set_op_timeout_ms: timeout must be an int, but got {type(timeout).__name__}")
    if timeout < 0:
        raise ValueError(f"set_op_timeout_ms: timeout must not be negative, got {timeout}")
    devices.set_device(devices.current_device())  # opened: opening sets a limit of its own
    _C.set_op_timeout_us(timeout * 1000)
