"""The state of torch.autocast("npu"), under the names that torch and code written for Ascend look for."""

import torch

from torch_npu.npu.devices import is_available, is_bf16_supported

__all__ = [
    "get_amp_supported_dtype",
    "get_autocast_dtype",
    "is_autocast_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
]


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes autocast can compute in. torch.autocast asks for them."""
    return [torch.float16, torch.bfloat16] if not is_available() or is_bf16_supported() else [torch.float16]


def is_autocast_enabled() -> bool:
    return torch.is_autocast_enabled("npu")


def set_autocast_enabled(enable: bool) -> None:
    torch.set_autocast_enabled("npu", enable)


def get_autocast_dtype() -> torch.dtype:
    return torch.get_autocast_dtype("npu")


def set_autocast_dtype(dtype: torch.dtype) -> None:
    torch.set_autocast_dtype("npu", dtype)
