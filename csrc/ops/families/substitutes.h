// What takes the place of an operator that CANN does not have for a type, for its row.
#pragma once

#include <ATen/core/Tensor.h>

namespace npu::ops {

// e^z - 1 of complex numbers, from their parts.
void expm1_of_parts(const at::Tensor& self, const at::Tensor& out);

}  // namespace npu::ops
