#include "kernels/families/legacy_rnn.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>

#include "kernels/engine/require.h"

namespace softnpu::kernels {

namespace {

using Optional = std::optional<Tensor>;

Tensor full(const Tensor& t) { return t.to(at::kFloat); }

Tensor state(const Optional& t, const DynamicRnn& net) {
  const std::array<int64_t, 2> sizes{net.x.size(1), net.hidden()};
  return t ? full(*t).reshape(sizes) : at::zeros(sizes, at::kFloat);
}

bool reversed(const DynamicRnn& net) { return net.direction == "REDIRECTIONAL"; }

// The letters of the gates in the columns of the weights: j and c are the same gate.
size_t column(const DynamicRnn& net, char gate) {
  const size_t at = net.gate_order.find(gate);
  return at == std::string::npos && gate == 'j' ? net.gate_order.find('c') : at;
}

// In the order of i, j, f, o, from that of the columns, and back.
std::array<Tensor, 4> gates_of(const DynamicRnn& net, const Tensor& columns) {
  const auto parts = columns.chunk(4, -1);
  return {parts[column(net, 'i')], parts[column(net, 'j')], parts[column(net, 'f')], parts[column(net, 'o')]};
}

Tensor columns_of(const DynamicRnn& net, const std::array<Tensor, 4>& gates) {
  std::vector<Tensor> parts(4);
  const char letters[] = "ijfo";
  for (size_t k = 0; k < 4; k++) parts[column(net, letters[k])] = gates[k];
  return at::cat(parts, -1);
}

Tensor running(const DynamicRnn& net, int64_t t) { return net.steps->select(0, t).ne(0); }

}  // namespace

DynamicRnn rnn_of(const Tensor& x, const Tensor& w, const std::string& gate_order, const std::string& direction,
                  Optional steps) {
  const int64_t inputs = x.size(2);
  return {x, w.narrow(0, 0, inputs), w.narrow(0, inputs, w.size(0) - inputs), gate_order, direction, std::move(steps)};
}

void dynamic_rnn(const DynamicRnn& net, const Optional& bias, const Optional& h0, const Optional& c0,
                 std::array<Tensor*, 8> outputs) {
  const auto w_hh = full(net.w_hh);
  auto inputs = at::matmul(full(net.x), full(net.w_ih));
  if (bias) inputs = inputs + full(*bias);
  Tensor h = state(h0, net), c = state(c0, net);
  const int64_t length = net.x.size(0);
  for (int64_t k = 0; k < length; k++) {
    const int64_t t = reversed(net) ? length - 1 - k : k;
    const auto gates = gates_of(net, inputs[t] + at::mm(h, w_hh));
    const auto i = at::sigmoid(gates[0]), j = at::tanh(gates[1]), f = at::sigmoid(gates[2]), o = at::sigmoid(gates[3]);
    auto new_c = f * c + i * j;
    const auto squashed = at::tanh(new_c);
    auto new_h = o * squashed, y = new_h;
    if (net.masked()) {
      const auto runs = running(net, t);
      y = at::where(runs, new_h, at::zeros_like(new_h));
      new_h = at::where(runs, new_h, h);
      new_c = at::where(runs, new_c, c);
    }
    h = new_h, c = new_c;
    const std::array<Tensor, 8> values{y, h, c, i, j, f, o, squashed};
    for (size_t n = 0; n < 8; n++) outputs[n]->select(0, t).copy_(values[n]);
  }
}

void dynamic_rnn_backward(const DynamicRnn& net, const Tensor& h0, const Tensor& c0, const Tensor& dy,
                          const Tensor& dh0, const Tensor& dc0, std::array<Tensor, 7> kept, RnnGradients out) {
  for (auto& t : kept) t = full(t);
  const auto& [hs, cs, is, js, fs, os, squashed] = kept;
  const auto x = full(net.x), w_ih = full(net.w_ih), w_hh = full(net.w_hh), given = full(dy);
  Tensor dh = state(dh0, net), dc = state(dc0, net);
  const int64_t length = x.size(0);
  std::vector<Tensor> d_gates(length), before(length);
  for (int64_t k = length - 1; k >= 0; k--) {
    const int64_t t = reversed(net) ? length - 1 - k : k, past = reversed(net) ? t + 1 : t - 1;
    before[t] = k ? hs[past] : state(h0, net);
    const auto past_c = k ? cs[past] : state(c0, net);
    const auto i = is[t], j = js[t], f = fs[t], o = os[t];
    Tensor through_h = dh + given[t], through_c = dc, around_h, around_c;
    if (net.masked()) {  // an ended sequence hands its states on, and its outputs are zero
      const auto runs = running(net, t), none = at::zeros_like(dh);
      around_h = at::where(runs, none, dh), around_c = at::where(runs, none, dc);
      through_h = at::where(runs, through_h, none), through_c = at::where(runs, dc, none);
    }
    through_c = through_c + through_h * o * (1 - squashed[t].square());
    d_gates[t] = columns_of(net, {through_c * j * i * (1 - i), through_c * i * (1 - j.square()),
                                  through_c * past_c * f * (1 - f), through_h * squashed[t] * o * (1 - o)});
    dh = at::mm(d_gates[t], w_hh.t());
    dc = through_c * f;
    if (net.masked()) dh = dh + around_h, dc = dc + around_c;
  }
  const auto all = at::stack(d_gates), rows = all.flatten(0, 1);
  out.x.copy_(at::matmul(all, w_ih.t()));
  out.w_ih.copy_(at::mm(x.flatten(0, 1).t(), rows));
  out.w_hh.copy_(at::mm(at::stack(before).flatten(0, 1).t(), rows));
  out.bias.copy_(rows.sum(0));
  out.h.copy_(dh.view(out.h.sizes()));
  out.c.copy_(dc.view(out.c.sizes()));
}

void dynamic_gru(const DynamicRnn& net, const Optional& b_ih, const Optional& b_hh, const Optional& h0,
                 std::array<Tensor*, 6> outputs) {
  const auto w_hh = full(net.w_hh);
  auto inputs = at::matmul(full(net.x), full(net.w_ih));
  if (b_ih) inputs = inputs + full(*b_ih);
  Tensor h = state(h0, net);
  const int64_t length = net.x.size(0);
  for (int64_t k = 0; k < length; k++) {
    const int64_t t = reversed(net) ? length - 1 - k : k;
    auto products = at::mm(h, w_hh);
    if (b_hh) products = products + full(*b_hh);
    const auto in = inputs[t].chunk(3, -1), of = products.chunk(3, -1);
    const size_t r = column(net, 'r'), z = column(net, 'z'), n = column(net, 'h');
    const auto reset = at::sigmoid(in[r] + of[r]), update = at::sigmoid(in[z] + of[z]);
    const auto fresh = at::tanh(in[n] + reset * of[n]);
    h = (1 - update) * fresh + update * h;
    const std::array<Tensor, 6> values{h, h, update, reset, fresh, of[n]};
    for (size_t i = 0; i < 6; i++) outputs[i]->select(0, t).copy_(values[i]);
  }
}

void dynamic_gru_backward(const DynamicRnn& net, const Tensor& h0, const Tensor& dy, const Tensor& dh0,
                          std::array<Tensor, 5> kept, GruGradients out) {
  for (auto& t : kept) t = full(t);
  const auto& [hs, updates, resets, news, hiddens] = kept;
  const auto x = full(net.x), w_ih = full(net.w_ih), w_hh = full(net.w_hh), given = full(dy);
  Tensor dh = state(dh0, net);
  const int64_t length = x.size(0);
  std::vector<Tensor> d_in(length), d_state(length), before(length);
  const size_t r = column(net, 'r'), z = column(net, 'z'), n = column(net, 'h');
  for (int64_t k = length - 1; k >= 0; k--) {
    const int64_t t = reversed(net) ? length - 1 - k : k, past = reversed(net) ? t + 1 : t - 1;
    const auto update = updates[t], reset = resets[t], fresh = news[t];
    before[t] = k ? hs[past] : state(h0, net);
    dh = dh + given[t];
    std::vector<Tensor> in(3), of(3);
    in[n] = dh * (1 - update) * (1 - fresh.square());
    in[z] = dh * (before[t] - fresh) * update * (1 - update);
    in[r] = in[n] * hiddens[t] * reset * (1 - reset);
    of = in;
    of[n] = in[n] * reset;
    d_in[t] = at::cat(in, -1), d_state[t] = at::cat(of, -1);
    dh = dh * update + at::mm(d_state[t], w_hh.t());
  }
  const auto all = at::stack(d_in), rows = all.flatten(0, 1), state_rows = at::stack(d_state).flatten(0, 1);
  out.x.copy_(at::matmul(all, w_ih.t()));
  out.w_ih.copy_(at::mm(x.flatten(0, 1).t(), rows));
  out.w_hh.copy_(at::mm(at::stack(before).flatten(0, 1).t(), state_rows));
  out.b_ih.copy_(rows.sum(0));
  out.b_hh.copy_(state_rows.sum(0));
  out.h.copy_(dh.view(out.h.sizes()));
}

namespace require {

void plain(const std::string& cell_type, bool peephole, double keep_prob, double cell_clip, int64_t num_proj,
           bool time_major, const std::string& activation, double forget_bias) {
  that(cell_type == "LSTM" || cell_type == "GRU", "cell_type is neither LSTM nor GRU");
  that(!peephole, "use_peephole is not implemented");
  that(keep_prob == 1 || keep_prob == -1, "keep_prob is not implemented");
  that(cell_clip == -1, "cell_clip is not implemented");
  that(num_proj == 0, "num_proj is not implemented");
  that(time_major, "time_major = false is not implemented");
  that(activation == "tanh", "activation is not tanh");
  that(forget_bias == 0, "forget_bias is not implemented");
}

void dynamic_weights(const Tensor& x, const Tensor& w, int64_t gates) {
  rank(x, "x", 3, 3);
  rank(w, "w", 2, 2);
  that(w.size(0) > x.size(2) && w.size(1) == gates * (w.size(0) - x.size(2)), "w does not fit x");
}

void recurrence(const DynamicRnn& net, int64_t gates, std::initializer_list<Optional> biases,
                std::initializer_list<Optional> states, std::initializer_list<Optional> sequences) {
  rank(net.x, "x", 3, 3);
  that(net.x.numel() > 0, "x has no elements");
  rank(net.w_hh, "w_hh", 2, 2);
  const int64_t hidden = net.hidden();
  that(hidden > 0, "the hidden size is 0");
  shape(net.w_ih, "w_ih", {net.x.size(2), gates * hidden});
  shape(net.w_hh, "w_hh", {hidden, gates * hidden});
  std::string letters = net.gate_order;
  std::replace(letters.begin(), letters.end(), 'c', 'j');
  std::sort(letters.begin(), letters.end());
  that(letters == (gates == 4 ? "fijo" : "hrz"), "gate_order does not name each gate once");
  that(net.direction == "UNIDIRECTIONAL" || net.direction == "REDIRECTIONAL", "direction is not implemented");
  for (const auto& bias : biases) numbers(bias, "a bias", gates * hidden);
  for (const auto& each : states) numbers(each, "a state", net.x.size(1) * hidden);
  for (const auto& each : sequences) shape(each, "a sequence of states", {net.x.size(0), net.x.size(1), hidden});
  if (!net.steps || net.steps->dim() == 0) return;
  shape(*net.steps, "seq_length, which is a mask of all states", {net.x.size(0), net.x.size(1), hidden});
}

}  // namespace require

}  // namespace softnpu::kernels
