// What the gated delta rule requires: query and key [tokens, heads, size], value [tokens, value heads, value size],
// states [count, value heads, value size, size].
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace npu::ops {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

void check_delta(const char* op, const Tensor& query, const Tensor& key, const Tensor& value,
                 const OptionalTensor& state, const OptionalTensor& lengths);
void check_recurrent(const char* op, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& state,
                     const OptionalTensor& lengths, const OptionalTensor& indices, const OptionalTensor& gk);
double delta_scale(const Tensor& query, std::optional<double> scale);  // 1 / sqrt(size) for none

}  // namespace npu::ops
