// A tensor that moves into the memory of another one.
#pragma once

#include <ATen/core/Tensor.h>

namespace npu::ops {

// The storage of `dst` becomes the part of that of `src` that begins at element `index`, with what is in it; the two
// share it from then on. Returns 0, as the official plugin does.
int64_t change_data_ptr(const at::Tensor& dst, const at::Tensor& src, int64_t index);

}  // namespace npu::ops
