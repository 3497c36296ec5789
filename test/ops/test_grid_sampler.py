"""grid_sample with every pair of its modes: they are numbers to the device, and easily taken for each other."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from against_cpu import compare

INTERPOLATION = {2: ("bilinear", "nearest", "bicubic"), 3: ("bilinear", "nearest")}
CASES = [case for dims, modes in INTERPOLATION.items()
         for case in itertools.product([dims], modes, ("zeros", "border", "reflection"), (False, True))]


@pytest.mark.parametrize(("dims", "mode", "padding", "align"), CASES)
def test_equals_the_cpu(dims, mode, padding, align):
    generator = torch.Generator().manual_seed(0)
    image = torch.randn(2, 3, *[5] * dims, generator=generator)
    grid = torch.randn(2, *[4] * dims, dims, generator=generator)  # some points lie outside
    compare(lambda x, g: F.grid_sample(x, g, mode, padding, align), image, grid, gradients=True, rtol=1e-4, atol=1e-5)
