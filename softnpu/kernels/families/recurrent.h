// Recurrent networks of several layers and directions, step by step in float32. A part is a layer in one direction;
// lists of steps have a tensor [steps, batch, hidden] for each.
#pragma once

#include "kernels/families/normalization.h"

namespace softnpu::kernels {

using Steps = const std::vector<Tensor>*;

// Parameters of each part: w_ih, w_hh, and b_ih, b_hh if there are biases.
struct Recurrent {
  const Tensor& input;
  const std::vector<Tensor>& params;
  bool biases;
  int64_t layers;
  bool bidirectional, batch_first;
  int64_t gates;

  int64_t directions() const { return bidirectional ? 2 : 1; }
  int64_t parts() const { return layers * directions(); }
  int64_t per_part() const { return biases ? 4 : 2; }
  Tensor first() const { return wide(batch_first ? input.transpose(0, 1) : input); }  // [steps, batch, inputs]
};

// Steps: reset, update, new, the hidden part of new, state. None are kept where the lists are empty.
void gru(const Recurrent& net, const Tensor& hx, Tensor& y, Tensor& hy, std::array<Steps, 5> steps);
void gru_backward(const Recurrent& net, const Tensor& hx, const Tensor& grad_y, const Tensor& grad_h,
                  std::array<Steps, 5> steps, Tensor& grad_input, Tensor& grad_hx,
                  const std::vector<Tensor>& grad_params);
// Steps: input gate, cell gate, forget gate, output gate, states h and c, tanh(c).
void lstm(const Recurrent& net, const std::vector<Tensor>& hx, Tensor& y, Tensor& hy, Tensor& cy,
          std::array<Steps, 7> steps);
// A gradient that is not there is zero.
void lstm_backward(const Recurrent& net, const std::vector<Tensor>& hx, const Optional& grad_y, const Optional& grad_h,
                   const Optional& grad_c, std::array<Steps, 7> steps, Tensor& grad_input, Tensor& grad_hx,
                   Tensor& grad_cx, const std::vector<Tensor>& grad_params);

namespace require {
void recurrent(const Recurrent& net, const std::vector<Tensor>& states, const Optional& batch_sizes, double dropout,
               const Optional& y, const std::vector<Tensor>& last);
void steps(std::initializer_list<Steps> lists, const Recurrent& net, bool kept);
void pairs(const std::vector<Tensor>& made, const std::vector<Tensor>& like);
}  // namespace require

}  // namespace softnpu::kernels
