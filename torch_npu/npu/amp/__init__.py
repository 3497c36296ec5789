"""torch.npu.amp: torch.amp with the device filled in."""

from functools import partial

import torch
from torch.amp import custom_bwd as _custom_bwd, custom_fwd as _custom_fwd

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(torch.amp.autocast):
    """torch.autocast("npu", ...)."""

    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True) -> None:
        super().__init__("npu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """torch.amp.GradScaler("npu", ...). dynamic=False keeps the scale at init_scale."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        dynamic: bool = True,
        enabled: bool = True,
    ) -> None:
        super().__init__("npu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self._dynamic = dynamic

    def update(self, new_scale: float | torch.Tensor | None = None) -> None:
        """Adjusts the scale after an optimizer step; a static one changes only when new_scale is given."""
        super().update(new_scale if self._dynamic or new_scale is not None or not self._enabled else self.get_scale())


custom_fwd = partial(_custom_fwd, device_type="npu")
custom_bwd = partial(_custom_bwd, device_type="npu")
