// One step of an LSTM: gates, new state, and the gradient.
#pragma once

#include <ATen/Functions.h>

#include <optional>

namespace softnpu::kernels {

// `storage` keeps the four gates after their activation: input, forget, cell, output.
inline void lstm_cell(at::Tensor& hy, at::Tensor& cy, at::Tensor& storage, const at::Tensor& input_gates,
                      const at::Tensor& hidden_gates, const at::Tensor& cx, const std::optional<at::Tensor>& input_bias,
                      const std::optional<at::Tensor>& hidden_bias) {
  auto gates = at::add(input_gates, hidden_gates);
  if (input_bias) gates.add_(*input_bias);
  if (hidden_bias) gates.add_(*hidden_bias);
  const auto parts = gates.chunk(4, 1);
  const auto in = parts[0].sigmoid_(), forget = parts[1].sigmoid_(), cell = parts[2].tanh_(), out = parts[3].sigmoid_();
  const auto next = at::add(at::mul(forget, cx), at::mul(in, cell));
  storage.copy_(gates);
  cy.copy_(next);
  hy.copy_(at::mul(out, next.tanh()));
}

inline void lstm_cell_backward(at::Tensor& grad_gates, at::Tensor& grad_cx, at::Tensor& grad_bias,
                               const std::optional<at::Tensor>& grad_hy, const std::optional<at::Tensor>& grad_cy,
                               const at::Tensor& cx, const at::Tensor& cy, const at::Tensor& storage, bool has_bias) {
  const auto parts = storage.chunk(4, 1);
  const auto &in = parts[0], &forget = parts[1], &cell = parts[2], &out = parts[3];
  const auto squashed = cy.tanh();
  auto d_state = grad_cy ? grad_cy->clone() : at::zeros_like(cx);
  if (grad_hy) d_state.add_(at::tanh_backward(at::mul(*grad_hy, out), squashed));
  const auto d_out = grad_hy ? at::sigmoid_backward(at::mul(*grad_hy, squashed), out) : at::zeros_like(out);
  const auto all =
      at::cat({at::sigmoid_backward(at::mul(d_state, cell), in), at::sigmoid_backward(at::mul(d_state, cx), forget),
               at::tanh_backward(at::mul(d_state, in), cell), d_out},
              1);
  grad_gates.copy_(all);
  grad_cx.copy_(at::mul(d_state, forget));
  if (has_bias) grad_bias.copy_(all.sum(0));
}

}  // namespace softnpu::kernels
