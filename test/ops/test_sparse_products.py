"""Sparse tensors where both operands, or the result, are sparse: products, slices, softmax, masks and sums with their gradients."""

import pytest
import torch
from against_cpu import compare, refuses_alike

pytestmark = pytest.mark.skipif(not torch.npu.is_available(), reason="no npu is available")
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def sparse(*shape, density=0.4, sparse_dim=None, coalesced=True, seed=0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    dense = torch.randn(*shape, generator=generator) * (torch.rand(*shape, generator=generator) < density)
    t = dense.to_sparse(sparse_dim or dense.dim())
    if coalesced:
        return t
    indices, values = t._indices(), t._values()
    return torch.sparse_coo_tensor(torch.cat([indices, indices.flip(1)], 1), torch.cat([values, values.flip(0)]), t.shape)


@pytest.fixture(params=[True, False], ids=["coalesced", "uncoalesced"])
def coalesced(request):
    return request.param


def test_matrix_products(coalesced):
    left, right = sparse(5, 7, coalesced=coalesced), sparse(7, 4, coalesced=coalesced)
    compare(torch.sparse.mm, left, right, gradients=True, **CLOSE)
    compare(torch.sparse.mm, left.double(), right.double(), **CLOSE)
    compare(torch.sparse.mm, left.to(torch.complex64), right.to(torch.complex64), **CLOSE)
    compare(torch.sparse.mm, sparse(5, 7, density=0), right)
    compare(torch.hspmm, left, torch.randn(7, 3), **CLOSE)
    compare(torch.smm, left, torch.randn(7, 3), **CLOSE)
    compare(lambda a, b, c: torch.sspaddmm(a, b, c, beta=2, alpha=3), sparse(5, 3), left, torch.randn(7, 3), **CLOSE)


def test_batches_of_products(coalesced):
    compare(torch.bmm, sparse(3, 4, 5, coalesced=coalesced), torch.randn(3, 5, 2), gradients=True, **CLOSE)
    compare(torch.bmm, sparse(3, 4, 5, density=0), torch.randn(3, 5, 2))


@pytest.mark.parametrize("operands", [
    (torch.sparse.mm, sparse(5, 7), sparse(5, 7)),
    (torch.sparse.mm, sparse(5, 7), sparse(7, 4).double()),
    (torch.bmm, sparse(3, 4, 5), torch.ones(3, 4, 1)),
    (torch.bmm, sparse(3, 4, 5), torch.ones(1, 5, 1)),
    (torch.bmm, sparse(3, 4, 5), sparse(3, 5, 4)),
    (torch.bmm, sparse(3, 4), torch.ones(3, 4, 1)),
    (torch.hspmm, sparse(5, 7), torch.ones(2, 2)),
    (torch.hspmm, sparse(5, 7), torch.ones(7)),
    (torch.sspaddmm, sparse(3, 3), sparse(5, 7), torch.ones(7, 2)),
    (torch.smm, sparse(5, 7), torch.ones(2, 2)),
], ids=lambda o: o[0].__name__)
def test_products_that_do_not_fit(operands):
    refuses_alike(*operands)


@pytest.mark.parametrize("index", [[2, 0, 2], [], [-1, 1], [0]], ids=str)
def test_selected_slices(coalesced, index):
    index = torch.tensor(index, dtype=torch.int64)
    for t in (sparse(5, 7, coalesced=coalesced), sparse(4, 5, 3, sparse_dim=2)):
        for dim in range(t.sparse_dim() if -1 in index else t.dim()):  # dense dimensions take no negative numbers
            compare(lambda s, i, dim=dim: torch.index_select(s, dim, i), t, index)


@pytest.mark.parametrize("index", [[9], [-8], [[0]], [0.0], 1], ids=str)
def test_slices_that_do_not_fit(index):
    refuses_alike(lambda s, i: torch.index_select(s, 0, i), sparse(5, 7), torch.tensor(index))


@pytest.mark.parametrize("function", [torch.sparse.softmax, torch.sparse.log_softmax])
@pytest.mark.parametrize("t", [sparse(5, 7), sparse(3, 4, 5), sparse(6), sparse(4, 5, 3, sparse_dim=2), sparse(4, 5, 3, sparse_dim=1),
                               sparse(5, 7, density=0), sparse(5, 7, coalesced=False)],
                         ids=["matrix", "three", "vector", "hybrid 2", "hybrid 1", "empty", "uncoalesced"])
def test_softmax(function, t):
    for dim in range(t.dim()):
        compare(lambda x, dim=dim: function(x, dim), t, gradients=t.is_coalesced(), **CLOSE)
        compare(lambda x, dim=dim: function(x, dim), t.double(), **CLOSE)


@pytest.mark.parametrize("dim", [-1, -2])
def test_gradients_of_softmax_over_the_last_dimensions(dim):
    """Against dense tensors: the CPU's sparse kernels take a negative dimension for another one."""
    t = sparse(5, 7)
    dense, weights = t.to_dense().requires_grad_(), torch.arange(1.0, 36).view(5, 7)
    present = t.to_dense() != 0
    softmax = torch.softmax(torch.where(present, dense, -1e30), dim)
    (torch.where(present, softmax, 0.0) * weights).sum().backward()
    there = t.npu().requires_grad_()
    (torch.sparse.softmax(there, dim).to_dense() * weights.npu()).sum().backward()
    torch.testing.assert_close(there.grad.to_dense().cpu(), dense.grad, **CLOSE)


def test_softmax_refuses():
    refuses_alike(lambda x: torch.sparse.softmax(x, 1), sparse(5, 7).long())
    refuses_alike(lambda x: torch.sparse.softmax(x, 3), sparse(5, 7))


def test_sums(coalesced):
    for t in (sparse(5, 7, coalesced=coalesced), sparse(3, 4, 5, coalesced=coalesced), sparse(4, 5, 3, sparse_dim=2)):
        for dims in ([0], [1], [0, 1], [-1], [*range(t.dim())], [0, t.dim() - 1]):
            compare(lambda x, dims=dims: torch.sparse.sum(x, dims), t, gradients=True, **CLOSE)


def test_masks(coalesced):
    t, mask = sparse(5, 7, coalesced=coalesced), sparse(5, 7, seed=1, coalesced=coalesced)
    compare(lambda a, b: a.sparse_mask(b), t, mask, **CLOSE)
    compare(lambda a, b: a.sparse_mask(b), sparse(5, 7, density=0), mask)
    compare(lambda a, b: a.sparse_mask(b), t.to_dense(), mask.coalesce(), **CLOSE)
    compare(lambda a, b: a.sparse_mask(b), sparse(4, 5, 3, sparse_dim=2), sparse(4, 5, 3, sparse_dim=2, seed=1), **CLOSE)
    for accumulate in (False, True):
        compare(lambda a, b, accumulate=accumulate: torch.ops.aten._sparse_mask_projection(a, b, accumulate), t, mask, **CLOSE)
    refuses_alike(lambda a, b: a.sparse_mask(b), t, sparse(5, 6))
