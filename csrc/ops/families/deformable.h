// What a deformable convolution requires of its arguments. stride and dilation are (1, 1, vertical, horizontal),
// padding is (top, bottom, left, right).
#pragma once

#include <ATen/core/Tensor.h>

namespace npu::ops {

using at::Tensor;

void check_deformable(const char* op, const Tensor& input, const Tensor& weight, const Tensor& offset,
                      at::IntArrayRef kernel_size, at::IntArrayRef stride, at::IntArrayRef padding,
                      at::IntArrayRef dilation, int64_t groups, int64_t deformable_groups, bool modulated);

}  // namespace npu::ops
