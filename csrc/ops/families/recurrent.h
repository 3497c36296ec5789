// Recurrent networks of several layers and directions: what their operators check, the tensors they make, the launches.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "ops/results.h"

namespace npu::ops {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// Parameters of each layer and direction: w_ih, w_hh, and b_ih, b_hh if there are biases; `gates` times hidden rows.
struct Recurrent {
  const char* op;
  int64_t gates;
  const Tensor& input;
  at::TensorList params;
  bool biases;
  int64_t layers;
  bool bidirectional, batch_first;

  int64_t directions() const { return bidirectional ? 2 : 1; }
  int64_t parts() const { return layers * directions(); }  // a layer in one direction
  int64_t per_part() const { return biases ? 4 : 2; }
  c10::SymInt hidden() const { return params[1].sym_size(1); }

  void check(at::TensorList states, double dropout, bool train, const OptionalTensor& batch_sizes) const;
  void check_kept(at::TensorList steps) const;  // what a call with train=True returns

  results::Result output() const;
  results::Result states() const;
  results::Result steps(bool wanted) const;  // [parts, steps, batch, hidden]
};

inline Tensor if_kept(bool wanted, const Tensor& t) { return wanted ? t : Tensor(); }
std::vector<results::Result> alike(at::TensorList tensors);
std::vector<Tensor> unbound(const Tensor& t);

void run_gru(const Recurrent& net, const Tensor& hx, double dropout, bool train, const Tensor& y, const Tensor& hy,
             const std::array<Tensor, 5>& steps);
void run_lstm(const Recurrent& net, at::TensorList hx, double dropout, bool train, const Tensor& y, const Tensor& hy,
              const Tensor& cy, const std::array<Tensor, 7>& steps);

}  // namespace npu::ops
