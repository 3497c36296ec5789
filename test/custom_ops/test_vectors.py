"""The vector loops of softnpu/kernels/engine/rows.h: short numbers are read and rounded as torch does, exponentials are exact enough."""

import pytest
import torch

TYPES = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)


def first_halves(x, factors):
    """x * factors, in rows of 64 whose second half is zero: a rotation by cosines alone."""
    zeros = torch.zeros_like(x)
    turned = torch.ops.npu.npu_rotary_mul(torch.cat([x, zeros], 1).npu(), torch.cat([factors, factors], 1).npu(), torch.zeros(64).npu())
    return turned.cpu()[:, :32]


@TYPES
def test_every_number_passes_through(dtype):
    numbers = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int16).view(dtype).view(-1, 32)
    actual = first_halves(numbers, torch.ones(numbers.shape))
    torch.testing.assert_close(actual, numbers, rtol=0, atol=0, equal_nan=True)


@TYPES
def test_products_are_rounded_as_torch_rounds(dtype):
    generator = torch.Generator().manual_seed(0)
    numbers = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int16).view(dtype).view(-1, 32)
    factors = torch.randn(numbers.shape, generator=generator) * 2.0 ** torch.randint(-20, 20, numbers.shape, generator=generator)
    expected = (numbers.float() * factors).to(dtype)
    torch.testing.assert_close(first_halves(numbers, factors), expected, rtol=0, atol=0, equal_nan=True)


def test_exponentials_are_exact_to_a_few_units():
    x = -torch.linspace(0, 86, 4000).view(8, 500)
    x[:, 0] = 0
    actual = torch.ops.npu.npu_scaled_masked_softmax(x.npu(), torch.zeros(1, 1, dtype=torch.bool).npu()).cpu()
    torch.testing.assert_close(actual.double(), torch.softmax(x.double(), -1), rtol=1e-6, atol=0)


@pytest.mark.parametrize("value, masked", [(float("nan"), False), (float("inf"), False), (-float("inf"), False), (float("inf"), True)])
def test_infinities_are_those_of_torch(value, masked):
    x, mask = torch.randn(2, 40), torch.zeros(2, 40, dtype=torch.bool)
    x[0, 7], mask[0, 7] = value, masked
    actual = torch.ops.npu.npu_scaled_masked_softmax(x.npu(), mask.npu()).cpu()
    torch.testing.assert_close(actual, torch.softmax(x.masked_fill(mask, -10000.0), -1), equal_nan=True)
