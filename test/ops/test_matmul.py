"""torch.matmul of every combination of ranks, its gradients and theirs: one launch each, with the CPU's results."""

import itertools

import counters
import pytest
import torch
from torch.testing import assert_close

pytestmark = pytest.mark.skipif(not torch.npu.is_available(), reason="no npu is available")

SHAPES = [((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((3,), (5, 3, 4)), ((5, 2, 3), (3,)), ((5, 2, 3), (3, 4)),
          ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)), ((1, 2, 3), (5, 3, 4)), ((6, 1, 2, 3), (5, 3, 4)), ((6, 5, 2, 3), (6, 5, 3, 4)),
          ((2, 0), (0, 3)), ((0, 2, 3), (3, 4)), ((0, 2, 3), (0, 3, 4)), ((2, 3), (0, 3, 4)), ((2, 3), (3, 0)), ((0,), (0,))]


def names(shapes):
    return "x".join(str(list(shape)).replace(" ", "") for shape in shapes)


def operands(shapes, dtype=torch.float32, transposed=(False, False), grad=True):
    generator = torch.Generator().manual_seed(0)
    for shape, turned in zip(shapes, transposed):
        t = torch.randn(shape, dtype=dtype, generator=generator)
        cpu, npu = t.clone(), t.npu()
        if turned and len(shape) > 1:
            cpu, npu = cpu.mT.contiguous().mT, npu.mT.contiguous().mT
        yield cpu.detach().requires_grad_(grad), npu.detach().requires_grad_(grad)


@pytest.mark.parametrize("transposed", itertools.product((False, True), repeat=2), ids=lambda t: "".join("nt"[i] for i in t))
@pytest.mark.parametrize("shapes", SHAPES, ids=names)
def test_product_and_gradients(shapes, transposed):
    (a, x), (b, y) = operands(shapes, transposed=transposed)
    expected, actual = torch.matmul(a, b), torch.matmul(x, y)
    assert_close(actual.cpu(), expected)
    assert actual.is_contiguous()
    for wanted in ([0, 1], [0], [1]):
        grads = torch.autograd.grad(actual.square().sum(), [(x, y)[i] for i in wanted], retain_graph=True)
        truth = torch.autograd.grad(expected.square().sum(), [(a, b)[i] for i in wanted], retain_graph=True)
        for g, e in zip(grads, truth):
            assert_close(g.cpu(), e)


@pytest.mark.parametrize("shapes", SHAPES[:12], ids=names)
def test_gradients_can_be_differentiated(shapes):
    (a, x), (b, y) = operands(shapes)
    results = []
    for left, right in ((a, b), (x, y)):
        first = torch.autograd.grad(torch.matmul(left, right).pow(3).sum(), (left, right), create_graph=True)
        results.append([*first, *torch.autograd.grad(sum(g.square().sum() for g in first), (left, right))])
    for expected, actual in zip(*results):
        assert_close(actual.cpu(), expected, rtol=1e-3, atol=1e-3)


def test_conjugated_operands():
    (a, x), (b, y) = operands(((2, 3, 4), (4, 5)), torch.complex64)
    pairs = [(left.conj() @ (right.mH.mT * 1j), (left, right)) for left, right in ((a, b), (x, y))]
    assert_close(pairs[1][0].cpu(), pairs[0][0])
    grads = [torch.autograd.grad(result.abs().sum(), inputs) for result, inputs in pairs]
    for expected, actual in zip(*grads):
        assert_close(actual.cpu(), expected)


def launches(function):
    function()
    torch.npu.synchronize()
    with counters.Counted() as count:
        function()
        torch.npu.synchronize()
    return count.tasks


@pytest.mark.parametrize("shapes", SHAPES[:12], ids=names)
@pytest.mark.parametrize("guard", [torch.no_grad, torch.inference_mode, torch.enable_grad], ids=lambda g: g.__name__)
def test_one_launch(shapes, guard):
    (_, x), (_, y) = operands(shapes)
    with guard():
        assert launches(lambda: torch.matmul(x, y)) == 1


def test_a_linear_layer_makes_no_copies():
    """The gradient of a weight is dense in the weight's own layout."""
    layer, x = torch.nn.Linear(8, 6, bias=False).npu(), torch.randn(4, 3, 8).npu().requires_grad_()

    def step():
        layer.weight.grad = x.grad = None
        layer(x).backward(torch.ones(4, 3, 6, device="npu"))

    ones = launches(lambda: torch.ones(4, 3, 6, device="npu"))
    assert launches(step) == 3 + ones
    assert layer.weight.grad.is_contiguous()


def test_gradients_are_added_in_place():
    (_, x), (_, y) = operands(((4, 4), (4, 4)))
    grad = torch.autograd.grad((x @ y).sum(), x)[0]
    assert grad._base is None


def test_transforms_take_the_composition():
    (a, x), (b, y) = operands(((5, 2, 3), (3, 4)), grad=False)
    assert_close(torch.func.vmap(torch.matmul, (0, None))(x, y).cpu(), a @ b)
    tangent = torch.func.jvp(lambda t: t @ y, (x,), (x,))[1]
    assert_close(tangent.cpu(), a @ b)
    assert_close(torch.func.grad(lambda t: (t @ y).sum())(x).cpu(), torch.func.grad(lambda t: (t @ b).sum())(a))


@pytest.mark.parametrize("shapes, message", [(((2, 3), (4, 5)), "mat1 and mat2 shapes cannot be multiplied"),
                                             (((2, 2, 3), (3, 3, 4)), "must match the size|Expected size for first two dimensions"),
                                             (((), (3,)), "both arguments to matmul need to be at least 1D")])
def test_errors_are_upstreams(shapes, message):
    (_, x), (_, y) = operands(shapes)
    with pytest.raises(RuntimeError, match=message):
        torch.matmul(x, y)


def test_autocast():
    (a, x), (b, y) = operands(((4, 3), (3, 5)))
    with torch.autocast("npu", torch.float16):
        result = x @ y
    assert result.dtype == torch.float16
    grads = torch.autograd.grad(result.float().sum(), (x, y))
    for actual, expected in zip(grads, torch.autograd.grad((a @ b).sum(), (a, b))):
        assert actual.dtype == torch.float32
        assert_close(actual.cpu(), expected, rtol=1e-2, atol=1e-2)
