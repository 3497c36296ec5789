// What gradients that are operators of their own compute before they launch.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace npu::ops {

using at::Tensor;

void check_repeats(const Tensor& grad, const Tensor& input, const Tensor& repeats, std::optional<int64_t> dim);
// A number for all elements is read from the card, and summed over.
void repeat_interleave_backward(const Tensor& grad, const Tensor& repeats, std::optional<int64_t> dim,
                                const Tensor& out);

}  // namespace npu::ops
