#include "kernels/families/recurrent.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "kernels/engine/require.h"

namespace softnpu::kernels {

namespace {

// The parameters of a part in float32; missing biases are zero.
struct Part {
  Tensor w_ih, w_hh, b_ih, b_hh;
  Part(const Recurrent& net, int64_t part) {
    const int64_t at = part * net.per_part();
    w_ih = wide(net.params[at]), w_hh = wide(net.params[at + 1]);
    const auto none = at::zeros({w_hh.size(0)}, w_hh.options());
    b_ih = net.biases ? wide(net.params[at + 2]) : none, b_hh = net.biases ? wide(net.params[at + 3]) : none;
  }
};

// A client that keeps no steps gives an empty list, or one tensor that is no sequence.
bool is_kept(Steps list) { return !list->empty() && (list->size() > 1 || (*list)[0].dim() == 3); }

void keep(Steps list, int64_t part, int64_t t, const Tensor& value) {
  if (is_kept(list)) (*list)[part][t].copy_(value);
}

// Every layer: `step(part, parameters, products with the input at t, t, is_first)` returns the output of a step.
template <class F>
Tensor through_layers(const Recurrent& net, F step) {
  Tensor x = net.first();
  for (int64_t layer = 0; layer < net.layers; layer++) {
    std::vector<Tensor> sides;
    for (int64_t d = 0; d < net.directions(); d++) {
      const int64_t part = layer * net.directions() + d, length = x.size(0);
      const Part p(net, part);
      const auto products = at::matmul(x, p.w_ih.t()) + p.b_ih;
      std::vector<Tensor> outputs(length);
      for (int64_t k = 0; k < length; k++) {
        const int64_t t = d ? length - 1 - k : k;
        outputs[t] = step(part, p, products[t], t, k == 0);
      }
      sides.push_back(at::stack(outputs));
    }
    x = at::cat(sides, -1);
  }
  return x;
}

void put(Tensor& y, const Tensor& result, const Recurrent& net) {
  y.copy_(net.batch_first ? result.transpose(0, 1) : result);
}

}  // namespace

void gru(const Recurrent& net, const Tensor& hx, Tensor& y, Tensor& hy, std::array<Steps, 5> steps) {
  Tensor h;
  const auto result = through_layers(net, [&](int64_t part, const Part& p, const Tensor& in, int64_t t, bool first) {
    if (first) h = wide(hx[part]);
    const auto i = in.chunk(3, -1), s = (at::matmul(h, p.w_hh.t()) + p.b_hh).chunk(3, -1);
    const auto reset = at::sigmoid(i[0] + s[0]), update = at::sigmoid(i[1] + s[1]);
    const auto fresh = at::tanh(i[2] + reset * s[2]);
    h = (1 - update) * fresh + update * h;
    const std::array<Tensor, 5> values{reset, update, fresh, s[2], h};
    for (size_t k = 0; k < 5; k++) keep(steps[k], part, t, values[k]);
    hy[part].copy_(h);  // the last step stays
    return h;
  });
  put(y, result, net);
}

// What a layer read: the input of the net, or what the layer before gave in each direction, side by side.
Tensor input_of(const Recurrent& net, int64_t layer, const std::vector<Tensor>& outputs) {
  if (layer == 0) return net.first();
  std::vector<Tensor> below;
  for (int64_t d = 0; d < net.directions(); d++) below.push_back(wide(outputs[(layer - 1) * net.directions() + d]));
  return at::cat(below, -1);
}

void gru_backward(const Recurrent& net, const Tensor& hx, const Tensor& grad_y, const Tensor& grad_h,
                  std::array<Steps, 5> steps, Tensor& grad_input, Tensor& grad_hx,
                  const std::vector<Tensor>& grad_params) {
  const auto value = [&](size_t which, int64_t part) { return wide((*steps[which])[part]); };
  const auto input = net.first();
  const int64_t length = input.size(0), directions = net.directions(), width = hx.size(2);
  Tensor d_out = wide(net.batch_first ? grad_y.transpose(0, 1) : grad_y);
  for (int64_t layer = net.layers - 1; layer >= 0; layer--) {
    const auto x = input_of(net, layer, *steps[4]);
    auto d_x = at::zeros_like(x);
    for (int64_t d = 0; d < directions; d++) {
      const int64_t part = layer * directions + d, at = part * net.per_part();
      const Part p(net, part);
      const auto reset = value(0, part), update = value(1, part), fresh = value(2, part), hidden = value(3, part),
                 h = value(4, part), start = wide(hx[part]);
      Tensor dh = wide(grad_h[part]);
      std::vector<Tensor> d_in(length), d_state(length), before(length);
      for (int64_t k = length - 1; k >= 0; k--) {
        const int64_t t = d ? length - 1 - k : k;
        before[t] = k ? h[d ? t + 1 : t - 1] : start;
        dh = dh + d_out[t].narrow(-1, d * width, width);
        const auto d_fresh = dh * (1 - update[t]) * (1 - fresh[t].square());
        const auto d_update = dh * (before[t] - fresh[t]) * update[t] * (1 - update[t]);
        const auto d_reset = d_fresh * hidden[t] * reset[t] * (1 - reset[t]);
        d_in[t] = at::cat({d_reset, d_update, d_fresh}, -1);
        d_state[t] = at::cat({d_reset, d_update, d_fresh * reset[t]}, -1);
        dh = dh * update[t] + at::mm(d_state[t], p.w_hh);
      }
      grad_hx[part].copy_(dh);
      const auto all_in = at::stack(d_in).flatten(0, 1), all_state = at::stack(d_state).flatten(0, 1);
      Tensor(grad_params[at]).copy_(at::mm(all_in.t(), x.flatten(0, 1)));
      Tensor(grad_params[at + 1]).copy_(at::mm(all_state.t(), at::stack(before).flatten(0, 1)));
      if (net.biases) {
        Tensor(grad_params[at + 2]).copy_(all_in.sum(0));
        Tensor(grad_params[at + 3]).copy_(all_state.sum(0));
      }
      d_x = d_x + at::mm(all_in, p.w_ih).view(x.sizes());
    }
    d_out = d_x;
  }
  put(grad_input, d_out, net);
}

void lstm(const Recurrent& net, const std::vector<Tensor>& hx, Tensor& y, Tensor& hy, Tensor& cy,
          std::array<Steps, 7> steps) {
  Tensor h, c;
  const auto result = through_layers(net, [&](int64_t part, const Part& p, const Tensor& in, int64_t t, bool first) {
    if (first) h = wide(hx[0][part]), c = wide(hx[1][part]);
    const auto gates = (in + at::matmul(h, p.w_hh.t()) + p.b_hh).chunk(4, -1);
    const auto i = at::sigmoid(gates[0]), f = at::sigmoid(gates[1]), j = at::tanh(gates[2]), o = at::sigmoid(gates[3]);
    c = f * c + i * j;
    const auto squashed = at::tanh(c);
    h = o * squashed;
    const std::array<Tensor, 7> values{i, j, f, o, h, c, squashed};
    for (size_t k = 0; k < 7; k++) keep(steps[k], part, t, values[k]);
    hy[part].copy_(h);
    cy[part].copy_(c);
    return h;
  });
  put(y, result, net);
}

void lstm_backward(const Recurrent& net, const std::vector<Tensor>& hx, const Optional& grad_y, const Optional& grad_h,
                   const Optional& grad_c, std::array<Steps, 7> steps, Tensor& grad_input, Tensor& grad_hx,
                   Tensor& grad_cx, const std::vector<Tensor>& grad_params) {
  const auto value = [&](size_t which, int64_t part) { return wide((*steps[which])[part]); };
  const auto input = net.first();
  const int64_t length = input.size(0), directions = net.directions(), width = hx[0].size(2);
  const auto nothing = at::zeros({hx[0].size(1), width});
  Tensor d_out = grad_y ? wide(net.batch_first ? grad_y->transpose(0, 1) : *grad_y)
                        : at::zeros({length, hx[0].size(1), directions * width});
  for (int64_t layer = net.layers - 1; layer >= 0; layer--) {
    const auto x = input_of(net, layer, *steps[4]);
    auto d_x = at::zeros_like(x);
    for (int64_t d = 0; d < directions; d++) {
      const int64_t part = layer * directions + d, at = part * net.per_part();
      const Part p(net, part);
      const auto i = value(0, part), j = value(1, part), f = value(2, part), o = value(3, part), h = value(4, part),
                 c = value(5, part), squashed = value(6, part);
      Tensor dh = grad_h ? wide((*grad_h)[part]) : nothing, dc = grad_c ? wide((*grad_c)[part]) : nothing;
      std::vector<Tensor> d_gates(length), before(length);
      for (int64_t k = length - 1; k >= 0; k--) {
        const int64_t t = d ? length - 1 - k : k, past = d ? t + 1 : t - 1;
        before[t] = k ? h[past] : wide(hx[0][part]);
        const auto past_c = k ? c[past] : wide(hx[1][part]);
        dh = dh + d_out[t].narrow(-1, d * width, width);
        dc = dc + dh * o[t] * (1 - squashed[t].square());
        d_gates[t] = at::cat({dc * j[t] * i[t] * (1 - i[t]), dc * past_c * f[t] * (1 - f[t]),
                              dc * i[t] * (1 - j[t].square()), dh * squashed[t] * o[t] * (1 - o[t])},
                             -1);
        dh = at::mm(d_gates[t], p.w_hh);
        dc = dc * f[t];
      }
      grad_hx[part].copy_(dh);
      grad_cx[part].copy_(dc);
      const auto all = at::stack(d_gates).flatten(0, 1);
      Tensor(grad_params[at]).copy_(at::mm(all.t(), x.flatten(0, 1)));
      Tensor(grad_params[at + 1]).copy_(at::mm(all.t(), at::stack(before).flatten(0, 1)));
      for (int64_t bias = 2; bias < net.per_part(); bias++) Tensor(grad_params[at + bias]).copy_(all.sum(0));
      d_x = d_x + at::mm(all, p.w_ih).view(x.sizes());
    }
    d_out = d_x;
  }
  put(grad_input, d_out, net);
}

namespace require {

void recurrent(const Recurrent& net, const std::vector<Tensor>& states, const Optional& batch_sizes, double dropout,
               const Optional& y, const std::vector<Tensor>& last) {
  that(!batch_sizes || !batch_sizes->defined(), "batch_sizes is not supported");
  that(dropout == 0 || net.layers == 1, "dropout is not supported");
  rank(net.input, "input", 3, 3);
  that(net.layers >= 1 && net.params.size() == static_cast<size_t>(net.parts() * net.per_part()),
       "params has the tensors of each layer and direction");
  that(!states.empty() && states[0].dim() == 3, "hx is [layers * directions, batch, hidden]");
  const int64_t hidden = states[0].size(2), batch = net.input.size(net.batch_first ? 0 : 1);
  that(net.input.numel() > 0 && hidden > 0, "input or hx has no elements");
  for (const auto& state : states) shape(state, "hx", {net.parts(), batch, hidden});
  for (const auto& state : last) shape(state, "the last state", {net.parts(), batch, hidden});
  if (y) shape(*y, "y", {net.input.size(0), net.input.size(1), hidden * net.directions()});
  for (int64_t i = 0; i < static_cast<int64_t>(net.params.size()); i++) {
    const int64_t which = i % net.per_part();
    const int64_t inputs = i / net.per_part() < net.directions() ? net.input.size(2) : hidden * net.directions();
    if (which < 2)
      shape(net.params[i], "a weight", {net.gates * hidden, which == 0 ? inputs : hidden});
    else
      shape(net.params[i], "a bias", {net.gates * hidden});
  }
}

void steps(std::initializer_list<Steps> lists, const Recurrent& net, bool kept) {
  const int64_t hidden = net.params[1].size(1), batch = net.input.size(net.batch_first ? 0 : 1);
  for (const Steps list : lists) {
    if (!kept && !is_kept(list)) continue;
    that(list->size() == static_cast<size_t>(net.parts()), "lists of steps have a tensor for each layer and direction");
    for (const auto& t : *list) shape(t, "a list of steps", {net.input.size(net.batch_first ? 1 : 0), batch, hidden});
  }
}

void pairs(const std::vector<Tensor>& made, const std::vector<Tensor>& others) {
  that(made.size() == others.size(), "there is a gradient for each of params");
  for (size_t i = 0; i < made.size(); i++) like(made[i], "a gradient", others[i]);
}

}  // namespace require

}  // namespace softnpu::kernels
