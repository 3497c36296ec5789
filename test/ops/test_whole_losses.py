"""Losses that the device computes in one call each way: results, gradients and theirs, against the CPU, and how many launches."""

import counters
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

pytestmark = pytest.mark.skipif(not torch.npu.is_available(), reason="no npu is available")

LOSSES = {"l1_loss": F.l1_loss, "kl_div": F.kl_div, "kl_div of logarithms": lambda *a, **k: F.kl_div(*a, **k, log_target=True),
          "cross entropy": F.binary_cross_entropy_with_logits}
WEIGHTS = {"weight": (3,), "pos_weight": (4, 3), "both": (1,)}


def inputs(count=2, dtype=torch.float32, shape=(4, 3)):
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(shape, generator=generator).add(0.1).to(dtype) for _ in range(count)]


def both(tensors, grad):
    """Leaves on the CPU and on the card."""
    return [[t.to(device).requires_grad_(g) for t, g in zip(tensors, grad)] for device in ("cpu", "npu")]


@pytest.mark.parametrize("grad", [(True, False), (False, True), (True, True)], ids=["input", "target", "both"])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("loss", LOSSES)
def test_results_and_gradients(loss, reduction, grad):
    results = []
    for leaves in both(inputs(), grad):
        result = LOSSES[loss](*leaves, reduction=reduction)
        first = torch.autograd.grad(result.exp().sum(), [t for t in leaves if t.requires_grad], create_graph=True)
        plain = torch.autograd.grad(LOSSES[loss](*leaves, reduction=reduction).exp().sum(), [t for t in leaves if t.requires_grad])
        again = torch.autograd.grad(sum(g.square().sum() for g in first), [t for t in leaves if t.requires_grad], allow_unused=True)
        results.append([result, *first, *plain, *(torch.zeros(4, 3) if g is None else g for g in again)])
    for expected, actual in zip(*results):
        assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_weights_of_classes(weights):
    shape, generator = WEIGHTS[weights], torch.Generator().manual_seed(1)
    given = {name: torch.rand(shape, generator=generator) for name in ("weight", "pos_weight") if weights in (name, "both")}
    results = []
    for leaves in both(inputs(), (True, True)):
        options = {name: t.to(leaves[0].device) for name, t in given.items()}
        result = F.binary_cross_entropy_with_logits(*leaves, **options)
        results.append([result, *torch.autograd.grad(result, leaves)])
    for expected, actual in zip(*results):
        assert_close(actual.cpu(), expected)


def launches(function):
    torch.npu.synchronize()
    with counters.Counted() as count:
        result = function()
        torch.npu.synchronize()
    return result, count.tasks


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("loss", LOSSES)
def test_one_launch_each_way(loss, dtype):
    x, target = inputs(dtype=dtype)
    x, target = x.npu().requires_grad_(), target.npu()
    LOSSES[loss](x, target, reduction="sum")
    result, count = launches(lambda: LOSSES[loss](x, target, reduction="sum"))
    one = torch.ones_like(result)
    (grad,), backward = launches(lambda: torch.autograd.grad(result, x, one))
    assert (count, backward) == (1, 1)
    assert grad.dtype == dtype


@pytest.mark.parametrize("loss", LOSSES)
def test_what_takes_the_composition(loss):
    """Transforms, float64 and nothing at all."""
    (a, b), (x, y) = both(inputs(), (False, False))
    assert_close(torch.func.vmap(LOSSES[loss])(x, y).cpu(), torch.func.vmap(LOSSES[loss])(a, b))
    tangents = [torch.func.jvp(lambda t, u=u: LOSSES[loss](t, u), (first,), (first,))[1] for first, u in ((a, b), (x, y))]
    assert_close(tangents[1].cpu(), tangents[0])
    assert_close(LOSSES[loss](x.double(), y.double()).cpu(), LOSSES[loss](a.double(), b.double()))
    assert_close(LOSSES[loss](x[:0], y[:0], reduction="sum").cpu(), LOSSES[loss](a[:0], b[:0], reduction="sum"))
