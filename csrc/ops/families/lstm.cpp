// LSTM by layers instead of steps, where the provider has the operator. See Note [LSTM].
//
// Note [LSTM]
// ~~~~~~~~~~~
// Upstream composes an LSTM of products and fused cells, step by step, unless the device has an operator for a layer.
// Its CPU has one, mkldnn_rnn_layer, with an autograd formula that works for any device: it gets a kernel here, and
// torch.lstm one that calls it. That function stands at the autograd key too, where it is what it is upstream, a
// composition of differentiable operators. What the CPU gives to upstream's loop goes there on npu as well (other types
// than float32, projections, packed sequences, forward-mode differentiation), and so do calls under autocast, which
// knows the operators inside the loop.
#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/lstm_native.h>

#include "ops/register.h"
#include "ops/rules.h"

namespace npu::ops {

namespace {

using Optional = std::optional<Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;
using Seven = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

constexpr int64_t kLstm = 2;  // upstream's number of the mode

Four layer(const Tensor& input, const Tensor& weight_ih, const Tensor& weight_hh, const Tensor& bias_ih,
           const Tensor& bias_hh, const Tensor& hx, const Tensor& cx, bool reverse, at::IntArrayRef batch_sizes,
           int64_t mode, int64_t hidden, int64_t, bool, bool, bool, bool) {
  CardGuard guard(input);
  TORCH_CHECK(mode == kLstm && batch_sizes.empty(), "mkldnn_rnn_layer on npu: only an LSTM over unpacked sequences");
  check_same_device("lstm", {&input, &weight_ih, &weight_hh, &bias_ih, &bias_hh, &hx, &cx});
  const auto type = input.scalar_type();
  auto output = empty({input.size(0), input.size(1), hidden}, type), hy = empty_same(hx, type),
       cy = empty_same(cx, type);
  auto workspace = empty({5, input.size(0), input.size(1), hidden}, type);
  NPU_EXEC(softnpuLstmLayer, input, weight_ih, weight_hh, bias_ih, bias_hh, hx, cx, reverse, output, hy, cy, workspace);
  return {output, hy, cy, workspace};
}

Seven layer_backward(const Tensor& input, const Tensor& weight_ih, const Tensor& weight_hh, const Tensor& bias_ih,
                     const Tensor&, const Tensor& hx, const Tensor& cx, const Tensor& output, const Tensor&,
                     const Tensor&, const Optional& grad_output, const Optional& grad_hy, const Optional& grad_cy,
                     bool reverse, int64_t, int64_t, int64_t, bool, bool, bool, at::IntArrayRef, bool,
                     const Tensor& workspace) {
  CardGuard guard(input);
  const auto like = [&](const Tensor& t) { return empty_same(t, input.scalar_type()); };
  auto d_input = like(input), d_ih = like(weight_ih), d_hh = like(weight_hh), d_bias = like(bias_ih), d_hx = like(hx),
       d_cx = like(cx);
  NPU_EXEC(softnpuLstmLayerBackward, input, weight_ih, weight_hh, hx, cx, output, workspace, grad_output, grad_hy,
           grad_cy, reverse, d_input, d_ih, d_hh, d_bias, d_hx, d_cx);
  return {d_input, d_ih, d_hh, d_bias, d_bias, d_hx, d_cx};
}

bool is_plain_float(const Tensor& t) { return is_npu(t) && t.scalar_type() == at::kFloat && !t._fw_grad(0).defined(); }

// Shapes as they should be: upstream's loop has the error messages for the others.
bool fits(const Tensor& input, at::TensorList hx, at::TensorList params, bool biases, int64_t layers,
          int64_t directions, int64_t batch) {
  const int64_t per_layer = biases ? 4 : 2;
  if (input.dim() != 3 || input.numel() == 0 || hx.size() != 2 ||
      static_cast<int64_t>(params.size()) != layers * directions * per_layer)
    return false;
  if (!is_plain_float(input) || at::autocast::is_autocast_enabled(at::kPrivateUse1) ||
      !has_op("softnpuLstmLayerBackward"))
    return false;
  const int64_t hidden = hx[0].size(-1);
  const std::array<int64_t, 3> state{layers * directions, batch, hidden};
  if (!hx[0].sizes().equals(state) || !hx[1].sizes().equals(state) || !is_plain_float(hx[0]) || !is_plain_float(hx[1]))
    return false;
  for (int64_t i = 0; i < static_cast<int64_t>(params.size()); i++) {
    const int64_t width = i / (per_layer * directions) == 0 ? input.size(2) : directions * hidden;
    const std::array<int64_t, 2> matrix{4 * hidden, i % per_layer == 0 ? width : hidden};
    if (!params[i].sizes().equals(at::IntArrayRef(matrix).slice(0, i % per_layer < 2 ? 2 : 1)) ||
        !is_plain_float(params[i]))
      return false;
  }
  return true;
}

Tensor joined(const std::vector<Tensor>& states) {
  return states.size() == 1 ? states[0].unsqueeze(0) : at::stack(states, 0);
}

std::tuple<Tensor, Tensor, Tensor> lstm(const Tensor& input, at::TensorList hx, at::TensorList params, bool biases,
                                        int64_t layers, double dropout, bool train, bool bidirectional,
                                        bool batch_first) {
  const int64_t directions = bidirectional ? 2 : 1;
  if (!fits(input, hx, params, biases, layers, directions, input.dim() == 3 ? input.size(batch_first ? 0 : 1) : 0))
    return at::native::lstm(input, hx, params, biases, layers, dropout, train, bidirectional, batch_first);
  const int64_t hidden = hx[0].size(-1);
  const auto none = biases ? Tensor() : at::zeros({4 * hidden}, input.options());
  auto x = batch_first ? input.transpose(0, 1) : input;
  std::vector<Tensor> hy, cy;
  for (int64_t i = 0, weights = 0; i < layers; i++) {
    std::vector<Tensor> outputs;
    for (int64_t direction = 0; direction < directions; direction++, weights += biases ? 4 : 2) {
      const int64_t state = i * directions + direction;
      auto [out, h, c, kept] =
          at::mkldnn_rnn_layer(x, params[weights], params[weights + 1], biases ? params[weights + 2] : none,
                               biases ? params[weights + 3] : none, hx[0].select(0, state), hx[1].select(0, state),
                               direction == 1, {}, kLstm, hidden, 1, biases, bidirectional, false, train);
      outputs.push_back(out);
      hy.push_back(h);
      cy.push_back(c);
    }
    x = bidirectional ? at::cat(outputs, -1) : outputs[0];
    if (dropout > 0 && train && i + 1 < layers) x = at::dropout(x, dropout, true);
  }
  return {batch_first ? x.transpose(0, 1) : x, joined(hy), joined(cy)};
}

}  // namespace

NPU_REGISTER(lstm) {
  manual("aten::mkldnn_rnn_layer", "", &layer, "softnpuLstmLayer");
  manual("aten::mkldnn_rnn_layer_backward", "", &layer_backward, "softnpuLstmLayerBackward");
  manual("aten::lstm", "input", &lstm);
  reg_as(c10::DispatchKey::AutogradPrivateUse1, "aten::lstm", "input", &lstm);
}

}  // namespace npu::ops
