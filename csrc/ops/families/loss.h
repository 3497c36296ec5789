// What the rows of softmax, losses and sampling check and prepare before they launch. Sizes may be symbolic.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <optional>

namespace npu::ops {

using at::Tensor;

// Places of CTC's lattice: blanks around every label, in whole vectors of eight.
inline int64_t ctc_states(at::IntArrayRef target_lengths) {
  const auto longest = std::max_element(target_lengths.begin(), target_lengths.end());
  return longest == target_lengths.end() ? 8 : (2 * *longest + 1 + 7) / 8 * 8;
}

// The weights of the classes, the second dimension of `self` or its only one: the operators want them, ones if need be.
Tensor class_weights(const std::optional<Tensor>& weight, const Tensor& self);
// `t` broadcasts to the shape of `x`.
void check_broadcast(const char* op, const char* argument, const std::optional<Tensor>& t, const Tensor& x);
// The same for a mask, unless it is the fixed one, which needs as many rows as columns.
void check_mask(const char* op, const Tensor& x, const Tensor& mask, bool fixed);
void check_cross_entropy(const char* op, const Tensor& rows, const Tensor& target, const std::optional<Tensor>& weight,
                         std::string_view reduction, double label_smoothing);
// input [tokens, hidden], weight [vocabulary, hidden], target [tokens].
void check_linear_loss(const char* op, const Tensor& input, const Tensor& weight, const Tensor& target);
// One number for each row of logits [rows, vocabulary].
void check_per_row(const char* op, const char* argument, const std::optional<Tensor>& t, const Tensor& logits);
// The gradient of probabilities that were multiplied with values: grad_output times values, transposed.
Tensor attended_gradient(const Tensor& probabilities, const Tensor& grad_output, const Tensor& values);

}  // namespace npu::ops
