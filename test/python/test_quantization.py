"""Quantised tensors and quantisation while training, against the CPU."""

import pytest
import torch
from torch.ao.quantization import FusedMovingAvgObsFakeQuantize, MovingAveragePerChannelMinMaxObserver

pytestmark = pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor, torch.quantize_per_channel:UserWarning")
QUANTIZED = [torch.qint8, torch.quint8, torch.qint32]
LIMITS = (-128, 127)


def values(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def same(quantized, expected):
    assert quantized.device.type == "npu" and quantized.is_quantized and quantized.dtype == expected.dtype
    assert torch.equal(quantized.int_repr().cpu(), expected.int_repr())
    torch.testing.assert_close(quantized.dequantize().cpu(), expected.dequantize())


@pytest.mark.parametrize("dtype", QUANTIZED)
def test_per_tensor(dtype):
    x = values(4, 6)
    expected, ours = torch.quantize_per_tensor(x, 0.05, 3, dtype), torch.quantize_per_tensor(x.npu(), 0.05, 3, dtype)
    same(ours, expected)
    assert (ours.q_scale(), ours.q_zero_point(), ours.qscheme()) == (0.05, 3, torch.per_tensor_affine)
    same(torch.quantize_per_tensor(x.npu(), torch.tensor(0.05).npu(), torch.tensor(3).npu(), dtype), expected)
    same(ours.clone(), expected)
    same(ours.view(6, 4), expected.view(6, 4))
    same(ours[1:3], expected[1:3])
    same(expected.npu(), expected)
    assert torch.equal(ours.cpu().int_repr(), expected.int_repr())
    assert "quantization_scheme" in str(ours)


@pytest.mark.parametrize("dtype", QUANTIZED)
def test_per_channel(dtype):
    x, scales, zeros = values(4, 6), values(6).abs() + 0.1, torch.arange(6)
    expected = torch.quantize_per_channel(x, scales, zeros, 1, dtype)
    ours = torch.quantize_per_channel(x.npu(), scales.npu(), zeros.npu(), 1, dtype)
    same(ours, expected)
    assert torch.equal(ours.q_per_channel_scales().cpu(), expected.q_per_channel_scales()) and ours.q_per_channel_axis() == 1
    assert torch.equal(ours.cpu().int_repr(), expected.int_repr())


@pytest.mark.parametrize("dtype", [torch.qint8, torch.quint8])
def test_per_channel_with_real_zero_points(dtype):
    x, scales, zeros = values(4, 6), values(6).abs() + 0.1, torch.linspace(-2, 2, 6)
    expected = torch.quantize_per_channel(x, scales, zeros, 1, dtype)
    same(torch.quantize_per_channel(x.npu(), scales.npu(), zeros.npu(), 1, dtype), expected)


def test_flip():
    values, scales, zeros = torch.arange(6.0).view(2, 3), torch.tensor([0.5, 1.0]), torch.tensor([0, 1])
    npu, cpu = (torch.quantize_per_tensor(t, 0.5, 1, torch.quint8).flip(1) for t in (values.npu(), values))
    assert npu.is_npu and torch.equal(npu.cpu().int_repr(), cpu.int_repr())
    channels = torch.quantize_per_channel(values.npu(), scales, zeros, 0, torch.qint8)  # upstream's CPU refuses these
    assert torch.equal(channels.flip(1).dequantize().cpu(), values.flip(1))


def test_scale_by_the_values():
    x = values(5, 5)
    same(torch.quantize_per_tensor_dynamic(x.npu(), torch.qint8, False), torch.quantize_per_tensor_dynamic(x, torch.qint8, False))


def both(function, *inputs):
    """Results and gradients on the CPU and on the npu."""
    sides = []
    for device in ("cpu", "npu"):
        moved = [t.to(device, copy=True).requires_grad_(t.is_floating_point()) for t in inputs]
        out = function(*moved)
        leaves = [t for t in moved if t.requires_grad]
        gradients = torch.autograd.grad(out, leaves, values(*out.shape, seed=3).to(device), allow_unused=True)
        sides.append([out, *(g for g in gradients if g is not None)])
    assert len(sides[0]) == len(sides[1]) > 1
    for expected, ours in zip(*sides):
        torch.testing.assert_close(ours.cpu(), expected)


def test_rounding_to_a_grid():
    x = values(4, 6) * 8
    scales, zeros = values(6).abs() * 0.05 + 0.01, torch.arange(6, dtype=torch.int32)
    both(lambda t: torch.fake_quantize_per_tensor_affine(t, 0.05, 2, *LIMITS), x)
    both(lambda t: torch.fake_quantize_per_tensor_affine(t, torch.tensor(0.05, device=t.device),
                                                         torch.tensor(2, dtype=torch.int32, device=t.device), *LIMITS), x)
    both(lambda t: torch.fake_quantize_per_channel_affine(t, scales.to(t.device), zeros.to(t.device), 1, *LIMITS), x)
    with pytest.raises(RuntimeError, match="zero_point"):
        torch.fake_quantize_per_tensor_affine(x.npu(), 0.1, 300, *LIMITS)
    with pytest.raises(RuntimeError, match="not consistent"):
        torch.fake_quantize_per_channel_affine(x.npu(), scales[:2].npu(), zeros[:2].npu(), 1, *LIMITS)


def test_learnt_scale_and_zero_point():
    x = values(4, 6) * 8
    both(lambda t, s, z: torch._fake_quantize_learnable_per_tensor_affine(t, s, z, *LIMITS, 0.5), x, torch.tensor([0.05]),
         torch.tensor([2.3]))
    both(lambda t, s, z: torch._fake_quantize_learnable_per_channel_affine(t, s, z, 1, *LIMITS, 0.5), x, values(6).abs() * 0.05 + 0.01,
         torch.arange(6.0) + 0.2)


@pytest.mark.parametrize("options", [
    {}, {"qscheme": torch.per_tensor_symmetric, "quant_min": -128, "quant_max": 127, "dtype": torch.qint8},
    {"observer": MovingAveragePerChannelMinMaxObserver, "qscheme": torch.per_channel_symmetric, "quant_min": -128, "quant_max": 127,
     "dtype": torch.qint8, "ch_axis": 0},
], ids=["affine", "symmetric", "per channel"])
def test_observer_and_grid_in_one(options):
    sides = [FusedMovingAvgObsFakeQuantize(**options).to(device) for device in ("cpu", "npu")]
    for step in range(4):
        if step == 3:
            for side in sides:
                side.disable_observer()
        x = values(3, 4, seed=step) * (step + 1)
        expected, ours = sides[0](x), sides[1](x.npu())
        torch.testing.assert_close(ours.cpu(), expected)
        for name in ("scale", "zero_point"):
            torch.testing.assert_close(getattr(sides[1], name).cpu(), getattr(sides[0], name))
    for side in sides:
        side.disable_fake_quant()
    assert torch.equal(sides[1](x.npu()).cpu(), x)


def test_products_of_narrow_numbers():
    a, b = (torch.randint(-128, 128, (20, 20), generator=torch.Generator().manual_seed(i), dtype=torch.int8) for i in range(2))
    assert torch.equal(torch._int_mm(a.npu(), b.npu()).cpu(), a.int() @ b.int())
    eighths = [values(16, 16, seed=i).to(torch.float8_e4m3fn) for i in range(2)]
    scales = [torch.tensor(0.5), torch.tensor(2.0)]
    ours = torch._scaled_mm(eighths[0].npu(), eighths[1].npu().t(), *(s.npu() for s in scales), out_dtype=torch.float32)
    torch.testing.assert_close(ours.cpu(), eighths[0].float() @ eighths[1].float().t())
