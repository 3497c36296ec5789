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
  const size_t count = gates == 4 ? 2 : 1;  // of an LSTM the cells too
  TORCH_CHECK(states.size() == count, op, ": hx has ", states.size(), " tensors, expected ", count);
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

}  // namespace npu::ops
