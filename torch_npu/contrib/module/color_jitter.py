"""Random changes of brightness, contrast, saturation and hue of an image, as one affine map of its colours."""

import math
import random

import numpy as np
from torch import nn

__all__ = ["FusedColorJitter"]

_GREY = np.array([0.299, 0.587, 0.114])
# Colours of equal brightness lie in planes of this coordinate system (Y, I, Q); hue turns the last two axes.
_TO_YIQ = np.array([_GREY, [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
_FROM_YIQ = np.linalg.inv(_TO_YIQ)


class FusedColorJitter(nn.Module):
    """Strength 0 leaves a property as it is; else brightness, contrast and saturation are scaled by a factor from
    [1 - strength, 1 + strength], and hue turns by up to strength * 360 degrees. Takes a PIL image or an array [h, w, 3]."""

    def __init__(self, brightness=0, contrast=0, saturation=0, hue=0) -> None:
        super().__init__()
        for name, value in (("brightness", brightness), ("contrast", contrast), ("saturation", saturation)):
            if value < 0:
                raise ValueError(f"{name} must not be negative")
        if not 0 <= hue <= 0.5:
            raise ValueError("hue must be between 0 and 0.5")
        self.brightness, self.contrast, self.saturation, self.hue = brightness, contrast, saturation, hue

    def _map(self, mean: float):
        """(matrix, offset) of a random change, for an image of this mean brightness."""
        brightness, contrast, saturation = (
            random.uniform(max(0.0, 1 - s), 1 + s) for s in (self.brightness, self.contrast, self.saturation)
        )
        angle = random.uniform(-self.hue, self.hue) * 2 * math.pi
        turn = np.array([[1, 0, 0], [0, math.cos(angle), -math.sin(angle)], [0, math.sin(angle), math.cos(angle)]])
        saturate = saturation * np.eye(3) + (1 - saturation) * np.outer(np.ones(3), _GREY)
        matrix = _FROM_YIQ @ turn @ _TO_YIQ @ saturate * contrast * brightness
        return matrix, (1 - contrast) * brightness * mean

    def forward(self, img):
        pixels = np.asarray(img)
        matrix, offset = self._map(float((pixels @ _GREY).mean()))
        changed = np.clip(np.rint(pixels @ matrix.T + offset), 0, 255).astype(np.uint8)
        return changed if isinstance(img, np.ndarray) else _to_image(changed)


def _to_image(pixels):
    from PIL import Image

    return Image.fromarray(pixels)
