// What has to find the entries of one sparse tensor in another, or those that share a row: masks, softmax, gradients of
// sums.
#include <ATen/ATen.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/ops/sparse_mask_native.h>

#include <limits>

#include "ops/layouts/sparse.h"
#include "ops/register.h"

namespace npu::ops {

namespace {

using Extents = std::vector<int64_t>;

Extents sparse_sizes(const Tensor& t) { return t.sizes().slice(0, t.sparse_dim()).vec(); }

// The sparse dimensions that `keep` is true for: their indices and sizes.
template <class Keep>
std::pair<Tensor, Extents> chosen(const Tensor& t, const Keep& keep) {
  std::vector<Tensor> rows;
  Extents sizes;
  for (int64_t d = 0; d < t.sparse_dim(); d++) {
    if (!keep(d)) continue;
    rows.push_back(t._indices()[d]);
    sizes.push_back(t.size(d));
  }
  return {rows.empty() ? Tensor() : at::stack(rows), sizes};
}

// Which row of softmax an entry belongs to: the entries that differ in `dim` only have the same number, below `count`.
struct Rows {
  Tensor of_entry;
  int64_t count;

  Rows(const Tensor& t, int64_t dim) {
    const auto [others, sizes] = chosen(t, [&](int64_t d) { return d != dim; });
    if (!others.defined()) {
      of_entry = at::zeros({t._nnz()}, t._indices().options());
      count = 1;
      return;
    }
    auto [places, inverse, counts] = at::_unique2(flatten(others, sizes), /*sorted=*/false, /*return_inverse=*/true);
    of_entry = inverse;
    count = places.size(0);
  }

  Tensor sum(const Tensor& values) const {
    return at::zeros(sizes_for(values), values.options()).index_add_(0, of_entry, values).index_select(0, of_entry);
  }
  Tensor max(const Tensor& values) const {
    const auto lowest = at::full(sizes_for(values), -std::numeric_limits<double>::infinity(), values.options());
    return lowest.index_reduce_(0, of_entry, values, "amax").index_select(0, of_entry);
  }

 private:
  Extents sizes_for(const Tensor& values) const {
    auto sizes = values.sizes().vec();
    sizes[0] = count;
    return sizes;
  }
};

// A number for each entry, shaped to be combined with the entries' values.
Tensor along_entries(const Tensor& numbers, const Tensor& values) {
  Extents sizes(values.dim(), 1);
  sizes[0] = numbers.size(0);
  return numbers.view(sizes);
}

// Values of `t` at places that are given by their sparse indices; zero where it has no entry.
Tensor values_at(const Tensor& places, const Extents& sizes, const Tensor& t) {
  const auto source = t.coalesce();
  auto found_sizes = source._values().sizes().vec();
  found_sizes[0] = places.size(1);
  if (source._nnz() == 0) return at::zeros(found_sizes, source._values().options());
  const auto have = flatten(source._indices(), sizes), want = flatten(places, sizes);
  const auto at_or_after = at::searchsorted(have, want.contiguous()).clamp_max_(source._nnz() - 1);
  const auto missing = have.index_select(0, at_or_after).ne(want);
  return source._values().index_select(0, at_or_after).masked_fill_(along_entries(missing, source._values()), 0);
}

void check_softmax(const Tensor& self, bool half_to_float, const char* op) {
  TORCH_CHECK(self.is_sparse(), op, ": a sparse tensor expected");
  TORCH_CHECK(!half_to_float, op, ": with half to float conversion is not supported on npu");
  TORCH_CHECK_NOT_IMPLEMENTED(self.scalar_type() == at::kFloat || self.scalar_type() == at::kDouble, "\"", op,
                              "\" not implemented for '", self.scalar_type(), "'");
}

template <bool kLog>
Tensor softmax(const Tensor& self, int64_t dim, bool half_to_float) {
  check_softmax(self, half_to_float, kLog ? "log_softmax" : "softmax");
  CardGuard guard(self);
  const auto input = self.coalesce();
  dim = at::maybe_wrap_dim(dim, self.dim());
  auto values = input._values();
  if (dim >= input.sparse_dim()) {
    const auto dense = dim - input.sparse_dim() + 1;
    values = kLog ? at::log_softmax(values, dense) : at::softmax(values, dense);
  } else if (values.numel() > 0) {
    const Rows rows(input, dim);
    const auto shifted = values - rows.max(values), weights = shifted.exp(), sums = rows.sum(weights);
    values = kLog ? shifted - sums.log() : weights / sums;
  }
  return coo(input._indices().clone(), values, self.sizes(), true);
}

template <bool kLog>
Tensor softmax_backward(const Tensor& grad, const Tensor& output, int64_t dim, const Tensor& self) {
  TORCH_CHECK(grad.is_sparse() && output.is_sparse(), "_sparse_softmax_backward_data: sparse tensors expected");
  TORCH_CHECK(grad.sizes() == output.sizes(), "Expected grad and output to have the same size, but got ", grad.sizes(),
              " and ", output.sizes());
  CardGuard guard(output);
  const auto result = output.coalesce();
  dim = at::maybe_wrap_dim(dim, grad.dim());
  const auto y = result._values();
  const auto g = values_at(result._indices(), sparse_sizes(result), grad);
  Tensor values;
  if (dim >= result.sparse_dim()) {
    const auto dense = dim - result.sparse_dim() + 1;
    values = kLog ? at::_log_softmax_backward_data(g, y, dense, self.scalar_type())
                  : at::_softmax_backward_data(g, y, dense, self.scalar_type());
  } else if (y.numel() == 0) {
    values = g;
  } else {
    const Rows rows(result, dim);
    values = kLog ? g - y.exp() * rows.sum(g) : y * (g - rows.sum(g * y));
  }
  return coo(result._indices().clone(), values, grad.sizes(), true);
}

// The gradient of a sum over some dimensions: each entry gets that of its place in what is left.
Tensor sum_backward(const Tensor& grad, const Tensor& self, at::IntArrayRef dims) {
  CardGuard guard(self);
  if (grad.numel() == 0 || (grad.is_sparse() && grad._nnz() == 0)) return at::zeros_like(self);
  const auto summed = at::dim_list_to_bitset(dims, self.dim());
  const auto input = self.coalesce();
  const auto [left, sizes] = chosen(input, [&](int64_t d) { return !summed[d]; });
  TORCH_CHECK(grad.is_sparse() == left.defined(), "_sparse_sum_backward: expected a ",
              left.defined() ? "sparse" : "dense", " gradient");
  auto values = left.defined() ? values_at(left, sizes, grad) : grad.unsqueeze(0);
  for (int64_t d = input.sparse_dim(); d < input.dim(); d++)
    if (summed[d]) values = values.unsqueeze(d - input.sparse_dim() + 1);
  return coo(input._indices().clone(), values.expand_as(input._values()).contiguous(), input.sizes(),
             input.is_coalesced());
}

// The entries of `mask`, with the values that `self` has there.
Tensor sparse_mask(const Tensor& self, const Tensor& mask) {
  if (!self.is_sparse() || !mask.is_sparse()) return at::native::sparse_mask(self, mask);
  TORCH_CHECK(self.sizes() == mask.sizes(), "sparse_mask(): operands have incompatible sizes; self has size ",
              self.sizes(), " but mask has size ", mask.sizes());
  CardGuard guard(self);
  const auto aligned = self.sparse_dim() == mask.sparse_dim() ? self : self.to_dense().to_sparse(mask.sparse_dim());
  return coo(mask._indices().clone(), values_at(mask._indices(), sparse_sizes(mask), aligned), self.sizes(),
             mask.is_coalesced());
}

// The entries of `self`, zero where `mask` has none; with `accumulate` times the number of entries that it has there.
Tensor mask_projection(const Tensor& self, const Tensor& mask, bool accumulate) {
  TORCH_CHECK(
      self.is_sparse() && mask.is_sparse() && self.sparse_dim() == mask.sparse_dim() && self.sizes() == mask.sizes(),
      "_sparse_mask_projection: sparse tensors of the same size and layout expected");
  CardGuard guard(self);
  const auto ones =
      coo(mask._indices(), at::ones({mask._nnz()}, self._values().options()), sparse_sizes(mask), mask.is_coalesced());
  auto times = values_at(self._indices(), sparse_sizes(self), ones);
  if (!accumulate) times = times.ne(0).to(times.scalar_type());
  return coo(self._indices().clone(), self._values() * along_entries(times, self._values()), self.sizes(),
             self.is_coalesced());
}

}  // namespace

NPU_REGISTER(sparse_entries) {
  constexpr auto kCoo = c10::DispatchKey::SparsePrivateUse1;
  reg_as(kCoo, "aten::_sparse_softmax", "", &softmax<false>);
  reg_as(kCoo, "aten::_sparse_log_softmax", "", &softmax<true>);
  reg_as(kCoo, "aten::_sparse_softmax_backward_data", "", &softmax_backward<false>);
  reg_as(kCoo, "aten::_sparse_log_softmax_backward_data", "", &softmax_backward<true>);
  reg_as(kCoo, "aten::_sparse_sum_backward", "", &sum_backward);
  reg_as(kCoo, "aten::sparse_mask", "", &sparse_mask);
  reg_as(kCoo, "aten::_sparse_mask_projection", "", &mask_projection);
}

}  // namespace npu::ops
