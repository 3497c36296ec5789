"""torch.amp.GradScaler without float64, which the chips do not compute with.

Upstream takes the reciprocal of the scale in float64, on every device but mps, and has no hook. It rounds the result to float32,
to the number that a float32 division gives.
"""

import functools

import torch


class _Scale(torch.Tensor):
    """The scale of a GradScaler while it unscales: float32, also if asked for more."""

    def double(self) -> torch.Tensor:
        return self.as_subclass(torch.Tensor)


def register(scaler: type[torch.amp.GradScaler]) -> None:
    """`scaler` is torch.amp.GradScaler or a class with an unscale_ of its own."""
    upstream = scaler.unscale_

    @functools.wraps(upstream)
    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        scale = getattr(self, "_scale", None)  # a scaler that is not enabled has none
        if scale is None or scale.device.type != "npu":
            return upstream(self, optimizer)
        self._scale = scale.as_subclass(_Scale)
        try:
            upstream(self, optimizer)
        finally:
            self._scale = scale

    scaler.unscale_ = unscale_
