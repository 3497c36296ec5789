// What kernels of the interface before aclnn share. Constants of the host are tensors whose numbers stand in memory.
#pragma once

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

namespace softnpu::kernels {

using at::Tensor;
using Optional = std::optional<Tensor>;

// `result` into `out`, which may have other dimensions of size 1 only.
inline void put(Tensor& out, const Tensor& result) {
  const auto without_ones = [](at::IntArrayRef sizes) {
    std::vector<int64_t> kept;
    for (const int64_t size : sizes)
      if (size != 1) kept.push_back(size);
    return kept;
  };
  TORCH_CHECK(out.sizes() == result.sizes() || without_ones(out.sizes()) == without_ones(result.sizes()),
              "the output has shape ", out.sizes(), ", the result ", result.sizes());
  out.copy_(result.reshape(out.sizes()));
}

inline void put_both(Tensor& first, Tensor& second, const std::tuple<Tensor, Tensor>& results) {
  put(first, std::get<0>(results));
  put(second, std::get<1>(results));
}

// Added up in float32, as a matrix unit does.
inline Tensor legacy_product(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b,
                             const Optional& bias) {
  TORCH_CHECK(a.dim() >= 2 && b.dim() >= 2, "factors have ", a.dim(), " and ", b.dim(), " dimensions");
  const auto wide = [](const Tensor& t) { return t.scalar_type() == at::kHalf ? t.to(at::kFloat) : t; };
  auto result = at::matmul(wide(transpose_a ? a.mT() : a), wide(transpose_b ? b.mT() : b));
  return bias ? result + wide(*bias) : result;
}

// The numbers of a constant.
inline std::vector<int64_t> integers(const Tensor& t) {
  const auto numbers = t.to(at::kLong).contiguous();
  return {numbers.const_data_ptr<int64_t>(), numbers.const_data_ptr<int64_t>() + numbers.numel()};
}
inline Tensor product_over(const Tensor& x, const std::vector<int64_t>& axes, bool keep) {
  auto result = x;
  for (const int64_t axis : axes) result = at::prod(result, axis, true);
  return keep ? result : at::sum(result, axes, false);  // of one number each
}

inline std::vector<double> reals(const std::vector<at::Scalar>& numbers) {
  std::vector<double> all;
  for (const auto& number : numbers) all.push_back(number.toDouble());
  return all;
}

inline void fill(Tensor& out, const Tensor& dims, const Tensor& value) {
  const auto sizes = integers(dims);
  TORCH_CHECK(at::IntArrayRef(sizes) == out.sizes() || (out.dim() == 0 && c10::multiply_integers(sizes) == 1),
              "dims is ", sizes, ", the output has shape ", out.sizes());
  out.fill_(value.reshape({}));
}

}  // namespace softnpu::kernels
