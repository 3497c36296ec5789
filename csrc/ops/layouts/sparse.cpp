// Sparse tensors, where upstream has a kernel for each device: all are composed of operators on indices and values.
// What upstream shares between devices is registered by tools/codegen/layouts.py.
#include <ATen/ATen.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ops/_to_sparse_bsc_native.h>
#include <ATen/ops/_to_sparse_bsr_native.h>
#include <ATen/ops/_to_sparse_csc_native.h>
#include <ATen/ops/_to_sparse_csr_native.h>
#include <ATen/ops/_to_sparse_native.h>

#include <array>

#include "ops/layouts/sparse.h"
#include "ops/register.h"

namespace npu::ops {

using c10::Scalar;

Tensor coo(const Tensor& indices, const Tensor& values, at::IntArrayRef sizes, bool coalesced) {
  const auto options = values.options().layout(at::kSparse);
  return at::_sparse_coo_tensor_with_dims_and_tensors(indices.size(0), values.dim() - 1, sizes, indices, values,
                                                      options, coalesced);
}

Tensor flatten(const Tensor& indices, at::IntArrayRef sizes) {
  auto flat = indices.size(0) == 0 ? at::zeros({indices.size(1)}, indices.options()) : indices[0];
  for (int64_t d = 1; d < indices.size(0); d++) flat = flat * sizes[d] + indices[d];
  return flat;
}

Tensor coalesce(const Tensor& self) {
  const auto indices = self._indices(), values = self._values();
  if (self._nnz() < 2) return coo(indices, values, self.sizes(), true);
  if (self.sparse_dim() == 0)
    return coo(indices.narrow(1, 0, 1), values.sum(0, true, values.scalar_type()), self.sizes(), true);
  auto [places, entry, counts] = at::_unique2(flatten(indices, self.sizes()), /*sorted=*/true, /*return_inverse=*/true);
  auto sizes = values.sizes().vec();
  sizes[0] = places.size(0);
  const auto sums = at::zeros(sizes, values.options()).index_add_(0, entry, values);
  auto rows = at::empty({self.sparse_dim(), sizes[0]}, indices.options());
  for (int64_t d = self.sparse_dim() - 1; d >= 0; d--) {
    rows[d].copy_(at::remainder(places, self.size(d)));
    places = at::floor_divide(places, self.size(d));
  }
  return coo(rows, sums, self.sizes(), true);
}

Tensor& replace(Tensor& out, const Tensor& result) {
  at::sparse::get_sparse_impl(out)->raw_resize_(result.sparse_dim(), result.dense_dim(), result.sizes());
  at::sparse::alias_into_sparse(out, result._indices(), result._values().to(out.scalar_type()));
  return out._coalesced_(result.is_coalesced());
}

Tensor add_product(const Tensor& self, const Tensor& rows, const Tensor& columns, const Tensor& values, int64_t height,
                   const Tensor& mat2, const Scalar& beta, const Scalar& alpha) {
  const std::array<int64_t, 2> sizes{height, mat2.size(1)};
  const auto sum = beta.equal(0) ? at::zeros(sizes, self.options()) : self.expand(sizes).mul(beta);
  if (values.numel() == 0) return sum;
  return sum.index_add_(0, rows, mat2.index_select(0, columns).mul_(values.unsqueeze(1)), alpha);
}

namespace {

// ---- coordinates ----

// The CPU's kernels read indices row by row without asking for strides. Upstream's conversion leaves them as nonzero()
// does.
Tensor with_dense_indices(const Tensor& t) {
  if (!t.is_sparse() || t._indices().is_contiguous()) return t;
  return coo(t._indices().contiguous(), t._values(), t.sizes(), t.is_coalesced());
}

Tensor to_sparse(const Tensor& self, std::optional<at::Layout> layout, at::OptionalIntArrayRef blocksize,
                 std::optional<int64_t> dense_dim) {
  return with_dense_indices(at::native::dense_to_sparse(self, layout, blocksize, dense_dim));
}

Tensor to_sparse_coo(const Tensor& self, int64_t sparse_dim) {
  return with_dense_indices(at::native::dense_to_sparse(self, sparse_dim));
}

// The same for compressed rows or columns, whose indices upstream requires to be dense when they come in again. It
// looks at the stride alone, which a row of one index or none may have as it likes.
template <auto kConvert, class... Args>
Tensor to_compressed(const Tensor& self, Args... args) {
  const Tensor t = kConvert(self, args...);
  const auto [compressed, plain] = at::sparse_csr::getCompressedPlainIndices(t);
  if (plain.is_contiguous() && plain.stride(-1) == 1) return t;
  return at::_sparse_compressed_tensor_unsafe(compressed, plain.clone(at::MemoryFormat::Contiguous), t.values(),
                                              t.sizes(), t.options());
}

// For results of fallback.cpp.
Tensor copy_from_and_resize(const Tensor& self, const Tensor& dst) {
  auto out = dst;
  return dst.is_sparse() ? replace(out, self.to(dst.device())) : out.resize_(self.sizes()).copy_(self);
}

// In the type of the sum: -1 has no place in unsigned values.
Tensor times(const Tensor& values, const Scalar& alpha, at::ScalarType dtype) {
  return values.to(dtype).mul(alpha).to(dtype);
}

Tensor add(const Tensor& self, const Tensor& other, const Scalar& alpha) {
  const auto dtype = at::result_type(self, other);
  if (!self.is_sparse()) {
    const auto source = other.coalesce();
    auto sum = self.to(dtype, /*non_blocking=*/false, /*copy=*/true).contiguous();
    if (source._nnz() == 0) return sum;
    if (source.sparse_dim() == 0) return sum.add_(times(source._values().select(0, 0), alpha, dtype));
    c10::List<std::optional<Tensor>> at_places;
    for (auto& row : source._indices().unbind(0)) at_places.push_back(row);
    return sum.index_put_(at_places, times(source._values(), alpha, dtype), /*accumulate=*/true);
  }
  TORCH_CHECK(other.is_sparse(), "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
  TORCH_CHECK(self.sizes() == other.sizes(), "add: expected sizes of 'self' and 'other' to match, but ", self.sizes(),
              " != ", other.sizes());
  TORCH_CHECK(at::sparse::is_same_density(self, other) || self._nnz() == 0 || other._nnz() == 0,
              "add: expected 'self' and 'other' to have same density, but 'self' has ", self.sparse_dim(),
              " sparse dimensions while 'other' has ", other.sparse_dim(), " sparse dimensions");
  if (other._nnz() == 0)
    return coo(self._indices().clone(), self._values().to(dtype, false, true), self.sizes(), self.is_coalesced());
  const auto scaled = times(other._values(), alpha, dtype);
  if (self._nnz() == 0) return coo(other._indices().clone(), scaled, self.sizes(), other.is_coalesced());
  const auto both = coo(at::cat({self._indices(), other._indices()}, 1), at::cat({self._values().to(dtype), scaled}),
                        self.sizes(), false);
  return self.is_coalesced() && other.is_coalesced() ? coalesce(both) : both;
}

void check_holds(const Tensor& out, const Tensor& self, const Tensor& other, const char* op) {
  const auto dtype = at::result_type(self, other);
  TORCH_CHECK(c10::canCast(dtype, out.scalar_type()), "Can't convert result type ", dtype, " to output ",
              out.scalar_type(), " in ", op, " operation");
}

Tensor& add_out(const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out) {
  check_holds(out, self, other, "add");
  CardGuard guard(out);
  const auto result = npu::ops::add(self, other, alpha);
  if (out.is_sparse()) return replace(out, result);
  return out.resize_(result.sizes()).copy_(result);
}

Tensor at_entries(const Tensor& dense, const Tensor& sparse) {
  if (sparse.sparse_dim() == 0) return dense.expand(sparse.sizes()).unsqueeze(0).expand_as(sparse._values());
  c10::List<std::optional<Tensor>> at_places;
  for (auto& row : sparse._indices().unbind(0)) at_places.push_back(row);
  return sparse._nnz() == 0 ? at::empty_like(sparse._values()) : dense.expand(sparse.sizes()).index(at_places);
}

Tensor& mul_out(const Tensor& self, const Tensor& other, Tensor& out) {
  check_holds(out, self, other, "mul");
  CardGuard guard(out);
  const auto extent = [](const Tensor& t) { return std::pair(t.dim(), t.is_sparse() ? t._nnz() : 0); };
  const bool swapped = !self.is_sparse() || (other.is_sparse() && extent(self) < extent(other));
  const auto& factor = swapped ? self : other;
  const auto& given = swapped ? other : self;
  const auto sizes = at::infer_size(given.sizes(), factor.sizes());
  // Upstream's expansion divides by the number of elements, and takes all entries for different ones.
  const auto sparse = given.sizes() == at::IntArrayRef(sizes) ? given
                      : c10::multiply_integers(sizes) == 0    ? at::zeros(sizes, given.options())
                                                              : at::_sparse_broadcast_to(given.coalesce(), sizes);
  if (factor.dim() == 0) {
    const auto number = factor.is_sparse() ? factor.to_dense() : factor;
    return replace(out,
                   coo(sparse._indices().clone(), sparse._values().mul(number), sparse.sizes(), sparse.is_coalesced()));
  }
  const auto entries = sparse.coalesce();
  const auto dense = factor.is_sparse() ? factor.to_dense() : factor;
  return replace(
      out, coo(entries._indices().clone(), entries._values().mul(at_entries(dense, entries)), entries.sizes(), true));
}

// ---- products ----

Tensor addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha) {
  TORCH_CHECK(mat1.is_sparse() && !mat2.is_sparse(), "addmm: expected a sparse and a dense matrix");
  TORCH_CHECK(mat1.dim() == 2 && mat2.dim() == 2, "addmm: matrices expected, got ", mat1.dim(), "D and ", mat2.dim(),
              "D tensors");
  TORCH_CHECK(mat1.size(1) == mat2.size(0), "addmm: Argument #3 (dense): Expected dim 0 size ", mat1.size(1), ", got ",
              mat2.size(0));
  CardGuard guard(mat2);
  const auto entries = mat1.coalesce();
  const auto indices = entries._indices();
  return add_product(self, indices[0], indices[1], entries._values(), mat1.size(0), mat2, beta, alpha);
}

Tensor& addmm_out(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha,
                  Tensor& out) {
  const auto result = npu::ops::addmm(self, mat1, mat2, beta, alpha);
  return out.resize_(result.sizes()).copy_(result);
}

Tensor& addmm_(Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha) {
  return self.copy_(npu::ops::addmm(self, mat1, mat2, beta, alpha));
}

// ---- diagonals ----

Tensor spdiags(const Tensor& diagonals, const Tensor& offsets, at::IntArrayRef shape,
               std::optional<at::Layout> layout) {
  const auto values = diagonals.dim() == 1 ? diagonals.unsqueeze(0) : diagonals;
  const auto shifts = offsets.dim() == 0 ? offsets.unsqueeze(0) : offsets;
  TORCH_CHECK(values.dim() == 2, "Diagonals must be vector or matrix");
  TORCH_CHECK(shape.size() == 2, "Output shape must be 2d");
  TORCH_CHECK(shifts.dim() == 1, "Offsets must be scalar or vector");
  TORCH_CHECK(values.size(0) == shifts.size(0), "Number of diagonals (", values.size(0),
              ") does not match the number of offsets (", shifts.size(0), ")");
  const auto wanted = layout.value_or(at::kSparse);
  TORCH_CHECK(wanted == at::kSparse || wanted == at::kSparseCsr || wanted == at::kSparseCsc,
              "Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got ", wanted);
  TORCH_CHECK(shifts.scalar_type() == at::kLong, "Offset Tensor must have dtype Long but got ", shifts.scalar_type());
  TORCH_CHECK(std::get<0>(at::_unique(shifts)).size(0) == shifts.size(0), "Offset tensor contains duplicate values");
  CardGuard guard(values);
  const auto width = std::min(values.size(1), shape[1]);
  const auto columns = at::arange(width, shifts.options()).expand({shifts.size(0), width});
  const auto rows = columns - shifts.unsqueeze(1);
  const auto inside = rows.ge(0).logical_and_(rows.lt(shape[0]));
  const auto indices = at::stack({rows.masked_select(inside), columns.masked_select(inside)});
  const auto result = coo(indices, values.narrow(1, 0, width).masked_select(inside), shape, indices.size(1) < 2);
  return wanted == at::kSparse ? result : result.to_sparse(wanted);
}

// ---- compressed rows and columns ----

// What the indices of a matrix in compressed form must satisfy, in upstream's words. Waits for the device.
void validate_compressed(bool by_rows, const Tensor& compressed, const Tensor& plain, int64_t lines, int64_t limit,
                         int64_t nnz) {
  TORCH_CHECK(compressed.scalar_type() == plain.scalar_type(), "Found dtype ", compressed.scalar_type(),
              " but expected ", plain.scalar_type());
  CardGuard guard(compressed);
  const std::string ends = by_rows ? "crow_indices" : "ccol_indices", inner = by_rows ? "col_indices" : "row_indices";
  const auto line_count = by_rows ? "nrows" : "ncols", inner_limit = by_rows ? "ncols" : "nrows";
  const auto require = [](const Tensor& holds, const auto&... words) {
    TORCH_CHECK(holds.all().item<bool>(), "`", words..., "` is not satisfied.");
  };
  require(compressed.select(-1, 0).eq(0), ends, "[..., 0] == 0");
  require(compressed.select(-1, -1).eq(nnz), ends, "[..., -1] == nnz");
  const auto lengths = compressed.narrow(-1, 1, lines) - compressed.narrow(-1, 0, lines);
  require(lengths.ge(0).logical_and_(lengths.le(limit)), "0 <= ", ends, "[..., 1:] - ", ends,
          "[..., :-1] <= ", inner_limit);
  require(plain.ge(0).logical_and_(plain.lt(limit)), "0 <= ", inner, " < ", inner_limit);
  if (nnz < 2) return;
  auto sizes = plain.sizes().vec();
  sizes.back() = nnz + 1;
  const auto begins =
      at::zeros(sizes, plain.options().dtype(at::kBool)).scatter_(-1, compressed.to(at::kLong), Scalar(true));
  const auto rises = plain.narrow(-1, 1, nnz - 1).gt(plain.narrow(-1, 0, nnz - 1));
  require(rises.logical_or(begins.narrow(-1, 1, nnz - 1)), inner, "[..., ", ends, "[..., i - 1]:", ends,
          "[..., i]] for all i = 1, ..., ", line_count, " are sorted and distinct along the last dimension values");
}

// Upstream's leaves the indices to chance, which its own check of them may refuse.
Tensor empty_compressed(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                        std::optional<c10::Device> device, std::optional<bool> pin_memory,
                        std::optional<at::MemoryFormat>) {
  TORCH_CHECK(sizes.size() >= 2 && (layout == at::kSparseCsr || layout == at::kSparseCsc),
              "torch.empty: Only batched sparse compressed (non-block) tensors are supported, but got size ", sizes);
  return at::zeros(sizes, dtype, layout, device, pin_memory);
}

std::pair<Tensor, Tensor> places(const Tensor& csr) {
  const auto indices = at::_convert_indices_from_csr_to_coo(csr.crow_indices(), csr.col_indices(), /*out_int32=*/false,
                                                            /*transpose=*/false);
  return {indices.select(0, -2), indices.select(0, -1)};
}

Tensor& csr_addmm_out(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                      const Scalar& alpha, Tensor& out) {
  TORCH_CHECK(mat1.dim() == 2, "mat1 must be a matrix, got ", mat1.dim(), "-D tensor");
  TORCH_CHECK(mat2.dim() == 2, "mat2 must be a matrix, got ", mat2.dim(), "-D tensor");
  TORCH_CHECK(mat1.size(1) == mat2.size(0), "mat1 and mat2 shapes cannot be multiplied (", mat1.size(0), "x",
              mat1.size(1), " and ", mat2.size(0), "x", mat2.size(1), ")");
  CardGuard guard(out);
  Tensor result;
  if (mat1.layout() == at::kSparseCsr && mat2.layout() == at::kStrided) {
    const auto [rows, columns] = places(mat1);
    result = add_product(self.layout() == at::kStrided ? self : self.to_dense(), rows, columns, mat1.values(),
                         mat1.size(0), mat2, beta, alpha);
  } else {
    result = at::addmm(self.to_dense(), mat1.to_dense(), mat2.to_dense(), beta, alpha);
  }
  if (out.layout() == at::kStrided) return out.resize_(result.sizes()).copy_(result);
  result = result.to_sparse(out.layout());
  return out.resize_as_sparse_(result).copy_(result);
}

Tensor& csr_addmv_out(const Tensor& self, const Tensor& mat, const Tensor& vec, const Scalar& beta, const Scalar& alpha,
                      Tensor& out) {
  auto column = self.expand(at::IntArrayRef(mat.size(0))).unsqueeze(1).clone();
  return out.resize_({mat.size(0)}).copy_(csr_addmm_out(column, mat, vec.unsqueeze(1), beta, alpha, column).squeeze(1));
}

Tensor& csr_add_out(const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out) {
  TORCH_CHECK(self.sizes() == other.sizes() || out.layout() == at::kStrided,
              "torch.add: Expected input tensors to have the same shape, but got tensor `self` with shape ",
              self.sizes(), " and tensor `other` with shape ", other.sizes());
  CardGuard guard(out);
  const auto result = at::add(self.to_dense(), other.to_dense(), alpha);
  if (out.layout() == at::kStrided) return out.resize_(result.sizes()).copy_(result);
  const auto pattern = at::add(self.to_sparse(), other.to_sparse()).coalesce();
  const auto entries = coo(pattern._indices(), at_entries(result, pattern), result.sizes(), true).to_sparse_csr();
  out.resize_as_sparse_(entries);
  return out.copy_(entries);
}

// beta * self + alpha * mat1 x mat2 where `self` has entries.
Tensor sampled_addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                     const Scalar& alpha) {
  TORCH_CHECK(self.layout() == at::kSparseCsr, "sampled_addmm: Expected self to have sparse csr layout, but got ",
              self.layout());
  TORCH_CHECK(mat1.layout() == at::kStrided && mat2.layout() == at::kStrided,
              "sampled_addmm: Expected mat1 and mat2 to be strided");
  TORCH_CHECK(mat1.dim() >= 2 && mat2.dim() >= 2 && mat1.size(-1) == mat2.size(-2) && mat1.size(-2) == self.size(-2) &&
                  mat2.size(-1) == self.size(-1),
              "sampled_addmm: shapes of self, mat1 and mat2 do not fit: ", self.sizes(), ", ", mat1.sizes(), ", ",
              mat2.sizes());
  CardGuard guard(self);
  const auto crow = self.crow_indices(), col = self.col_indices();
  const int64_t height = self.size(-2), width = self.size(-1), entries = col.size(-1);
  if (entries == 0) return self.clone();
  const auto product = mat1.matmul(mat2).reshape({-1, height * width});
  // Row of entry i: how many rows end at or before it.
  const auto starts = crow.narrow(-1, 1, height).reshape({-1, height}).contiguous();
  const auto rows = at::searchsorted(
      starts, at::arange(entries, crow.options()).expand({starts.size(0), entries}).contiguous(), false, true);
  const auto found =
      product.gather(1, rows * width + col.reshape({-1, entries}).to(at::kLong)).reshape(self.values().sizes());
  const auto values = beta.equal(0) ? found.mul(alpha) : self.values().mul(beta).add_(found, alpha);
  return at::_sparse_csr_tensor_unsafe(crow.clone(), col.clone(), values, self.sizes(), self.options());
}

Tensor& sampled_addmm_out(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                          const Scalar& alpha, Tensor& out) {
  const auto result = npu::ops::sampled_addmm(self, mat1, mat2, beta, alpha);
  out.resize_as_sparse_(result);
  return out.copy_(result);
}

}  // namespace

NPU_REGISTER(sparse) {
  manual("aten::_to_sparse", "", &to_sparse);
  manual("aten::_to_sparse", "sparse_dim", &to_sparse_coo);
  manual("aten::_to_sparse_csr", "", &to_compressed<&at::native::dense_to_sparse_csr, std::optional<int64_t>>);
  manual("aten::_to_sparse_csc", "", &to_compressed<&at::native::dense_to_sparse_csc, std::optional<int64_t>>);
  manual("aten::_to_sparse_bsr", "",
         &to_compressed<&at::native::dense_to_sparse_bsr, at::IntArrayRef, std::optional<int64_t>>);
  manual("aten::_to_sparse_bsc", "",
         &to_compressed<&at::native::dense_to_sparse_bsc, at::IntArrayRef, std::optional<int64_t>>);
  manual("aten::_spdiags", "", &spdiags);
  manual("aten::_validate_compressed_sparse_indices", "", &validate_compressed);
  constexpr auto kCoo = c10::DispatchKey::SparsePrivateUse1, kCompressed = c10::DispatchKey::SparseCsrPrivateUse1;
  reg_as(kCoo, "aten::_coalesce", "", &coalesce);
  reg_as(kCoo, "aten::_copy_from_and_resize", "", &copy_from_and_resize);
  reg_as(kCoo, "aten::add", "out", &add_out);
  reg_as(kCoo, "aten::mul", "out", &mul_out);
  reg_as(kCoo, "aten::addmm", "", &addmm);
  reg_as(kCoo, "aten::addmm", "out", &addmm_out);
  reg_as(kCoo, "aten::addmm_", "", &addmm_);
  reg_as(kCompressed, "aten::empty", "memory_format", &empty_compressed);
  reg_as(kCompressed, "aten::addmm", "out", &csr_addmm_out);
  reg_as(kCompressed, "aten::addmv", "out", &csr_addmv_out);
  reg_as(kCompressed, "aten::add", "out", &csr_add_out);
  reg_as(kCompressed, "aten::sparse_sampled_addmm", "", &sampled_addmm);
  reg_as(kCompressed, "aten::sparse_sampled_addmm", "out", &sampled_addmm_out);
}

}  // namespace npu::ops

// Declared in a header that torch does not install.
namespace at::native {
using flatten_indices_fn = Tensor (*)(const Tensor& indices, IntArrayRef size);
DECLARE_DISPATCH(flatten_indices_fn, flatten_indices_stub)
REGISTER_PRIVATEUSE1_DISPATCH(flatten_indices_stub, &npu::ops::flatten)
}  // namespace at::native
