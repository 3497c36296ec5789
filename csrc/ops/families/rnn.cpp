// The fused cells of LSTM and GRU, which upstream's loops over time call on devices.
#include <ATen/ATen.h>

#include "ops/register.h"
#include "ops/rules.h"

namespace npu::ops {

namespace {

using Optional = std::optional<Tensor>;

bool given(const Optional& t) { return t.has_value() && t->defined(); }

std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                                             const Optional& input_bias, const Optional& hidden_bias) {
  CardGuard guard(cx);
  auto hy = make(like(cx)), cy = make(like(cx)), workspace = make(like(input_gates));
  NPU_EXEC(aclnnThnnFusedLstmCell, input_gates, hidden_gates, cx, input_bias, hidden_bias, hy, cy, workspace);
  return {hy, cy, workspace};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const Optional& grad_hy, const Optional& grad_cy,
                                                      const Tensor& cx, const Tensor& cy, const Tensor& workspace,
                                                      bool has_bias) {
  if (!given(grad_hy) && !given(grad_cy)) return {};
  CardGuard guard(cx);
  auto grad_gates = make(like(workspace)), grad_cx = make(like(cx));
  auto grad_bias = empty({workspace.size(1)}, workspace.scalar_type());
  NPU_EXEC(aclnnThnnFusedLstmCellBackward, grad_hy, grad_cy, cx, cy, workspace, has_bias, grad_gates, grad_cx,
           grad_bias);
  return {grad_gates, grad_cx, has_bias ? grad_bias : Tensor()};
}

// What the gradient needs, side by side: reset gate, update gate, new state, hx, and the hidden part of the new state.
std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx,
                                    const Optional& input_bias, const Optional& hidden_bias) {
  const auto input = (given(input_bias) ? input_gates + *input_bias : input_gates).chunk(3, 1);
  const auto hidden = (given(hidden_bias) ? hidden_gates + *hidden_bias : hidden_gates).chunk(3, 1);
  const auto reset = (input[0] + hidden[0]).sigmoid_(), update = (input[1] + hidden[1]).sigmoid_();
  const auto fresh = at::addcmul(input[2], reset, hidden[2]).tanh_();
  return {at::lerp(fresh, hx, update), at::cat({reset, update, fresh, hx, hidden[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad_hy, const Tensor& workspace,
                                                                     bool has_bias) {
  const auto parts = workspace.chunk(5, 1);
  const auto &reset = parts[0], &update = parts[1], &fresh = parts[2], &hx = parts[3], &hidden = parts[4];
  const auto d_fresh = at::tanh_backward(grad_hy * (1 - update), fresh);
  const auto d_update = at::sigmoid_backward(grad_hy * (hx - fresh), update);
  const auto d_reset = at::sigmoid_backward(d_fresh * hidden, reset);
  const auto d_input = at::cat({d_reset, d_update, d_fresh}, 1),
             d_hidden = at::cat({d_reset, d_update, d_fresh * reset}, 1);
  if (!has_bias) return {d_input, d_hidden, grad_hy * update, Tensor(), Tensor()};
  return {d_input, d_hidden, grad_hy * update, d_input.sum(0), d_hidden.sum(0)};
}

}  // namespace

NPU_REGISTER(rnn) {
  manual("aten::_thnn_fused_lstm_cell", "", &lstm_cell, "aclnnThnnFusedLstmCell");
  manual("aten::_thnn_fused_lstm_cell_backward_impl", "", &lstm_cell_backward, "aclnnThnnFusedLstmCellBackward");
  manual("aten::_thnn_fused_gru_cell", "", &gru_cell);
  manual("aten::_thnn_fused_gru_cell_backward", "", &gru_cell_backward);
}

}  // namespace npu::ops
