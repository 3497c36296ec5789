// One layer of an LSTM in one direction, over all steps: forward and gradient.
#pragma once

#include "kernels/families/nn.h"

namespace softnpu::kernels {

// What the gradient needs is kept in `workspace` (5, steps, batch, hidden): the four gates of each row after their
// activation, in the order input, forget, cell, output, side by side; then the cell states.
void lstm_layer(Tensor& output, Tensor& hy, Tensor& cy, Tensor& workspace, const Tensor& input, const Tensor& weight_ih,
                const Tensor& weight_hh, const Tensor& bias_ih, const Tensor& bias_hh, const Tensor& hx,
                const Tensor& cx, bool reverse);

struct LstmGradients {
  Tensor &input, &weight_ih, &weight_hh, &bias, &hx, &cx;
};
void lstm_layer_backward(LstmGradients grad, const Tensor& input, const Tensor& weight_ih, const Tensor& weight_hh,
                         const Tensor& hx, const Tensor& cx, const Tensor& output, const Tensor& workspace,
                         const Optional& grad_output, const Optional& grad_hy, const Optional& grad_cy, bool reverse);

}  // namespace softnpu::kernels
