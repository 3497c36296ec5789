"""torch.npu.amp.autocast and the decorators for autograd functions: torch.amp's with the device filled in."""

from functools import partial

import torch
from torch.amp import custom_bwd as _custom_bwd, custom_fwd as _custom_fwd

from torch_npu.npu.autocast_utils import get_amp_supported_dtype
from torch_npu.npu.devices import get_device_name

__all__ = ["autocast", "custom_bwd", "custom_fwd"]


class autocast(torch.amp.autocast):
    """torch.autocast("npu", ...). A dtype that the card cannot compute in is an error here; torch.autocast warns."""

    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True) -> None:
        supported = get_amp_supported_dtype()
        if enabled and dtype not in supported:
            names = " or ".join(str(dtype) for dtype in supported)
            raise RuntimeError(f"autocast to {dtype} is not possible on {get_device_name()}; use {names}")
        super().__init__("npu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


custom_fwd = partial(_custom_fwd, device_type="npu")
custom_bwd = partial(_custom_bwd, device_type="npu")
