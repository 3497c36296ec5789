// The fused cells that torch.nn.LSTM and torch.nn.GRU call on accelerators, composed of elementwise operators. The workspace
// holds what backward needs: an LSTM's gates after their activation; a GRU's r, z, n, hx and the hidden part of n.
#include <ATen/ATen.h>

#include "registry.h"

namespace npu::ops {

namespace {

using at::Tensor;
using Optional = std::optional<Tensor>;

bool given(const Optional& t) { return t.has_value() && t->defined(); }
Tensor biased(const Tensor& gates, const Optional& bias) { return given(bias) ? gates + *bias : gates; }

std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                                             const Optional& input_bias, const Optional& hidden_bias) {
  const auto gates = (biased(input_gates, input_bias) + biased(hidden_gates, hidden_bias)).chunk(4, 1);
  const Tensor i = gates[0].sigmoid(), f = gates[1].sigmoid(), g = gates[2].tanh(), o = gates[3].sigmoid();
  const Tensor cy = f * cx + i * g;
  return {o * cy.tanh(), cy, at::cat({i, f, g, o}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const Optional& grad_hy, const Optional& grad_cy, const Tensor& cx,
                                                      const Tensor& cy, const Tensor& workspace, bool has_bias) {
  if (!given(grad_hy) && !given(grad_cy)) return {};
  const auto gates = workspace.chunk(4, 1);
  const Tensor &i = gates[0], &f = gates[1], &g = gates[2], &o = gates[3];
  const Tensor tanh_cy = cy.tanh();
  Tensor grad_o = at::zeros_like(o), grad_c = given(grad_cy) ? *grad_cy : at::zeros_like(cy);
  if (given(grad_hy)) {
    grad_o = *grad_hy * tanh_cy;
    grad_c = grad_c + *grad_hy * o * (1 - tanh_cy * tanh_cy);
  }
  const Tensor grad_gates = at::cat({grad_c * g * i * (1 - i), grad_c * cx * f * (1 - f), grad_c * i * (1 - g * g),
                                     grad_o * o * (1 - o)}, 1);
  return {grad_gates, grad_c * f, has_bias ? grad_gates.sum(0) : Tensor()};
}

std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx,
                                    const Optional& input_bias, const Optional& hidden_bias) {
  const auto input = biased(input_gates, input_bias).chunk(3, 1), hidden = biased(hidden_gates, hidden_bias).chunk(3, 1);
  const Tensor r = (input[0] + hidden[0]).sigmoid(), z = (input[1] + hidden[1]).sigmoid();
  const Tensor n = (input[2] + r * hidden[2]).tanh();
  return {n + z * (hx - n), at::cat({r, z, n, hx, hidden[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad_hy, const Tensor& workspace, bool has_bias) {
  const auto saved = workspace.chunk(5, 1);
  const Tensor &r = saved[0], &z = saved[1], &n = saved[2], &hx = saved[3], &hidden_n = saved[4];
  const Tensor grad_n = grad_hy * (1 - z) * (1 - n * n);
  const Tensor grad_z = grad_hy * (hx - n) * z * (1 - z);
  const Tensor grad_r = grad_n * hidden_n * r * (1 - r);
  const Tensor grad_input = at::cat({grad_r, grad_z, grad_n}, 1), grad_hidden = at::cat({grad_r, grad_z, grad_n * r}, 1);
  return {grad_input, grad_hidden, grad_hy * z, has_bias ? grad_input.sum(0) : Tensor(), has_bias ? grad_hidden.sum(0) : Tensor()};
}

}  // namespace

NPU_REGISTER(rnn_cell) {
  manual("aten::_thnn_fused_lstm_cell", "", &lstm_cell);
  manual("aten::_thnn_fused_lstm_cell_backward_impl", "", &lstm_cell_backward);
  manual("aten::_thnn_fused_gru_cell", "", &gru_cell);
  manual("aten::_thnn_fused_gru_cell_backward", "", &gru_cell_backward);
}

}  // namespace npu::ops
