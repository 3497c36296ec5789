"""Sparse tensors on npu: conversion, sums, products, gradients; the CPU is the reference."""

import pytest
import torch


@pytest.fixture
def dense():
    torch.manual_seed(0)
    return torch.randn(6, 5) * (torch.rand(6, 5) > 0.6)


def equal(npu, cpu):
    assert npu.is_npu and npu.layout == cpu.layout
    torch.testing.assert_close(npu.to_dense().cpu(), cpu.to_dense())


def test_conversion(dense):
    for convert in (torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr, torch.Tensor.to_sparse_csc):
        equal(convert(dense.npu()), convert(dense))


def test_coalesce_sums_entries_at_the_same_place():
    indices, values = torch.tensor([[0, 2, 0, 1], [1, 0, 1, 2]]), torch.tensor([1.0, 2.0, 3.0, 4.0])
    cpu = torch.sparse_coo_tensor(indices, values, (3, 3)).coalesce()
    npu = torch.sparse_coo_tensor(indices.npu(), values.npu(), (3, 3)).coalesce()
    assert npu.is_coalesced()
    assert torch.equal(npu.indices().cpu(), cpu.indices()) and torch.equal(npu.values().cpu(), cpu.values())


def test_numbers_are_sparse_too():
    for values in ([3.0], [1.0, 2.0], []):
        twins = [torch.sparse_coo_tensor(torch.zeros(0, len(values), dtype=torch.int64), values, (), device=d) for d in ("npu", "cpu")]
        npu, cpu = (t.to_dense() for t in twins)
        assert npu.shape == () and npu.item() == cpu.item() == sum(values)
        assert twins[0].coalesce()._nnz() == twins[1].coalesce()._nnz()
    x, y = (torch.tensor(3.0, device=d).to_sparse() for d in ("npu", "cpu"))
    equal(x * x + x, y * y + y)


@pytest.mark.parametrize("layout", ["csr", "csc", "bsr", "bsc"])
def test_indices_of_compressed_tensors_can_come_in_again(dense, layout):
    square = torch.eye(4) + torch.ones(4, 4).tril()
    t = getattr(square.npu(), f"to_sparse_{layout}")(*[(2, 2)] * layout.startswith("b"))
    plain = t.col_indices() if layout.endswith("r") else t.row_indices()
    compressed = t.crow_indices() if layout.endswith("r") else t.ccol_indices()
    again = torch.sparse_compressed_tensor(compressed, plain, t.values(), t.shape, layout=t.layout)
    assert plain.is_contiguous()
    equal(again.to_dense(), square)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc])
@pytest.mark.parametrize("entries", [0, 1, 2, 9])
def test_conversion_keeps_what_sparse_tensors_have_to_satisfy(entries, layout):
    square = torch.zeros(4, 4)
    square.view(-1)[:entries] = 2
    blocks = (2, 2) if layout in (torch.sparse_bsr, torch.sparse_bsc) else None
    with torch.sparse.check_sparse_tensor_invariants():
        equal(square.npu().to_sparse(layout=layout, blocksize=blocks).to_dense(), square)


def test_columns_of_nonzero_are_dense_as_on_the_cpu(dense):
    npu, cpu = dense.npu().nonzero(), dense.nonzero()
    assert torch.equal(npu.cpu(), cpu) and npu.stride() == cpu.stride()


@pytest.mark.parametrize("left, right", [(torch.int8, torch.uint8), (torch.bfloat16, torch.uint8), (torch.uint8, torch.int32),
                                         (torch.int32, torch.float32), (torch.float32, torch.float64)])
def test_differences_are_taken_in_the_type_of_the_result(left, right):
    a, b = torch.tensor([[1, 0], [2, 3]], dtype=left), torch.tensor([[3, 1], [0, 1]], dtype=right)
    for minuend in (a.npu(), a.npu().to_sparse()):
        difference = minuend - b.npu().to_sparse()
        assert difference.dtype == (a - b).dtype
        equal(difference.to_dense() if difference.is_sparse else difference, a - b)


def test_integers_do_not_take_fractions_in_place():
    a, b = torch.tensor([[1, 0], [2, 3]]).npu(), torch.tensor([[0.5, 1], [0, 1]]).npu()
    for change in (torch.Tensor.add_, torch.Tensor.sub_, torch.Tensor.mul_):
        for target in (a, a.to_sparse()):
            with pytest.raises(RuntimeError, match="Can't convert result type Float to output Long"):
                change(target, b.to_sparse())


def test_products_of_compressed_tensors_keep_what_these_have_to_satisfy(dense):
    other = torch.randn(6, 5)
    torch.full((64,), -1, device="npu")  # what new memory may hold
    with torch.sparse.check_sparse_tensor_invariants():
        equal(dense.npu().to_sparse_csr() * other.npu(), dense.to_sparse_csr() * other)
        assert torch.empty((0, 3), layout=torch.sparse_csc, device="npu")._nnz() == 0


@pytest.mark.parametrize("call", [
    lambda csr, dense: csr @ dense,
    lambda csr, dense: torch.addmm(dense, csr, dense),
    lambda csr, dense: torch.addmm(dense, csr, dense[0]),
    lambda csr, dense: csr + dense.t().to_sparse_csr(),
])
def test_compressed_tensors_of_other_shapes_are_refused_in_the_words_of_the_cpu(call, dense):
    words = []
    for device in ("cpu", "npu"):
        with pytest.raises(RuntimeError) as error:
            call(dense.to(device).to_sparse_csr(), dense.to(device))
        words.append(str(error.value).splitlines()[0])
    assert words[0] == words[1]


def test_numbers_of_several_entries_are_multiplied_in_either_order():
    several = torch.sparse_coo_tensor(torch.zeros(0, 3, dtype=torch.int64), torch.tensor([1.0, 2, 3]), ()).npu()
    two = torch.tensor(2.0, device="npu").to_sparse()
    for product in (several * two, two * several):
        assert product._nnz() == 3 and product.to_dense().item() == 12


@pytest.mark.parametrize("sparse, factor", [((), (6, 5)), ((5,), (6, 5)), ((1, 5), (6, 5)), ((6, 5), (5,)), ((6, 5), ()), ((6, 5), (6, 1)),
                                            ((), (0,)), ((1,), (0,)), ((5,), (0, 5))])
@pytest.mark.parametrize("twice", [False, True])
def test_factors_are_expanded_to_each_other(sparse, factor, twice):
    torch.manual_seed(0)
    a, b = torch.rand(sparse) + 1, torch.rand(factor) + 1
    left = a.npu().to_sparse()
    if twice:  # every entry, so that it is not coalesced
        left = torch.sparse_coo_tensor(torch.cat([left._indices()] * 2, 1), torch.cat([left._values()] * 2), sparse)
        a = a * 2
    for product in (left * b.npu(), b.npu() * left, left * b.npu().to_sparse(), b.npu().to_sparse() * left):
        torch.testing.assert_close(product.to_dense().cpu(), a * b)


def test_sums_and_products(dense):
    sparse, other = dense.to_sparse(), torch.randn(6, 5)
    on_npu = dense.npu().to_sparse()
    equal(on_npu + on_npu, sparse + sparse)
    equal(on_npu * 2, sparse * 2)
    equal(on_npu * other.npu(), sparse * other)
    torch.testing.assert_close((other.npu() + on_npu).cpu(), other + sparse)


@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr"])
def test_matrix_product_and_its_gradient(dense, layout):
    results = []
    for device in ("cpu", "npu"):
        factor = torch.ones(5, 4, device=device).mul_(0.5).requires_grad_()
        product = torch.sparse.mm(getattr(dense.to(device), layout)(), factor)
        product.sum().backward()
        results.append((product.detach().cpu(), factor.grad.cpu()))
    for a, b in zip(*results):
        torch.testing.assert_close(a, b)


def test_nested_tensors_pad_and_multiply():
    parts = [torch.randn(2, 3), torch.randn(4, 3)]
    cpu = torch.nested.nested_tensor(parts)
    npu = torch.nested.nested_tensor([p.npu() for p in parts])
    torch.testing.assert_close(npu.to_padded_tensor(0.0).cpu(), cpu.to_padded_tensor(0.0))
    torch.testing.assert_close(torch.relu(npu).to_padded_tensor(0.0).cpu(), torch.relu(cpu).to_padded_tensor(0.0))


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_sparse_gradient_of_an_embedding_bag(mode):
    indices, offsets = torch.tensor([1, 2, 4, 2, 0]), torch.tensor([0, 2, 2])

    def run(device):
        weight = torch.arange(20.0).view(5, 4).to(device).requires_grad_()
        out = torch.nn.functional.embedding_bag(indices.to(device), weight, offsets.to(device), mode=mode, sparse=True)
        out.square().sum().backward()
        assert weight.grad.is_sparse
        return weight.grad.to_dense().cpu()

    torch.testing.assert_close(run("npu"), run("cpu"))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("types", [(torch.int32, torch.int64), (torch.int64, torch.int32)], ids=str)
def test_bags_with_offsets_of_another_type(types, sparse):
    def gradients(device, weighted):
        weight = torch.arange(10.0, device=device).view(5, 2).requires_grad_()
        shares = torch.arange(6.0, device=device).requires_grad_() if weighted else None
        indices = torch.tensor([3, 1, 1, 1, 4, 0], dtype=types[0], device=device)
        offsets = torch.tensor([0, 0, 3, 3, 6], dtype=types[1], device=device)
        bags = torch.nn.functional.embedding_bag(indices, weight, offsets, mode="sum", sparse=sparse, per_sample_weights=shares)
        (bags * bags).sum().backward()
        return [weight.grad.to_dense(), *([shares.grad] if weighted else [])]

    for weighted in (False, True):
        for npu, cpu in zip(gradients("npu", weighted), gradients("cpu", weighted), strict=True):
            equal(npu, cpu)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float16, torch.complex64])
def test_every_type_becomes_dense(dtype):
    sparse = torch.sparse_coo_tensor([[0, 2]], torch.ones(2), (4,)).to(dtype)
    equal(sparse.npu(), sparse)


def test_product_of_compressed_matrices(dense):
    for left, right in ((dense, dense.t()), (dense.t(), dense)):
        equal(left.npu().to_sparse_csr() @ right.npu().to_sparse_csr(), left.to_sparse_csr() @ right.to_sparse_csr())


FALLBACK = """
import warnings
warnings.simplefilter("ignore")
a = torch.tensor([[1.0, 0, 2], [0, 3, 0], [4, 0, 5]])
def results(device):
    q = torch.quantize_per_tensor(a.to(device) - 2, 0.1, 0, torch.qint8)
    c = a.to(device).to_sparse_csr()
    return [
        torch.sum(c, 1, keepdim=True), torch._sparse_csr_prod(c, 0, keepdim=True),
        q.relu().dequantize(), torch.cat([q, q]).dequantize(), q[[0, 2]].dequantize(),
    ]
for npu, cpu in zip(results("npu"), results("cpu")):
    assert npu.is_npu and npu.layout == cpu.layout
    torch.testing.assert_close(npu.to_dense().cpu(), cpu.to_dense())
print(sorted(torch_npu.utils.fallback_counts()))
"""


def test_what_has_no_kernel_is_computed_on_the_cpu(check):
    assert "aten::_sparse_csr_sum" in check(FALLBACK, TORCH_NPU_FALLBACK_CPU_DISABLE="0")


def test_what_has_no_kernel_is_named_when_the_fallback_is_forbidden(dense):
    with pytest.raises(NotImplementedError, match="_sparse_csr_sum.* has no npu kernel and the CPU fallback is disabled"):
        torch.sum(dense.npu().to_sparse_csr(), 1, keepdim=True)
