"""Operators that are compositions of others and have no OpInfo: results, and what they refuse, against the CPU without its fallback."""

import pytest
import torch
import torch.nn.functional as F
from against_cpu import compare, refuses_alike

pytestmark = pytest.mark.skipif(not torch.npu.is_available(), reason="no npu is available")
aten = torch.ops.aten


def test_add_relu():
    a, b = torch.randn(5, 3), torch.randn(5, 3)
    compare(lambda x, y: torch._add_relu(x, y, alpha=2), a, b)
    compare(lambda x: torch._add_relu(x, 0.3), a)
    compare(torch._add_relu_, a, b)
    compare(lambda x: torch._add_relu_(x, 0.3), a)
    compare(lambda x, y: torch._add_relu(x, y, out=torch.empty_like(x)), a, b)


@pytest.mark.parametrize("function", [lambda x: x - True, lambda x: x.sub_(True), lambda x: True - x,
                                      lambda x: torch._foreach_sub([x], True), lambda x: torch._foreach_sub_([x], True),
                                      lambda x: torch._foreach_sub([x, x], [1, True])],
                         ids=["sub", "sub_", "rsub", "foreach", "foreach_", "foreach, a list"])  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_nothing_is_subtracted_from_or_by_a_truth(function, dtype):
    refuses_alike(function, torch.ones(3, dtype=dtype))


def test_linear_combination():
    compare(aten._compute_linear_combination, torch.randn(3, 2, 5), torch.randn(4, 3), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("a, b", [((2, 4, 5), (3, 5)), ((4, 5), (2, 3, 5)), ((2, 1, 4, 5), (3, 3, 5)), ((0, 4, 5), (3, 5)),
                                  ((2, 4, 5), (1, 3, 5))])  # fmt: skip
@pytest.mark.parametrize("p", [0.0, 1.5, 2.0])
def test_gradient_of_distances_between_batches_of_other_shapes(a, b, p):
    def gradients(x, y):
        x, y = x.detach().requires_grad_(), y.detach().requires_grad_()
        return torch.autograd.grad(torch.cdist(x, y, p=p).sum(), [x, y])

    compare(gradients, torch.randn(a), torch.randn(b), rtol=1e-5, atol=1e-5)


def test_ctc_loss_with_lengths_on_the_card():
    log_probs, targets = torch.randn(10, 2, 5).log_softmax(2), torch.randint(1, 5, (2, 4))
    lengths = torch.tensor([10, 9]), torch.tensor([4, 3])
    compare(lambda *args: torch._ctc_loss(*args)[0], log_probs, targets, *lengths)

    def gradient(log_probs, *rest):
        log_probs.requires_grad_()
        F.ctc_loss(log_probs, *rest).backward()
        return log_probs.grad

    compare(gradient, log_probs, targets, *lengths)


def test_statistics_of_a_batch():
    x = torch.randn(4, 3, 5)
    compare(lambda *args: torch.batch_norm_update_stats(*args, 0.1), x, torch.zeros(3), torch.ones(3), rtol=1e-5, atol=1e-6)
    compare(lambda x: torch.batch_norm_update_stats(x, None, None, 0.1), x.half(), rtol=1e-2, atol=1e-3)

    def into(x, *args):
        out = [torch.empty(0, device=x.device) for _ in range(3)]
        reserve = torch.empty(0, device=x.device, dtype=torch.uint8)
        aten._batch_norm_with_update.out(x, *args, 0.1, 1e-5, out=out[0], save_mean=out[1], save_invstd=out[2], reserve=reserve)
        return tuple(out)

    compare(into, x, torch.rand(3), torch.rand(3), torch.zeros(3), torch.ones(3), rtol=1e-5, atol=1e-5)


def test_assertion_with_a_token():
    compare(lambda x, token: aten._functional_assert_async.msg(x, "no", token), torch.tensor(1), torch.empty(0))
    got, _ = compare(lambda x, token: aten._functional_assert_async.msg(x, "this is wrong", token), torch.tensor(0), torch.empty(0))
    assert "this is wrong" in str(got)
    assert torch._make_dep_token(device="npu").is_npu and torch._make_dep_token().is_cpu


WHOLE, ROWS, BLOCKS = 0, 1, 3  # torch.nn.functional.ScalingType
ONE, LEFT, RIGHT = torch.tensor(0.5), torch.rand(32, 1), torch.rand(1, 48)


@pytest.mark.parametrize("scales", [([ONE], WHOLE, [ONE], WHOLE), ([LEFT], ROWS, [RIGHT], ROWS)], ids=["whole", "rows"])
@pytest.mark.parametrize("bias", [None, torch.randn(48)], ids=["no bias", "bias"])
def test_products_of_float8(scales, bias):
    a, b = torch.randn(32, 64).to(torch.float8_e4m3fn), torch.randn(48, 64).to(torch.float8_e4m3fn).t()
    scale_a, recipe_a, scale_b, recipe_b = scales
    compare(lambda a, b, sa, sb, bias: aten._scaled_mm_v2(a, b, sa, [recipe_a], [0], sb, [recipe_b], [0], bias, torch.bfloat16),
            a, b, scale_a, scale_b, bias, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("scales", [([LEFT], ROWS, [ONE], WHOLE), ([LEFT], BLOCKS, [RIGHT], BLOCKS), ([LEFT, LEFT], ROWS, [RIGHT], ROWS),
                                    ([RIGHT], ROWS, [RIGHT], ROWS), ([LEFT], WHOLE, [ONE], WHOLE)],
                         ids=["mixed", "blocks", "two", "shape", "not one"])
def test_scales_that_do_not_fit(scales):
    a, b = torch.ones(32, 64).to(torch.float8_e4m3fn), torch.ones(48, 64).to(torch.float8_e4m3fn).t()
    scale_a, recipe_a, scale_b, recipe_b = scales
    got, _ = compare(lambda a, b, sa, sb: aten._scaled_mm_v2(a, b, sa, [recipe_a], [0], sb, [recipe_b], [0], None, torch.bfloat16),
                     a, b, scale_a, scale_b)
    assert "scale_a" in str(got)


@pytest.mark.parametrize("layout", [None, torch.sparse_csr, torch.sparse_csc])
def test_diagonals(layout):
    compare(lambda d, o: torch.sparse.spdiags(d, o, (3, 4), layout), torch.arange(9).reshape(3, 3), torch.tensor([0, -1, 2]))
    compare(lambda d, o: torch.sparse.spdiags(d, o, (5, 2), layout), torch.ones(3), torch.tensor(1))


@pytest.mark.parametrize("arguments", [
    (torch.ones(2, 3), torch.tensor([0, 0]), (3, 3)),
    (torch.ones(2, 3), torch.tensor([0.0, 1.0]), (3, 3)),
    (torch.ones(2, 3), torch.tensor([0]), (3, 3)),
    (torch.ones(2, 3), torch.tensor([0, 1]), (3,)),
    (torch.ones(2, 3, 1), torch.tensor([0, 1]), (3, 3)),
    (torch.ones(2, 3), torch.tensor([0, 1]), (3, 3), torch.sparse_bsr),
], ids=["twice", "type", "number", "shape", "rank", "layout"])
def test_diagonals_that_do_not_fit(arguments):
    refuses_alike(torch.sparse.spdiags, *arguments)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize("by_rows", [True, False])
@pytest.mark.parametrize("ends, inner, good", [
    ([0, 1, 2], [0, 1], True), ([0, 2, 2], [0, 1], True), ([0, 0, 2], [0, 1], True), ([[0, 1, 2], [0, 2, 2]], [[1, 0], [0, 1]], True),
    ([1, 2, 3], [0, 1], False), ([0, 1, 3], [0, 1], False), ([0, 3, 2], [0, 1], False), ([0, -1, 2], [0, 1], False),
    ([0, 1, 2], [0, 5], False), ([0, 2, 2], [1, 0], False), ([0, 2, 2], [1, 1], False), ([[0, 1, 2], [0, 2, 2]], [[0, 1], [1, 0]], False),
], ids=str)
def test_invariants_of_compressed_indices(dtype, by_rows, ends, inner, good):
    check = compare if good else refuses_alike
    check(lambda a, b: torch._validate_compressed_sparse_indices(by_rows, a, b, 2, 2, 2), torch.tensor(ends, dtype=dtype),
          torch.tensor(inner, dtype=dtype))
