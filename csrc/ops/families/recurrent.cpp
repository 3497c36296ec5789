#include "ops/families/recurrent.h"

#include <ATen/ATen.h>

#include "aclnn/op.h"
#include "ops/tensor.h"

namespace npu::ops {

void Recurrent::check(at::TensorList states, double dropout, bool train, const OptionalTensor& batch_sizes) const {
  TORCH_CHECK(!batch_sizes || batch_sizes->sym_numel() == 0, op,
              " supports no batch_sizes: what the device keeps of packed sequences is not published");
  TORCH_CHECK(dropout == 0 || !train || layers == 1, op, ": dropout is ", dropout,
              ", expected 0; dropout between layers has no seed here");
  TORCH_CHECK(input.dim() == 3, op, ": input has shape ", input.sym_sizes(),
              ", expected three dimensions, steps, batch and inputs");
  TORCH_CHECK(static_cast<int64_t>(params.size()) == parts() * per_part() && layers > 0, op, ": params has ",
              params.size(), " tensors, expected ", per_part(), " for each of ", layers, " layers and ", directions(),
              " directions");
  const auto batch = input.sym_size(batch_first ? 0 : 1);
  for (const Tensor& state : states)
    TORCH_CHECK(
        state.dim() == 3 && state.sym_size(0) == parts() && state.sym_size(1) == batch && state.sym_size(2) == hidden(),
        op, ": hx has shape ", state.sym_sizes(), ", expected [", parts(), ", ", batch, ", ", hidden(), "]");
  for (int64_t i = 0; i < static_cast<int64_t>(params.size()); i++) {
    const bool first = i / per_part() < directions();
    const auto inputs = first ? input.sym_size(2) : hidden() * directions();
    const auto& p = params[i];
    const int64_t which = i % per_part();
    TORCH_CHECK(p.dim() == (which < 2 ? 2 : 1) && p.sym_size(0) == hidden() * gates &&
                    (which != 0 || p.sym_size(1) == inputs) && (which != 1 || p.sym_size(1) == hidden()),
                op, ": tensor ", i, " of params has shape ", p.sym_sizes());
  }
}

void Recurrent::check_kept(at::TensorList steps) const {
  for (const Tensor& t : steps)
    TORCH_CHECK(t.defined() && t.dim() == 4 && t.sym_size(0) == parts(), op,
                " needs the steps that a call with train=True returns");
}

results::Result Recurrent::output() const {
  return results::sized(results::with_dim(input, 2, hidden() * directions()), input);
}

results::Result Recurrent::states() const {
  return results::sized({parts(), input.sym_size(batch_first ? 0 : 1), hidden()}, input);
}

results::Result Recurrent::steps(bool wanted) const {
  if (!wanted) return results::none(input);
  return results::sized({parts(), input.sym_size(batch_first ? 1 : 0), input.sym_size(batch_first ? 0 : 1), hidden()},
                        input);
}

std::vector<results::Result> alike(at::TensorList tensors) {
  std::vector<results::Result> made;
  for (const Tensor& t : tensors) made.push_back(results::like(t));
  return made;
}

std::vector<Tensor> unbound(const Tensor& t) { return t.unbind(0); }

void run_gru(const Recurrent& net, const Tensor& hx, double dropout, bool train, const Tensor& y, const Tensor& hy,
             const std::array<Tensor, 5>& steps) {
  std::array<std::vector<Tensor>, 5> lists;
  for (size_t i = 0; train && i < lists.size(); i++) lists[i] = unbound(steps[i]);
  NPU_EXEC(aclnnGRU, net.input, net.params, hx, nullptr, net.biases, net.layers, dropout, train, net.bidirectional,
           net.batch_first, y, hy, lists[0], lists[1], lists[2], lists[3], lists[4]);
}

void run_lstm(const Recurrent& net, at::TensorList hx, double dropout, bool train, const Tensor& y, const Tensor& hy,
              const Tensor& cy, const std::array<Tensor, 7>& steps) {
  std::array<std::vector<Tensor>, 7> lists;
  for (size_t i = 0; i < lists.size(); i++)
    if (train || i == 4 || i == 5) lists[i] = unbound(steps[i]);  // h and c are always kept
  NPU_EXEC(aclnnLSTM, net.input, net.params, hx, nullptr, net.biases, net.layers, dropout, train, net.bidirectional,
           net.batch_first, y, hy, cy, lists[0], lists[1], lists[2], lists[3], lists[4], lists[5], lists[6]);
}

void lstm_backward(const Recurrent& net, const Tensor& grad_y, const std::array<Tensor, 2>& grad_states,
                   at::TensorList hx, const std::array<Tensor, 7>& steps, const Tensor& grad_input,
                   at::TensorList grad_hx, at::TensorList grad_params) {
  const auto time_first = [&](const Tensor& t) { return net.batch_first ? t.transpose(0, 1) : t; };
  const auto& [i, j, f, o, h, c, tanhc] = steps;
  const int64_t width = h.size(3), length = h.size(1), directions = net.directions();
  Tensor d_out = time_first(grad_y);
  for (int64_t layer = net.layers - 1; layer >= 0; layer--) {
    std::vector<Tensor> below(directions);
    for (int64_t d = 0; d < directions; d++) below[d] = layer ? h[(layer - 1) * directions + d] : Tensor();
    const auto x = layer ? at::cat(below, -1) : time_first(net.input);
    Tensor d_x;
    for (int64_t d = 0; d < directions; d++) {
      const int64_t part = layer * directions + d, at = part * net.per_part();
      const auto &w_ih = net.params[at], &w_hh = net.params[at + 1];
      const auto d_y = d_out.narrow(-1, d * width, width);
      Tensor dh = grad_states[0][part], dc = grad_states[1][part];
      std::vector<Tensor> d_gates(length), before(length);
      for (int64_t k = length - 1; k >= 0; k--) {
        const int64_t t = d ? length - 1 - k : k, past = d ? t + 1 : t - 1;
        const auto past_h = k ? h[part][past] : hx[0][part], past_c = k ? c[part][past] : hx[1][part];
        const auto gi = i[part][t], gj = j[part][t], gf = f[part][t], go = o[part][t], th = tanhc[part][t];
        dh = dh + d_y[t];
        dc = dc + dh * go * (1 - th.square());
        d_gates[t] = at::cat({dc * gj * gi * (1 - gi), dc * past_c * gf * (1 - gf), dc * gi * (1 - gj.square()),
                              dh * th * go * (1 - go)},
                             -1);
        before[t] = past_h;
        dh = at::mm(d_gates[t], w_hh);
        dc = dc * gf;
      }
      grad_hx[0][part].copy_(dh);
      grad_hx[1][part].copy_(dc);
      const auto all = at::stack(d_gates).flatten(0, 1);
      grad_params[at].copy_(at::mm(all.t(), x.flatten(0, 1)));
      grad_params[at + 1].copy_(at::mm(all.t(), at::stack(before).flatten(0, 1)));
      for (int64_t bias = 2; bias < net.per_part(); bias++) grad_params[at + bias].copy_(all.sum(0));
      const auto part_of_x = at::mm(all, w_ih).view(x.sizes());
      d_x = d_x.defined() ? d_x + part_of_x : part_of_x;
    }
    d_out = d_x;
  }
  grad_input.copy_(net.batch_first ? d_out.transpose(0, 1) : d_out);
}

}  // namespace npu::ops
