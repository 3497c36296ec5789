// Matrix products before and behind collectives. Sums are float32; the product is rounded once, before it is reduced.
#pragma once

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "kernels/families/normalization.h"

namespace softnpu::kernels {

inline void product_with(const Tensor& out, const Tensor& a, const Tensor& b, const Optional& bias,
                         const Optional& added) {
  auto result = at::matmul(wide(a), wide(b));
  if (bias) result = result + wide(*bias);
  if (added) result = result + wide(*added);
  out.copy_(result);
}

// Rows that came by rank and expert are brought into the order of expert and rank, and multiplied by the expert's
// matrix. `counts`: rows of rank r for expert e at [r * experts + e].
void grouped_product(const Tensor& out, const Tensor& rows, const Tensor& weight, IntArrayRef counts, int64_t ranks,
                     bool transposed);

}  // namespace softnpu::kernels
