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
    """Whether torch.autocast("npu") is in force in this thread."""
    return torch.is_autocast_enabled("npu")


def set_autocast_enabled(enable: bool) -> None:
    """Turns autocast on npu on or off for this thread; torch.autocast restores it."""
    torch.set_autocast_enabled("npu", enable)


def get_autocast_dtype() -> torch.dtype:
    """The dtype that autocast on npu computes in."""
    return torch.get_autocast_dtype("npu")


def set_autocast_dtype(dtype: torch.dtype) -> None:
    """Sets the dtype that autocast on npu computes in."""
    torch.set_autocast_dtype("npu", dtype)
