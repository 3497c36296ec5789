"""acl.rt: cards and their memory."""

import ctypes

import torch

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


def memcpy(dst: int, dest_max: int, src: int, count: int, kind: int) -> int:
    """Copies `count` bytes and returns when it is done; `kind` 0 is from host to host, 1 to the current card, 2 from it, 3 on it."""
    if kind not in (0, 1, 2, 3):
        raise ValueError(f"kind must be 0, 1, 2 or 3, got {kind!r}")
    if not 0 <= count <= dest_max:
        raise ValueError(f"count must be from 0 to dest_max, {dest_max}; got {count}")
    if count:
        to_card, from_card = kind in (1, 3), kind in (2, 3)
        _bytes_at("dst", dst, count, to_card).copy_(_bytes_at("src", src, count, from_card))
        npu.current_stream().synchronize()
    return 0


def _bytes_at(argument: str, address: int, count: int, on_card: bool) -> torch.Tensor:
    if address == 0:
        raise ValueError(f"{argument} is 0: no address")
    if not on_card:
        return torch.frombuffer((ctypes.c_char * count).from_address(address), dtype=torch.uint8)
    card = torch.device("npu", npu.current_device())
    return torch.empty(0, dtype=torch.uint8, device=card).set_(_C._construct_storage_from_data_pointer(address, card, count))


def get_soc_name() -> str:
    return _C.get_soc_name()


__getattr__ = refusing_getattr("acl.rt", {}, "torch_npu stands in for a few functions of acl.rt; install CANN's, or use torch.npu")
