"""Stopping a card, starting it again, and what its faults did to tensors: torch.npu.stop_device, restart_device, check_uce_in_memory.

The names in the lower half are private in the official plugin, and used by programs that recover from faults.
"""

from __future__ import annotations

import sys

import torch

from torch_npu import _C
from torch_npu.npu.devices import _lazy_init, device_count

__all__ = ["check_uce_in_memory", "restart_device", "stop_device", "stress_detect"]


def _checked(device_id: int) -> int:
    if isinstance(device_id, bool) or not isinstance(device_id, int):
        raise TypeError(f"device_id must be an int, but got {type(device_id).__name__}")
    if not 0 <= device_id < device_count():
        raise ValueError(f"device_id {device_id} is not a card: this process sees {device_count()}")
    _lazy_init()
    return device_id


def _backends():
    """Of this process's groups on the npu, those that watch their work."""
    distributed = sys.modules.get("torch.distributed.distributed_c10d")  # without it there are none
    for group in distributed._world.pg_map if distributed else ():
        if torch.device("npu") in group._device_types:
            backend = group._get_backend(torch.device("npu"))
            if hasattr(backend, "pause"):
                yield backend


def stop_device(device_id: int) -> int:
    """Drops the work of a card, running and queued. 0, or 1 when the card could not be stopped.

    Until restart_device() whoever launches on the card or waits for it gets an error that begins with "FORCE STOP.". May be called from
    another thread than the one that computes. Tensors keep their memory; those that dropped work was to write are not written.
    """
    device_id = _checked(device_id)
    for backend in _backends():
        backend.pause()
    if _C.stop_device(device_id):
        return 0
    for backend in _backends():
        backend.resume()
    return 1


def restart_device(device_id: int, rebuild_all_resources: bool = False, disable_tensor_unsafe_check: bool = False) -> None:
    """Lets a card that was stopped work again, and repairs memory that it reported as faulty.

    With rebuild_all_resources its streams are made anew, and all tensors on it count as lost: using one is an error until copy_() fills
    it whole. disable_tensor_unsafe_check leaves that out.
    """
    device_id = _checked(device_id)
    for name, value in (("rebuild_all_resources", rebuild_all_resources), ("disable_tensor_unsafe_check", disable_tensor_unsafe_check)):
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be True or False, got {value!r}")
    if rebuild_all_resources and not disable_tensor_unsafe_check:
        _C.lose_all(device_id)
        _C.set_lost_checked(True)
    _C.restart_device(device_id, rebuild_all_resources)
    for backend in _backends():
        backend.resume()


def check_uce_in_memory(device_id: int) -> int:
    """What the last memory error of a card hit that its hardware could not correct (UCE).

    0: there was none, or its address is not known. 1: memory that is not of torch's cache. 2: cached memory that nobody uses. 3: tensors,
    whose use is an error from then on, or a multi-bit ECC error.
    """
    return _C.look_for_fault(_checked(device_id))


def stress_detect(detect_type: str = "aic") -> int:
    """Not there: the test of a card's cores ("aic") and links ("hccs") is a library of CANN's whose interface is not published."""
    if detect_type not in ("aic", "hccs"):
        raise ValueError(f'detect_type must be "aic" or "hccs", got {detect_type!r}')
    raise NotImplementedError(
        "torch.npu.stress_detect needs CANN's libascend_ml.so, whose interface is not published; cure: run `ascend-dmi -dg` on the host")


def _get_uce_addr() -> list[dict[str, int]]:
    """Address and size of what the memory error hit, of all cards."""
    return [place for device in range(device_count()) for place in _C.faulty_memory(device)]


def check_npu_tensor_is_safe(tensor_obj: torch.Tensor) -> bool:
    """Whether the contents of a tensor's memory are to be trusted."""
    return not _C.is_lost(_npu_tensor(tensor_obj))


def check_npu_storage_is_safe(storage_obj) -> bool:
    return check_npu_tensor_is_safe(_as_tensor(storage_obj))


def mark_all_npu_tensor_unsafe(device: int) -> None:
    _C.lose_all(_checked(device))


def update_npu_tensor_to_safe(tensor_obj: torch.Tensor) -> None:
    """Says that the memory of a tensor has been filled by other means than copy_()."""
    _C.restore_lost(_npu_tensor(tensor_obj))


def update_npu_storage_to_safe(storage_obj) -> None:
    update_npu_tensor_to_safe(_as_tensor(storage_obj))


def set_npu_tensor_unsafe_check_flag(flag: bool) -> None:
    """Whether the use of a lost tensor is an error, of the process."""
    _C.set_lost_checked(bool(flag))


def get_npu_tensor_unsafe_check_flag() -> bool:
    return _C.is_lost_checked()


def _npu_tensor(tensor: torch.Tensor) -> torch.Tensor:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"Expected a tensor, but got {type(tensor).__name__}")
    if tensor.device.type != "npu":
        raise ValueError(f"Expected a tensor of the npu, but got one of {tensor.device}")
    return tensor


def _as_tensor(storage) -> torch.Tensor:
    if not isinstance(storage, torch.TypedStorage | torch.UntypedStorage):
        raise TypeError(f"Expected a storage, but got {type(storage).__name__}")
    untyped = storage if isinstance(storage, torch.UntypedStorage) else storage._untyped_storage
    return torch.empty(0, dtype=torch.uint8, device=untyped.device).set_(untyped)
