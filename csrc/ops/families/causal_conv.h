// What causal convolutions require. Weights are [width, channels].
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

namespace npu::ops {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// input [sequence, batch, channels], mask [batch, sequence].
void check_masked_conv(const char* op, const Tensor& input, const Tensor& weight, const OptionalTensor& mask);
// x [batch, tokens, channels], or [all tokens, channels] with the starts of the sequences; states [slots, length,
// channels]. Cache indices of two dimensions, blocks of each sequence, need the four tensors of prefix caching.
void check_fused_conv(const char* op, const Tensor& x, const Tensor& weight, const Tensor& states,
                      const OptionalTensor& starts, const OptionalTensor& cache_indices, const OptionalTensor& computed,
                      const OptionalTensor& first_block, const OptionalTensor& last_block,
                      const OptionalTensor& initial_block, std::optional<std::string_view> activation,
                      std::optional<std::string_view> mode);
int64_t activation_number(std::optional<std::string_view> activation);  // none 0, silu 1, swish 2
int64_t conv_mode_number(std::optional<std::string_view> mode);         // default 0, pangu 1

}  // namespace npu::ops
