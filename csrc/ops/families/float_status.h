// The float status of the card: whether an operator has overflowed. CANN has no aclnn operators for it: they run
// through its older compiler of single operators.
#pragma once

#include <ATen/core/Tensor.h>

namespace npu::ops {

void check_float_status_mode(const char* op, int64_t mode);

// Each writes the eight numbers of `status`: zeros, or the card's status, whose first number is 0 without an overflow.
void make_float_status(const at::Tensor& status);
void read_float_status(const at::Tensor& status, int64_t mode);
void clear_float_status(const at::Tensor& status, int64_t mode);

// What read_float_status fills: chips before the Ascend910B1 keep the status as float.
at::ScalarType float_status_type(int64_t mode);

}  // namespace npu::ops
