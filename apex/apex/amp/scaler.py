"""The loss scale of one loss: static, or moved by overflows and by quiet stretches."""

import torch

DYNAMIC_DEFAULTS = {
    "dynamic_init_scale": 2.0**16,
    "scale_growth_factor": 2.0,
    "scale_backoff_factor": 0.5,
    "scale_window": 2000,
    "min_loss_scale": None,
    "max_loss_scale": 2.0**24,
}


class LossScaler:
    """A static scale never changes and is not checked: gradients that overflow reach the optimiser.

    A dynamic one is multiplied by scale_backoff_factor after an overflow, whose step is skipped, and by
    scale_growth_factor after scale_window steps without one.
    """

    def __init__(self, loss_scale: float | str, **options) -> None:
        options = {**DYNAMIC_DEFAULTS, **options}
        self.dynamic = loss_scale == "dynamic"
        self._min, self._max = options["min_loss_scale"], options["max_loss_scale"]
        self._growth, self._backoff = options["scale_growth_factor"], options["scale_backoff_factor"]
        self._window = options["scale_window"]
        if self._growth <= 1 or not 0 < self._backoff < 1 or self._window < 1:
            raise ValueError("scale_growth_factor must be above 1, scale_backoff_factor between 0 and 1, scale_window positive")
        self.scale = min(self._max, options["dynamic_init_scale"]) if self.dynamic else float(loss_scale)
        self.unskipped = 0

    def loss_scale(self) -> float:
        return self.scale

    def update(self, overflow: bool) -> bool:
        """Moves the scale after one backward; returns whether the optimiser's step must be skipped."""
        skip = overflow and self.dynamic
        if skip:
            self.scale = max(self._min or 0.0, self.scale * self._backoff)
            self.unskipped = 0
        else:
            self.unskipped += 1
        if self.dynamic and self.unskipped == self._window:
            self.scale = min(self._max, self.scale * self._growth)
            self.unskipped = 0
        return skip

    def state_dict(self) -> dict:
        return {"loss_scale": self.scale, "unskipped": self.unskipped}

    def load_state_dict(self, state: dict) -> None:
        self.scale, self.unskipped = state["loss_scale"], state["unskipped"]


def unscale(grads: list[torch.Tensor], scale: float, check: bool) -> bool:
    """Divides gradients by the scale in place; with check, returns whether one of them held inf or nan."""
    overflow = False
    groups = torch.utils._foreach_utils._group_tensors_by_device_and_dtype([grads]) if grads else {}
    for (device, _), ((tensors,), _) in groups.items():
        if not check:
            if scale != 1.0:
                torch._foreach_mul_(tensors, 1.0 / scale)
            continue
        found = torch.zeros(1, device=device)
        torch._amp_foreach_non_finite_check_and_unscale_(tensors, found, torch.full((1,), 1.0 / scale, device=device))
        overflow |= bool(found.item())
    return overflow
