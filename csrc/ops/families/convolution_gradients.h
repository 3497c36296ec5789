// What convolutions under names of their own need: those over time, of each channel on its own, and gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace npu::ops {

using at::Tensor;

// Batches of images, and a kernel size that is weight's.
inline void check_kernel_size(const char* op, const Tensor& grad_output, const Tensor& input, const Tensor& weight,
                              at::IntArrayRef kernel_size) {
  TORCH_CHECK(grad_output.dim() == 4 && input.dim() == 4 && weight.dim() == 4, op,
              " expects grad_output, input and weight of 4 dimensions, found ", grad_output.dim(), ", ", input.dim(),
              " and ", weight.dim());
  TORCH_CHECK(kernel_size.size() == 2 && weight.sym_size(2) == kernel_size[0] && weight.sym_size(3) == kernel_size[1],
              op, ": kernel_size is ", kernel_size, ", expected the last two sizes of weight, ", weight.sym_sizes());
}

inline Tensor wanted(bool asked, const Tensor& gradient) { return asked ? gradient : Tensor(); }

template <class... T>
std::vector<int64_t> sizes_of(T... sizes) {
  return {static_cast<int64_t>(sizes)...};
}

}  // namespace npu::ops
