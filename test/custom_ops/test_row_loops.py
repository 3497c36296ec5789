"""Kernels that go through a row in vector registers, at widths with and without an end that fills no register; against plain torch."""

import pytest
import torch

import torch_npu

WIDTHS = (1, 7, 16, 31, 32, 33, 100)
TYPES = (torch.float32, torch.float16, torch.bfloat16)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("smoothed", [False, True])
def test_rows_are_quantised_by_their_largest_magnitude(dtype, smoothed):
    for width in WIDTHS:
        x = (torch.randn(5, width, generator=torch.Generator().manual_seed(width)) * 4).to(dtype)
        x[1] = 0  # has the scale 0
        smooth = torch.rand(width, generator=torch.Generator().manual_seed(1)).to(dtype) + 0.5 if smoothed else None
        numbers = x.float() if smooth is None else x.float() * smooth.float()
        scale = numbers.abs().amax(-1) / 127
        expected = (numbers / torch.where(scale == 0, 1.0, scale).unsqueeze(-1)).round().to(torch.int8)
        quantised, scales = torch_npu.npu_dynamic_quant(x.npu(), smooth_scales=None if smooth is None else smooth.npu())
        assert torch.equal(quantised.cpu(), expected)
        assert torch.equal(scales.cpu(), scale)


@pytest.mark.parametrize("experts", [4, 40])
def test_equal_and_strange_logits_are_chosen_in_the_order_of_a_stable_sort(experts):
    """With few and with many chosen experts, which are found in different ways."""
    x = torch.randint(-2, 3, (64, experts), generator=torch.Generator().manual_seed(0)).float()
    x[::3, 0], x[::4, 1], x[::5, 2], x[::6, 3] = torch.nan, torch.inf, -torch.inf, -0.0
    order = torch.sort(x, dim=-1, descending=True, stable=True).indices
    for k in range(1, experts + 1):
        _, chosen, _ = torch_npu.npu_moe_gating_top_k_softmax(x.npu(), None, k)
        assert torch.equal(chosen.cpu().long(), order[:, :k])
