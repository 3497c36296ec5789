"""float16 products add up in float32: sums that float16 cannot count to come out exact."""

import pytest
import torch
from torch.nn import functional as F

TERMS = 4096  # ones; float16 stops counting at 2048


def ones(*sizes):
    return torch.ones(sizes, dtype=torch.float16, device="npu")


@pytest.mark.parametrize("result", [
    pytest.param(lambda: ones(4, TERMS) @ ones(TERMS, 3), id="mm"),
    pytest.param(lambda: torch.bmm(ones(2, 4, TERMS), ones(2, TERMS, 3)), id="bmm"),
    pytest.param(lambda: torch.mv(ones(4, TERMS), ones(TERMS)), id="mv"),
    pytest.param(lambda: torch.addmm(ones(3) * 0, ones(4, TERMS), ones(TERMS, 3)), id="addmm"),
    pytest.param(lambda: (ones(4, 3) * 0).addmm_(ones(4, TERMS), ones(TERMS, 3)), id="addmm_"),
    pytest.param(lambda: torch.baddbmm(ones(1) * 0, ones(2, 4, TERMS), ones(2, TERMS, 3)), id="baddbmm"),
    pytest.param(lambda: F.linear(ones(4, TERMS), ones(3, TERMS)), id="linear"),
    pytest.param(lambda: F.conv2d(ones(1, 16, 16, 16), ones(2, 16, 16, 16)), id="conv2d"),
])
def test_sums(result):
    value = result()
    assert value.dtype == torch.float16
    torch.testing.assert_close(value, torch.full_like(value, TERMS), rtol=0, atol=0)


@pytest.mark.parametrize("function, sizes", [
    (torch.addbmm, [(16, 16), (32, 16, 32), (32, 32, 16)]),
    (F.conv_transpose2d, [(2, 16, 16, 16), (16, 8, 3, 3)]),
], ids=["addbmm", "conv_transpose2d"])
def test_one_rounding(function, sizes):
    generator = torch.Generator().manual_seed(0)
    operands = [torch.randn(size, generator=generator).half() for size in sizes]
    exact = function(*(t.double() for t in operands))
    ours = function(*(t.npu() for t in operands))
    assert ours.dtype == torch.float16
    torch.testing.assert_close(ours.double().cpu(), exact, rtol=2**-10, atol=1e-4)


def test_gradients_of_a_convolution():
    x, weight = ones(1, 4, 66, 66).requires_grad_(), ones(1, 4, 3, 3).requires_grad_()
    F.conv2d(x, weight).sum().backward()
    torch.testing.assert_close(weight.grad, torch.full_like(weight, 64 * 64), rtol=0, atol=0)
    assert x.grad.dtype == torch.float16 and x.grad[0, 0, 32, 32].item() == 9


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal):
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, 4, 64, 16, generator=generator).half() for _ in range(3))

    def run(device, dtype):
        tensors = [t.to(device, dtype).requires_grad_() for t in (query, key, value)]
        out = F.scaled_dot_product_attention(*tensors, is_causal=causal)
        out.square().sum().backward()
        return [out, *(t.grad for t in tensors)]

    for ours, exact in zip(run("npu", torch.float16), run("cpu", torch.float64)):
        assert ours.dtype == torch.float16
        torch.testing.assert_close(ours.double().cpu(), exact, rtol=4e-3, atol=4e-3)
