// Casts between the formats in which memory holds a tensor. See Note [Private formats] in runtime/storage_format.h.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/results.h"

namespace npu::ops {

using at::Tensor;

// `t` in another format, contiguous. `customize_dtype` is the type by whose width blocks are as wide as they are;
// `input_dtype`, what the numbers of `t` stand for, can only be their own type.
Tensor format_cast(const Tensor& t, int64_t format, std::optional<int64_t> customize_dtype = std::nullopt,
                   std::optional<int64_t> input_dtype = std::nullopt);

int64_t format_of(const Tensor& t);
// The elements that its storage has room for.
int64_t storage_elements(const Tensor& t);

}  // namespace npu::ops
