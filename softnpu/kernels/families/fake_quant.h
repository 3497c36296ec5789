// Quantisation while training: values rounded to the grid that integers of a scale and a zero point have.
#pragma once

#include <ATen/core/Tensor.h>

namespace softnpu::kernels {

// `mask` says which values were within the limits. Scale and zero point broadcast to `self`.
void fake_quantize(at::Tensor& out, at::Tensor& mask, const at::Tensor& self, const at::Tensor& scale,
                   const at::Tensor& zero_point, int64_t least, int64_t most);
// Numbers for each element along `axis`, shaped to meet `self`.
at::Tensor by_channel(const at::Tensor& values, const at::Tensor& self, int64_t axis);

}  // namespace softnpu::kernels
