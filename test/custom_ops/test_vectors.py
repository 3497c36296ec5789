"""The vector loops of softnpu/kernels/engine/rows.h: short numbers are read and rounded as torch does, exponentials are exact enough."""

import os
import subprocess
import sys

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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_gates_are_exact_and_vanish_far_below_zero(dtype):
    gate = torch.cat([torch.linspace(-80, 80, 4001), torch.tensor([-1000.0, -89.0, 89.0, 1000.0])]).to(dtype)
    x = torch.stack([gate, torch.ones_like(gate)]).view(1, -1)
    expected = torch.nn.functional.silu(gate.double()).to(dtype)
    torch.testing.assert_close(torch.ops.npu.npu_swiglu(x.npu()).cpu()[0], expected, rtol=torch.finfo(dtype).eps * 4, atol=1e-30)


@pytest.mark.parametrize("capability", ["default", "avx2"])
def test_other_instruction_sets_agree_with_torch(capability):
    script = """
import torch, torch_npu
npu = torch.ops.npu
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    x, other = torch.randn(5, 74, dtype=dtype), torch.randn(5, 74, dtype=dtype)
    wide = x.float()
    first, second = wide.chunk(2, -1)
    pairs = torch.stack([-wide[:, 1::2], wide[:, ::2]], -1).flatten(-2)
    total = (x + other).float()
    mask = torch.rand(5, 74) > 0.5
    for actual, expected in (
        (npu.npu_swiglu(x.npu()), torch.nn.functional.silu(first) * second),
        (npu.npu_rotary_mul(x.npu(), other.npu(), other.npu()), (wide + torch.cat([-second, first], -1)) * other.float()),
        (npu.npu_rotary_mul(x.npu(), other.npu(), other.npu(), "interleave"), (wide + pairs) * other.float()),
        (npu.npu_add_rms_norm(x.npu(), other.npu(), x[0].npu(), 1e-6)[0], torch.rms_norm(total, [74], x[0].float(), 1e-6)),
        (npu.npu_scaled_masked_softmax(x.npu(), mask.npu()), wide.masked_fill(mask, -10000.0).softmax(-1)),
    ):
        torch.testing.assert_close(actual.cpu(), expected.to(dtype))
"""
    environment = os.environ | {"ATEN_CPU_CAPABILITY": capability}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
