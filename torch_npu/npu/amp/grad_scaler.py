"""torch.npu.amp.GradScaler: torch's, with a static scale (dynamic=False) as code written for Ascend knows it."""

from typing import Any, List  # noqa: UP035 (an official name)

import torch

from torch_npu.npu import overflow
from torch_npu.npu.amp.common import amp_definitely_not_available

__all__ = ["GradScaler", "List", "amp_definitely_not_available"]


class GradScaler(torch.amp.GradScaler):
    """torch.amp.GradScaler("npu", ...). dynamic=False keeps the scale at init_scale; steps that overflow are skipped.

    Its state dict is torch's with one more key, `dynamic`; either class loads the other's.
    """

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
        if self._enabled and not self._dynamic and new_scale is None:
            new_scale = self._check_scale_growth_tracker("update")[0]
        super().update(new_scale)

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        return {**state, "dynamic": self._dynamic} if state else state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._dynamic = state_dict.get("dynamic", self._dynamic)

    get_npu_overflow_flag = staticmethod(overflow.read_float_status)
    clear_npu_overflow_flag = staticmethod(overflow.clear_float_status)
