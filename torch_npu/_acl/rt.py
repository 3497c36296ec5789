"""acl.rt: cards and their memory."""

from torch_npu import _C, npu
from torch_npu._refusal import refusing_getattr


def get_device_count() -> tuple[int, int]:
    return _C.device_count(), 0


def set_device(device_id: int) -> int:
    npu.set_device(device_id)
    return 0


def get_device() -> tuple[int, int]:
    return npu.current_device(), 0


def reset_device(device_id: int) -> int:
    """Waits for the card; torch's tensors on it stay."""
    npu.synchronize(device_id)
    return 0


def get_mem_info(attr: int) -> tuple[int, int, int]:
    """(free, total, code) of the current card, in bytes; `attr` 1 is its own memory, the only kind there is here."""
    if attr not in (0, 1, 2):
        raise ValueError(f"attr must be 0, 1 or 2, got {attr!r}")
    free, total = npu.mem_get_info()
    return free, total, 0


def get_soc_name() -> str:
    return _C.get_soc_name()


__getattr__ = refusing_getattr("acl.rt", {}, "torch_npu stands in for a few functions of acl.rt; install CANN's, or use torch.npu")
