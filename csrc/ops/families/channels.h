// Numbers for each channel of a tensor, as its quantisation has them.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace npu::ops {

// One number for each index of dimension `axis`: shaped so that it broadcasts along the others.
inline at::Tensor along(const at::Tensor& t, const at::Tensor& self, int64_t axis) {
  std::vector<int64_t> shape(self.dim(), 1);
  shape[axis] = t.numel();
  return t.view(shape);
}

}  // namespace npu::ops
