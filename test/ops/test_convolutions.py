"""Convolutions under names of their own: over time (conv_tbc), and of each channel on its own (_conv_depthwise2d)."""

import counters
import pytest
import torch
from torch.nn import functional as F

TYPES = {torch.float32: 1e-5, torch.float16: 8e-3, torch.bfloat16: 6e-2}
aten = torch.ops.aten


def close(actual, expected, dtype):
    torch.testing.assert_close(actual.cpu().float(), expected.float(), rtol=TYPES[dtype], atol=TYPES[dtype])


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("pad", [0, 1])
def test_a_convolution_over_time_and_its_gradients(dtype, pad):
    x, weight, bias = (torch.randn(*shape).to(dtype) for shape in ((7, 2, 3), (3, 3, 4), (4,)))
    plain = [t.float().requires_grad_() for t in (x, weight, bias)]
    expected = F.conv1d(plain[0].permute(1, 2, 0), plain[1].permute(2, 1, 0), plain[2], padding=pad).permute(2, 0, 1)
    ours = [t.npu().requires_grad_() for t in (x, weight, bias)]
    out = torch.conv_tbc(*ours, pad)
    close(out.detach(), expected.detach(), dtype)
    seed = torch.randn(expected.shape).to(dtype)
    for actual, wanted in zip(torch.autograd.grad(out, ours, seed.npu()), torch.autograd.grad(expected, plain, seed.float())):
        close(actual, wanted, dtype)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("kernels, stride, padding, dilation", [(4, [1, 1], [1, 1], [1, 1]), (8, [2, 1], [0, 1], [1, 2])])
def test_each_channel_on_its_own(dtype, kernels, stride, padding, dilation):
    """Upstream's formula for the gradient takes it for a convolution of one group: it has none to test."""
    x, weight, bias = (torch.randn(*shape).to(dtype) for shape in ((2, 4, 6, 5), (kernels, 1, 3, 2), (kernels,)))
    expected = F.conv2d(x.float(), weight.float(), bias.float(), stride, padding, dilation, 4)
    close(aten._conv_depthwise2d(x.npu(), weight.npu(), [3, 2], bias.npu(), stride, padding, dilation), expected, dtype)


@pytest.mark.parametrize("call", [
    lambda t: torch.conv_tbc(t(7, 2, 3), t(3, 3, 4), t(4), 1),
    lambda t: aten._conv_depthwise2d(t(2, 4, 6, 5), t(4, 1, 3, 2), [3, 2], None, [1, 1], [0, 0], [1, 1]),
])  # fmt: skip
def test_one_launch(call):
    made = {}
    call(lambda *shape: made.setdefault(shape, torch.randn(*shape).npu()))
    torch.npu.synchronize()
    with counters.Counted() as counted:
        call(lambda *shape: made[shape])
        torch.npu.synchronize()
    assert (counted.tasks, counted.d2h_copies, counted.h2d_copies) == (1, 0, 0)


@pytest.mark.parametrize("call, message", [
    (lambda t: torch.conv_tbc(t(7, 2, 3), t(3, 4, 4), t(4), 1), "Input dim 2 .input channels. is not == dim 1 in the weight tensor"),
    (lambda t: torch.conv_tbc(t(7, 2, 3), t(3, 3, 4), t(3), 1), "Bias size must equal dim 2 in the weight tensor"),
    (lambda t: aten._conv_depthwise2d(t(2, 4, 6, 5), t(4, 2, 3, 2), [3, 2], None, [1, 1], [0, 0], [1, 1]),
        "_conv_depthwise2d: weight of shape .4, 2, 3, 2. does not fit"),
    (lambda t: aten._conv_depthwise2d(t(2, 4, 6, 5), t(4, 1, 3, 2), [3, 3], None, [1, 1], [0, 0], [1, 1]),
        "_conv_depthwise2d: weight of shape .4, 1, 3, 2. does not fit kernel_size .3, 3."),
])  # fmt: skip
def test_shapes_that_do_not_fit_are_refused(call, message):
    with pytest.raises(RuntimeError, match=message):
        call(lambda *shape: torch.ones(*shape).npu())
