// Lossless compression of floating numbers. Here the byte with a number's exponent goes to `fixed`, and what does not
// fit there to `var`; the other bytes, with the sign in their lowest bit, go to `mantissa`. Nothing becomes shorter:
// the distribution of the exponents is told, not used, and the parts of several cores need no reordering.
#pragma once

#include <ATen/core/Tensor.h>

namespace softnpu::kernels {

using at::Tensor;

void hans_encode(const Tensor& input, Tensor& pdf, bool statistic, Tensor& mantissa, Tensor& fixed, Tensor& var);
void hans_decode(const Tensor& mantissa, const Tensor& fixed, const Tensor& var, Tensor& out);

namespace require {

void hans(const Tensor& numbers, const Tensor& mantissa, const Tensor& fixed, const Tensor& var);

}  // namespace require
}  // namespace softnpu::kernels
