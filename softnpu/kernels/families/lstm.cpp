// The products with the input are one matrix product for all steps; a step adds the product with the state and runs
// over its gates.
#include "kernels/families/lstm.h"

#include <ATen/CPUFunctions.h>
#include <ATen/Dispatch.h>
#include <ATen/Functions.h>

namespace softnpu::kernels {

namespace {

struct Sizes {
  int64_t steps, batch, hidden;
  explicit Sizes(const Tensor& output) : steps(output.size(0)), batch(output.size(1)), hidden(output.size(2)) {}
  int64_t rows() const { return steps * batch; }
};

Tensor gates_of(const Tensor& workspace, const Sizes& s) {
  return workspace.narrow(0, 0, 4).view({s.steps, s.batch, 4 * s.hidden});
}
Tensor cells_of(const Tensor& workspace) { return workspace.select(0, 4); }

// c = forget * c_before + input * cell, for one step.
template <class T>
void next_cell(T* c, const T* gates, const T* before, const Sizes& s) {
  const int64_t n = s.hidden;
  for (int64_t b = 0; b < s.batch; b++, c += n, before += n, gates += 4 * n)
    for (int64_t i = 0; i < n; i++) c[i] = gates[n + i] * before[i] + gates[i] * gates[2 * n + i];
}

// h = output gate * tanh(c); h holds tanh(c) already.
template <class T>
void next_hidden(T* h, const T* gates, const Sizes& s) {
  const int64_t n = s.hidden;
  for (int64_t b = 0; b < s.batch; b++, h += n, gates += 4 * n)
    for (int64_t i = 0; i < n; i++) h[i] *= gates[3 * n + i];
}

// One step back. dh, dc: the gradients that arrive at this step's states; dc leaves as that of the step before.
template <class T>
void step_back(T* d_gates, T* dc, const T* dh, const T* d_out, const T* gates, const T* squashed, const T* before,
               const Sizes& s) {
  const int64_t n = s.hidden;
  for (int64_t b = 0; b < s.batch; b++) {
    for (int64_t k = 0; k < n; k++) {
      const T i = gates[k], f = gates[n + k], g = gates[2 * n + k], o = gates[3 * n + k], t = squashed[k];
      const T h = dh[k] + (d_out ? d_out[k] : T(0));
      const T c = dc[k] + h * o * (1 - t * t);
      d_gates[k] = c * g * i * (1 - i);
      d_gates[n + k] = c * before[k] * f * (1 - f);
      d_gates[2 * n + k] = c * i * (1 - g * g);
      d_gates[3 * n + k] = h * t * o * (1 - o);
      dc[k] = c * f;
    }
    d_gates += 4 * n, gates += 4 * n, dc += n, dh += n, squashed += n, before += n;
    if (d_out) d_out += n;
  }
}

Tensor start(const Optional& grad, const Tensor& like) {
  return grad && grad->defined() ? grad->reshape(like.sizes()).clone(at::MemoryFormat::Contiguous)
                                 : at::zeros(like.sizes(), like.options());
}

}  // namespace

void lstm_layer(Tensor& output, Tensor& hy, Tensor& cy, Tensor& workspace, const Tensor& input, const Tensor& weight_ih,
                const Tensor& weight_hh, const Tensor& bias_ih, const Tensor& bias_hh, const Tensor& hx,
                const Tensor& cx, bool reverse) {
  const Sizes s(output);
  const int64_t n = s.hidden;
  const auto gates = gates_of(workspace, s), cells = cells_of(workspace);
  auto all = gates.view({s.rows(), 4 * n});
  at::cpu::addmm_out(all, at::add(bias_ih, bias_hh), input.reshape({s.rows(), -1}), weight_ih.t());
  const auto recurrent = weight_hh.t();
  Tensor h = hx.contiguous(), c = cx.contiguous();
  for (int64_t i = 0; i < s.steps; i++) {
    const int64_t t = reverse ? s.steps - 1 - i : i;
    auto g = gates.select(0, t), next = cells.select(0, t), out = output.select(0, t);
    at::cpu::addmm_(g, h, recurrent);
    auto in_forget = g.narrow(1, 0, 2 * n), cell = g.narrow(1, 2 * n, n), last = g.narrow(1, 3 * n, n);
    at::cpu::sigmoid_(in_forget);
    at::cpu::tanh_(cell);
    at::cpu::sigmoid_(last);
    AT_DISPATCH_FLOATING_TYPES(output.scalar_type(), "lstm_layer", [&] {
      next_cell(next.mutable_data_ptr<scalar_t>(), g.const_data_ptr<scalar_t>(), c.const_data_ptr<scalar_t>(), s);
      at::cpu::tanh_out(out, next);
      next_hidden(out.mutable_data_ptr<scalar_t>(), g.const_data_ptr<scalar_t>(), s);
    });
    h = out, c = next;
  }
  hy.copy_(h.view(hy.sizes()));
  cy.copy_(c.view(cy.sizes()));
}

void lstm_layer_backward(LstmGradients grad, const Tensor& input, const Tensor& weight_ih, const Tensor& weight_hh,
                         const Tensor& hx, const Tensor& cx, const Tensor& output, const Tensor& workspace,
                         const Optional& grad_output, const Optional& grad_hy, const Optional& grad_cy, bool reverse) {
  const Sizes s(output);
  const int64_t n = s.hidden;
  const auto gates = gates_of(workspace, s), cells = cells_of(workspace), squashed = at::tanh(cells);
  const auto d_gates = at::empty({s.steps, s.batch, 4 * n}, output.options());
  const auto first = cx.contiguous();
  const auto d_output = grad_output && grad_output->defined() ? grad_output->contiguous() : Tensor();
  auto dh = start(grad_hy, hx), dc = start(grad_cy, cx);
  for (int64_t i = 0; i < s.steps; i++) {
    const int64_t t = reverse ? i : s.steps - 1 - i, before = reverse ? t + 1 : t - 1;
    auto d = d_gates.select(0, t);
    AT_DISPATCH_FLOATING_TYPES(output.scalar_type(), "lstm_layer_backward", [&] {
      const int64_t state = s.batch * n;
      const bool is_first = i + 1 == s.steps;
      step_back(d.mutable_data_ptr<scalar_t>(), dc.mutable_data_ptr<scalar_t>(), dh.const_data_ptr<scalar_t>(),
                d_output.defined() ? d_output.const_data_ptr<scalar_t>() + t * state : nullptr,
                gates.const_data_ptr<scalar_t>() + 4 * t * state, squashed.const_data_ptr<scalar_t>() + t * state,
                is_first ? first.const_data_ptr<scalar_t>() : cells.const_data_ptr<scalar_t>() + before * state, s);
    });
    at::cpu::mm_out(dh, d, weight_hh);
  }
  grad.hx.copy_(dh.view(grad.hx.sizes()));
  grad.cx.copy_(dc.view(grad.cx.sizes()));
  const auto all = d_gates.view({s.rows(), 4 * n});
  const auto start_state = hx.reshape({1, s.batch, n});
  const auto states = reverse ? at::cat({output.narrow(0, 1, s.steps - 1), start_state})
                              : at::cat({start_state, output.narrow(0, 0, s.steps - 1)});
  auto d_input = grad.input.view({s.rows(), -1});
  at::cpu::mm_out(d_input, all, weight_ih);
  at::cpu::mm_out(grad.weight_ih, all.t(), input.reshape({s.rows(), -1}));
  at::cpu::mm_out(grad.weight_hh, all.t(), states.view({s.rows(), n}));
  at::cpu::sum_out(grad.bias, all, at::IntArrayRef{0});
}

}  // namespace softnpu::kernels
