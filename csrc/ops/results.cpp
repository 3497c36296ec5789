#include "ops/results.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/empty.h>

#include "ops/tensor.h"

namespace npu::ops::results {

bool on_card(const Tensor& on) {
  if (is_npu(on)) return true;
  // The dispatcher comes here for any tensor on a card: the one that says where the operator runs may be elsewhere.
  TORCH_CHECK(on.is_meta(),
              "Expected all tensors to be on the same device, but the first one of an operator of npu is on ",
              on.device(), " and another one on npu");
  return false;
}

Tensor make(const Tensor& on, const Result& result) {
  const c10::SymIntArrayRef sizes(result.sizes.data(), result.sizes.size());
  if (on_card(on)) return empty(C10_AS_INTARRAYREF_SLOW(sizes), result.dtype);
  return at::empty_symint(sizes, on.options().dtype(result.dtype));
}

Dims with_dim(const Tensor& t, int64_t dim, c10::SymInt length) {
  Dims sizes = dims(t);
  sizes[at::maybe_wrap_dim(dim, t.dim())] = std::move(length);
  return sizes;
}

Dims without_dim(const Tensor& t, int64_t dim) {
  Dims sizes = dims(t);
  sizes.erase(sizes.begin() + at::maybe_wrap_dim(dim, t.dim()));
  return sizes;
}

Dims split_last(const Tensor& t, c10::SymInt count, c10::SymInt length) {
  auto sizes = with_dim(t, -1, std::move(count));
  sizes.push_back(std::move(length));
  return sizes;
}

Dims kept(const Tensor& t, int64_t count) {
  TORCH_CHECK(count <= t.dim(), "a tensor of ", t.dim(), " dimensions cannot be normalised over its last ", count);
  Dims sizes = dims(t);
  std::fill(sizes.end() - count, sizes.end(), 1);
  return sizes;
}

Dims broadcast(const Tensor& a, const Tensor& b) {
  return dims(at::infer_size_symdimvector(a.sym_sizes(), b.sym_sizes()));
}

}  // namespace npu::ops::results
