// Products of sparse matrices whose result, or second factor, is sparse as well, and the selection of slices.
#include <ATen/ATen.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/SparseTensorUtils.h>

#include "ops/layouts/sparse.h"
#include "ops/register.h"

namespace npu::ops {

namespace {

using c10::Scalar;

// All pairs (i, j) with wanted[i] == keys[j], in the order of i. Keys are below `limit`.
std::pair<Tensor, Tensor> matches(const Tensor& wanted, const Tensor& keys, int64_t limit) {
  const auto order = std::get<1>(keys.sort(/*stable=*/true, 0, false));
  const auto counts = at::zeros({limit}, keys.options()).index_add_(0, keys, at::ones_like(keys));
  const auto each = counts.index_select(0, wanted);
  const auto first = (counts.cumsum(0) - counts).index_select(0, wanted);  // of the keys wanted[i], in `order`
  const auto i = at::repeat_interleave(each);
  const auto shift = first - (each.cumsum(0) - each);
  return {i, order.index_select(0, at::arange(i.size(0), keys.options()) + shift.index_select(0, i))};
}

Tensor matmul(const Tensor& self, const Tensor& other) {
  TORCH_CHECK(self.is_sparse() && other.is_sparse(), "_sparse_sparse_matmul: sparse matrices expected");
  TORCH_CHECK(self.dim() == 2 && other.dim() == 2, "_sparse_sparse_matmul: matrices expected, got ", self.dim(),
              "D and ", other.dim(), "D tensors");
  TORCH_CHECK(self.dense_dim() == 0 && other.dense_dim() == 0, "_sparse_sparse_matmul: expected values to be scalars");
  TORCH_CHECK(self.size(1) == other.size(0), "mat1 and mat2 shapes cannot be multiplied (", self.size(0), "x",
              self.size(1), " and ", other.size(0), "x", other.size(1), ")");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "mat1 dtype ", self.scalar_type(),
              " does not match mat2 dtype ", other.scalar_type());
  CardGuard guard(self);
  const auto a = self.coalesce(), b = other.coalesce();
  const auto [left, right] = matches(a._indices()[1], b._indices()[0], self.size(1));
  const auto indices = at::stack({a._indices()[0].index_select(0, left), b._indices()[1].index_select(0, right)});
  const auto values = a._values().index_select(0, left).mul_(b._values().index_select(0, right));
  return coalesce(coo(indices, values, {self.size(0), other.size(1)}, false));
}

Tensor bmm(const Tensor& self, const Tensor& mat2) {
  TORCH_CHECK(!mat2.is_sparse(), "bmm_sparse: Tensor 'mat2' must be dense");
  TORCH_CHECK(self.sparse_dim() == 3, "bmm_sparse: Tensor 'self' must have 3 sparse dims, but has ", self.sparse_dim());
  TORCH_CHECK(self.dense_dim() == 0, "bmm_sparse: Tensor 'self' must have 0 dense dims, but has ", self.dense_dim());
  TORCH_CHECK(mat2.dim() == 3, "bmm_sparse: Tensor 'mat2' must have 3 dims, but has ", mat2.dim());
  TORCH_CHECK(self.size(0) == mat2.size(0), "bmm_sparse: 'self.size(0)' and 'mat2.size(0)' must match");
  TORCH_CHECK(self.size(2) == mat2.size(1), "bmm_sparse: 'self.size(2)' and 'mat2.size(1)' must match");
  CardGuard guard(mat2);
  const auto entries = self.coalesce();
  const auto indices = entries._indices();
  const auto [batch, height, inner] = std::tuple(self.size(0), self.size(1), self.size(2));
  const auto below = mat2.reshape({batch * inner, mat2.size(2)});
  return add_product(below, indices[0] * height + indices[1], indices[0] * inner + indices[2], entries._values(),
                     batch * height, below, 0, 1)
      .view({batch, height, mat2.size(2)});
}

Tensor& bmm_out(const Tensor& self, const Tensor& mat2, Tensor& out) {
  return write_out(out, npu::ops::bmm(self, mat2));
}

void check_factors(const char* op, const Tensor& mat1, const Tensor& mat2) {
  TORCH_CHECK(mat1.sparse_dim() == 2, op, ": Argument #2: matrices expected, got ", mat1.sparse_dim(), "D tensor");
  TORCH_CHECK(mat1.dense_dim() == 0, op, ": Argument #2: scalar values expected, got ", mat1.dense_dim(), "D values");
  TORCH_CHECK(mat2.dim() == 2, op, ": Argument #3: matrices expected, got ", mat2.dim(), "D tensor");
  TORCH_CHECK(mat1.size(1) == mat2.size(0), op, ": Argument #3: Expected dim 0 size ", mat1.size(1), ", got ",
              mat2.size(0));
}

// Rows of mat1 x mat2 for which mat1 has entries.
Tensor hspmm(const Tensor& mat1, const Tensor& mat2) {
  check_factors("hspmm", mat1, mat2);
  CardGuard guard(mat2);
  const auto entries = mat1.coalesce();
  const auto indices = entries._indices();
  const auto [rows, row, counts] = at::_unique2(indices[0], /*sorted=*/true, /*return_inverse=*/true);
  const auto products = add_product(mat2, row, indices[1], entries._values(), rows.size(0), mat2, 0, 1);
  return coo(rows.unsqueeze(0), products, {mat1.size(0), mat2.size(1)}, rows.size(0) < 2);
}

Tensor& hspmm_out(const Tensor& mat1, const Tensor& mat2, Tensor& out) {
  return replace(out, npu::ops::hspmm(mat1, mat2));
}

Tensor& sspaddmm_out(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                     const Scalar& alpha, Tensor& out) {
  TORCH_CHECK(self.is_sparse() && mat1.is_sparse(), "sspaddmm: Arguments #1 and #2: sparse matrices expected");
  check_factors("sspaddmm", mat1, mat2);
  const bool adds = !beta.equal(0);  // without, as smm() asks for, the first argument is not looked at
  TORCH_CHECK(!adds || (self.dim() == 2 && self.size(0) == mat1.size(0)), "sspaddmm: Argument #1: Expected dim 0 size ",
              mat1.size(0), ", got ", self.size(0));
  TORCH_CHECK(!adds || self.size(1) == mat2.size(1), "sspaddmm: Argument #1: Expected dim 1 size ", mat2.size(1),
              ", got ", self.size(1));
  CardGuard guard(mat2);
  const auto product = npu::ops::hspmm(mat1, mat2);
  const int64_t rows = product._nnz(), width = mat2.size(1);
  auto indices = at::stack({product._indices()[0].unsqueeze(1).expand({rows, width}).reshape({-1}),
                            at::arange(width, product._indices().options()).expand({rows, width}).reshape({-1})});
  auto values = product._values().reshape({-1}).mul(alpha);
  if (adds) {
    indices = at::cat({self._indices(), indices}, 1);
    values = at::cat({self._values().mul(beta), values});
  }
  return replace(out, coo(indices, values, product.sizes(), indices.size(1) < 2));
}

Tensor index_select(const Tensor& self, int64_t dim, const Tensor& index) {
  TORCH_CHECK_INDEX(self.dim() > 0, "index_select() cannot be applied to a 0-dim tensor.");
  TORCH_CHECK_INDEX(index.dim() == 1 && index.scalar_type() == at::kLong && index.layout() == at::kStrided,
                    "index_select() argument index must be 1-D strided (non-sparse) long-tensor.");
  dim = at::maybe_wrap_dim(dim, self.dim());
  CardGuard guard(self);
  const int64_t size = self.size(dim);
  auto sizes = self.sizes().vec();
  sizes[dim] = index.size(0);
  const bool dense = dim >= self.sparse_dim();  // indexed as in dense tensors, without negative numbers
  const auto wrapped = dense ? index : at::where(index.lt(0), index + size, index);
  const auto inside = wrapped.ge(0).logical_and_(wrapped.lt(size));
  TORCH_CHECK_INDEX(inside.all().item<bool>(), "index_select(): index contains ",
                    index.masked_select(inside.logical_not())[0].item<int64_t>(),
                    " that is out of range for tensor of size ", self.sizes(), " at dimension ", dim);
  const auto indices = self._indices(), values = self._values();
  if (dense)
    return coo(indices.clone(), values.index_select(dim - self.sparse_dim() + 1, wrapped), sizes, self.is_coalesced());
  const auto [place, entry] = matches(wrapped, indices[dim], size);
  auto found = indices.index_select(1, entry);
  found.select(0, dim).copy_(place);
  // In the order of `index`: for the first dimension that is the order of places.
  return coo(found, values.index_select(0, entry), sizes, found.size(1) < 2 || (dim == 0 && self.is_coalesced()));
}

}  // namespace

NPU_REGISTER(sparse_products) {
  constexpr auto kCoo = c10::DispatchKey::SparsePrivateUse1;
  reg_as(kCoo, "aten::_sparse_sparse_matmul", "", &matmul);
  reg_as(kCoo, "aten::bmm", "", &bmm);
  reg_as(kCoo, "aten::bmm", "out", &bmm_out);
  reg_as(kCoo, "aten::hspmm", "", &hspmm);
  reg_as(kCoo, "aten::hspmm", "out", &hspmm_out);
  reg_as(kCoo, "aten::sspaddmm", "out", &sspaddmm_out);
  reg_as(kCoo, "aten::index_select", "", &index_select);
}

}  // namespace npu::ops
