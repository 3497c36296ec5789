// Copies between any two layouts of one card: aclnnInplaceCopy.
#pragma once

#include <ATen/core/Tensor.h>

namespace softnpu::kernels {

// to.copy_(from). ATen's loop follows one of the two layouts and strides through the other, a cache line for every
// element; where their innermost dimensions differ (a transposition somewhere in a chain of views), blocks that fit the
// cache are turned instead. What an expansion repeats is gathered once.
void strided_copy(at::Tensor& to, const at::Tensor& from);

}  // namespace softnpu::kernels
