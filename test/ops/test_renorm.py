"""renorm: its gradient, which upstream computes in float64, in the type of the input; values, gradients of gradients and transforms."""

import pytest
import torch

CASES = [(2, 0, 1.0), (1, 1, 2.5), (float("inf"), 0, 0.7), (3, -1, 1.5), (0.5, 0, 4.0), (2, 1, 100.0)]


def of(x, weight, device, inplace, p, dim, maxnorm):
    leaf = x.to(device).detach().requires_grad_()
    y = leaf.clone().renorm_(p, dim, maxnorm) if inplace else leaf.renorm(p, dim, maxnorm)
    y.backward(weight.to(device))
    return y.detach().cpu(), leaf.grad.cpu()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.complex64])
@pytest.mark.parametrize(("p", "dim", "maxnorm"), CASES)
@pytest.mark.parametrize("strided", [False, True])
def test_value_and_gradient(dtype, p, dim, maxnorm, strided):
    """Of narrow types the CPU's in float32: its own rounds on the way."""
    torch.manual_seed(0)
    x, weight = torch.randn(4, 6, dtype=dtype), torch.randn(4, 6, dtype=dtype)
    x[0, 0] = 0  # whose norm has no derivative for p < 1
    if strided:
        x, weight = x.t().contiguous().t(), weight.t().contiguous().t()
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    value, gradient = of(x.to(wide), weight.to(wide), "cpu", False, p, dim, maxnorm)
    for inplace in (False, True):
        found = of(x, weight, "npu", inplace, p, dim, maxnorm)
        torch.testing.assert_close(found[0], value.to(dtype))
        if dtype != torch.complex64 or p != float("inf"):  # whose gradient is nan on the CPU
            torch.testing.assert_close(found[1], gradient.to(dtype))


def test_the_gradient_of_a_gradient():
    x = torch.randn(3, 4, dtype=torch.float64).npu().requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: x.renorm(2, 0, 0.5), (x,))
    assert torch.autograd.gradcheck(lambda x: x.renorm(3, 1, 0.5), (x,), check_forward_ad=True)


def test_transforms_see_a_differentiable_composition():
    x = torch.randn(3, 4)

    def f(x):
        return x.renorm(2, 0, 0.5).sum()

    torch.testing.assert_close(torch.func.grad(f)(x.npu()).cpu(), torch.func.grad(f)(x))
    batch = torch.randn(2, 3, 4)
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(f))(batch.npu()).cpu(), torch.func.vmap(torch.func.grad(f))(batch))


@pytest.mark.parametrize("differentiated", [False, True])
def test_a_vector_is_refused(differentiated):
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        torch.ones(3).npu().requires_grad_(differentiated).renorm(2, 0, 1.0)
