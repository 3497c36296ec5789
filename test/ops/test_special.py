"""Special functions where they are defined: OpInfo's first and last samples of them are not numbers on the CPU either."""

import pytest
import torch
from against_cpu import compare


@pytest.mark.parametrize("function", [torch.igamma, torch.igammac, torch.special.zeta], ids=lambda function: function.__name__)
def test_of_two_positive_numbers_equals_the_cpu(function):
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.rand(20, generator=generator) * 3 + low for low in (1.1, 0.1))
    assert function(first, second).isfinite().all()
    compare(function, first, second, rtol=1e-4, atol=1e-6)


def test_a_transform_over_no_dimensions_is_a_copy():
    x = torch.tensor([1 + 2j, 3.0], device="npu")
    y = torch.fft.fftn(x, dim=())
    assert torch.equal(x, y) and y.data_ptr() != x.data_ptr()
