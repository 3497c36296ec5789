// What npu:: operators refuse before they launch, in words that name the argument. Sizes may be symbolic.
#pragma once

#include <ATen/core/Tensor.h>

namespace npu::ops {

using at::Tensor;

void check_groups(const char* op, const Tensor& input, int64_t groups);  // divide the channels, dimension 1
void check_halves(const char* op, const Tensor& input, int64_t dim);     // dimension `dim` has two halves
void check_one_of(const char* op, const char* argument, std::string_view value,
                  std::initializer_list<const char*> accepted);

}  // namespace npu::ops
