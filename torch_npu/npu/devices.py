"""Devices: initialisation, the current card, properties. torch.npu re-exports all of it."""

import os
from collections.abc import Callable

import torch

from torch_npu import _C
from torch_npu._C import current_device, device_count, is_available

__all__ = [
    "can_device_access_peer",
    "current_device",
    "device",
    "device_count",
    "device_of",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_soc_version",
    "get_task_queue_enable",
    "init",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "set_device",
    "set_task_queue_enable",
    "synchronize",
    "utilization",
]

_queued_calls: list[Callable[[], object]] = []
_is_in_bad_fork = _C.is_in_bad_fork


def init() -> None:
    """Initialises the npu now. Not needed: the first tensor on the device does it."""
    _lazy_init()


def is_initialized() -> bool:
    """Whether this process has started to use the npu (and is not a fork of one that has)."""
    return _C.is_initialized() and not _C.is_in_bad_fork()


def _lazy_init() -> None:
    """Called by torch before the first tensor on the device."""
    if not is_initialized():
        _C.init()
        if not _C.is_softnpu():
            from torch_npu.utils._compatibility import warn_if_unpaired

            warn_if_unpaired(_C.cann_version())
    while _queued_calls:
        _queued_calls.pop(0)()


def _lazy_call(callable: Callable[[], object], **kwargs) -> None:
    """Calls now, or at initialisation when that has not happened yet."""
    if is_initialized():
        callable()
    else:
        _queued_calls.append(callable)


def _get_device_index(device, optional: bool = False, allow_cpu: bool = False) -> int:
    """The index a device argument means. None or "npu" is the current card if `optional`, else an error."""
    if allow_cpu and device is not None and not isinstance(device, int) and torch.device(device).type == "cpu":
        return -1
    index = _C.device_index(device)
    if index >= 0 or isinstance(device, int):
        return index
    if not optional:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got: {device}")
    return current_device()


class device:
    """Context manager that changes the current card. None or a negative index changes nothing."""

    def __init__(self, device) -> None:
        self.idx = _C.device_index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            self.prev_idx = _C.exchange_device(self.idx)

    def __exit__(self, *exception) -> None:
        if self.idx >= 0:
            _C.maybe_exchange_device(self.prev_idx)


class device_of(device):
    """Context manager that makes the card of a tensor or storage current. Changes nothing for one elsewhere."""

    def __init__(self, obj) -> None:
        super().__init__(obj.get_device() if obj.is_npu else -1)


def set_device(device) -> None:
    """Makes a card current for this thread. A negative index changes nothing."""
    _C.set_device(_get_device_index(device))


def synchronize(device=None) -> None:
    """Waits until all work of all streams of a card (default: the current one) is done."""
    _lazy_init()
    _C.synchronize(device)


def get_device_properties(device_name=None, *, device=None):
    """Name, memory, core counts and UUID of a card (default: the current one)."""
    return _C.get_device_properties(device_name if device is None else device)


def get_device_name(device_name=None, *, device=None) -> str:
    """The SoC's name, for example Ascend910B1."""
    return get_device_properties(device_name, device=device).name


def get_device_capability(device=None) -> tuple[int, int] | None:
    """None for every device, as an npu has no CUDA capability, unless TORCH_NPU_DEVICE_CAPABILITY=major.minor says what to answer."""
    text = os.environ.get("TORCH_NPU_DEVICE_CAPABILITY")
    if not text:
        return None
    major, _, minor = text.partition(".")
    if not (major.isdecimal() and minor.isdecimal()):
        raise ValueError(f"TORCH_NPU_DEVICE_CAPABILITY must be major.minor, for example 8.0, but is: {text}")
    return int(major), int(minor)


def can_device_access_peer(device_id, peer_device_id) -> bool:
    """Whether a card can read the memory of another one."""
    return _C.can_device_access_peer(device_id, peer_device_id)


def ipc_collect() -> None:
    """Frees the memory of tensors that were sent to other processes and that those have freed, or died with.

    Sending a tensor does the same.
    """
    _C.collect_shared()


def utilization(device=None) -> int:
    """How busy the cube cores of a card are, in percent."""
    return _C.utilization(device)


def is_bf16_supported(including_emulation: bool = False) -> bool:
    """Whether the current card computes in bfloat16. There is none that emulates it: including_emulation changes nothing."""
    return is_available() and get_device_properties().bf16


# The first member of each family of SoCs and the numbers that code written for Ascend compares with.
_SOC_FAMILIES = (
    (100, ("910PremiumA", "910ProA", "910A", "910ProB", "910B")),
    (200, ("310P1", "310P2", "310P3", "310P4", "310P5", "310P7")),
    (220, ("910B1", "910B2", "910B2C", "910B3", "910B4", "910B4-1")),
    (240, ("310B1", "310B2", "310B3", "310B4")),
    (250, ("910_9391", "910_9392", "910_9381", "910_9382", "910_9372", "910_9362")),
)


def get_soc_version() -> int:
    """The SoC as a number (220 to 225: A2, 250 to 255: A3, 260: 950, -1: unknown)."""
    name = _C.get_soc_name().removeprefix("Ascend")
    if name.startswith("950"):
        return 260
    for first, members in _SOC_FAMILIES:
        if name in members:
            return first + members.index(name)
    return -1


def get_task_queue_enable() -> int:
    """The level of the task queue: 0 off, 1 launches, 2 also preparation happens on a second thread."""
    return _C.get_task_queue_enable()


def set_task_queue_enable(mode: int) -> None:
    """Sets the level of the task queue (0, 1 or 2), after everything queued has been handed over."""
    _C.set_task_queue_enable(mode)
