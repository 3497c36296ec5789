// Recurrent layers as the interface before aclnn has them: one layer and direction, all steps of the states and gates.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <string>

namespace softnpu::kernels {

using at::Tensor;

// What the operators have in common. The attributes of other networks are refused: see `plain`.
struct DynamicRnn {
  const Tensor& x;    // [steps, batch, inputs]
  Tensor w_ih, w_hh;  // [inputs, gates * hidden], [hidden, gates * hidden]
  const std::string& gate_order;
  const std::string& direction;
  std::optional<Tensor> steps;  // [steps, batch, hidden], zero where a sequence has ended; none, or no dimensions: all

  int64_t hidden() const { return w_hh.size(0); }
  bool masked() const { return steps && steps->dim() == 3; }
};

// One step may come without the dimension of steps.
inline Tensor sequence(const Tensor& t) { return t.dim() == 2 ? t.unsqueeze(0) : t; }

// `w` has the rows of both.
DynamicRnn rnn_of(const Tensor& x, const Tensor& w, const std::string& gate_order, const std::string& direction,
                  std::optional<Tensor> steps = {});

// y, h, c, input gate, cell gate, forget gate, output gate, tanh(c): [steps, batch, hidden] each.
void dynamic_rnn(const DynamicRnn& net, const std::optional<Tensor>& bias, const std::optional<Tensor>& h,
                 const std::optional<Tensor>& c, std::array<Tensor*, 8> outputs);
// `kept`: h, c, i, j, f, o, tanh(c). Gradients of y for every step, of h and c for the last one.
struct RnnGradients {
  Tensor x, bias, h, c;
  Tensor w_ih, w_hh;
};
void dynamic_rnn_backward(const DynamicRnn& net, const Tensor& h, const Tensor& c, const Tensor& dy, const Tensor& dh,
                          const Tensor& dc, std::array<Tensor, 7> kept, RnnGradients out);

// y, h, update, reset, new, the hidden part of new.
void dynamic_gru(const DynamicRnn& net, const std::optional<Tensor>& b_ih, const std::optional<Tensor>& b_hh,
                 const std::optional<Tensor>& h, std::array<Tensor*, 6> outputs);
struct GruGradients {
  Tensor w_ih, w_hh, b_ih, b_hh, x, h;
};
// `kept`: h, update, reset, new, the hidden part of new.
void dynamic_gru_backward(const DynamicRnn& net, const Tensor& h, const Tensor& dy, const Tensor& dh,
                          std::array<Tensor, 5> kept, GruGradients out);

namespace require {

void plain(const std::string& cell_type, bool peephole, double keep_prob, double cell_clip, int64_t num_proj,
           bool time_major, const std::string& activation, double forget_bias);
void recurrence(const DynamicRnn& net, int64_t gates, std::initializer_list<std::optional<Tensor>> biases,
                std::initializer_list<std::optional<Tensor>> states,
                std::initializer_list<std::optional<Tensor>> sequences);
void dynamic_weights(const Tensor& x, const Tensor& w, int64_t gates);

}  // namespace require

}  // namespace softnpu::kernels
