"""Efficient zero tensors, which have no memory: forward-mode differentiation makes them; the CPU is the reference."""

import pytest
import torch
from torch.autograd import forward_ad


def zeros(device, *shape, dtype=torch.float32):
    return torch._efficientzerotensor(shape, dtype=dtype, device=device)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool, torch.complex64])
@pytest.mark.parametrize("source, target", [("npu:0", "npu:0"), ("npu:1", "npu:0"), ("cpu", "npu:0"), ("npu:0", "cpu")])
def test_copies_of_them_write_zeros(source, target, dtype):
    out = torch.ones(3, 3, dtype=dtype, device=target)
    out.copy_(zeros(source, 3, 3))
    assert not out.any()
    out = torch.ones(3, 3, dtype=dtype, device=target)
    out[0] = zeros(target, 3)
    out.t()[1:].copy_(zeros(source, 3))
    assert out.real.to(torch.float32).tolist() == [[0, 0, 0], [1, 0, 0], [1, 0, 0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
@pytest.mark.parametrize("product", [torch.dot, torch.vdot])
def test_products_with_them_are_zero(product, dtype):
    zero, one = zeros("npu", 3, dtype=dtype), torch.ones(3, dtype=dtype, device="npu")
    for left, right in ((zero, one), (one, zero), (zero, zero)):
        assert product(left, right).item() == 0


def test_forward_over_reverse():
    def second(device):
        a = torch.full((3,), 2.0, device=device)
        return torch.func.jvp(torch.func.grad(lambda b: torch.lgamma(b.abs() + 1).sum()), (a,), (a,))[1]

    torch.testing.assert_close(second("npu").cpu(), second("cpu"))


def test_a_tangent_that_is_zero_is_copied():
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(3, device="npu"), torch.ones(3, device="npu"))
        out = torch.zeros(3, device="npu").copy_(dual.sign())
        assert forward_ad.unpack_dual(out).tangent.tolist() == [0, 0, 0]
