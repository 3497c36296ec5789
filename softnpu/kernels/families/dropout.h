// Dropout with a mask of one bit an element: bit i of the mask, lowest first in each byte, says whether element i is
// kept.
#pragma once

#include <ATen/core/Tensor.h>

namespace softnpu::kernels::dropout {

// Fills `mask` (uint8) for `shape`; an element is dropped with probability p. Bits behind the last element are zero.
void generate(at::Tensor& mask, at::IntArrayRef shape, double p, uint64_t seed, uint64_t offset);
// The mask as booleans of this shape.
at::Tensor unpack(const at::Tensor& mask, at::IntArrayRef shape);
// out = self / (1 - p) where kept, 0 elsewhere.
void apply(at::Tensor& out, const at::Tensor& self, const at::Tensor& mask, double p);

}  // namespace softnpu::kernels::dropout
