"""interpolate with a scale of its own for each dimension, none of which is the quotient of the sizes: what a kernel that reads no
scale, or that of another dimension, computes from the sizes is something else.
"""

import pytest
import torch
import torch.nn.functional as F
from against_cpu import compare

SIZES, SCALES = (5, 6, 7), (1.7, 2.3, 1.5)
NEAREST = [(mode, dims, None, False) for mode in ("nearest", "nearest-exact") for dims in (1, 2, 3)]
LINEAR = [(mode, dims, align, False) for mode, dims in (("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3))
          for align in (False, True)]
SMOOTH = [(mode, 2, align, True) for mode in ("bilinear", "bicubic") for align in (False, True)]


def interpolate(x, mode, dims, align, smooth, **sizes):
    return F.interpolate(x, mode=mode, align_corners=align, antialias=smooth, **sizes)


@pytest.mark.parametrize(("mode", "dims", "align", "smooth"), NEAREST + LINEAR + SMOOTH)
@pytest.mark.parametrize("order", [1, -1])
def test_scales_of_each_dimension(mode, dims, align, smooth, order):
    image = torch.randn(2, 3, *SIZES[:dims], generator=torch.Generator().manual_seed(0))
    scales = SCALES[:dims][::order]
    scaled = interpolate(image, mode, dims, align, smooth, scale_factor=scales)
    if not align:  # with corners aligned the scales give the sizes alone
        assert not torch.allclose(scaled, interpolate(image, mode, dims, align, smooth, size=scaled.shape[2:]))
    compare(lambda x: interpolate(x, mode, dims, align, smooth, scale_factor=scales), image, gradients=True, rtol=1e-4, atol=1e-5)
