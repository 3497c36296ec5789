// Functional results into given outputs, for operators without an out= form, or with one that resizes its output.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>
#include <vector>

namespace softnpu::kernels {

inline void write(at::Tensor& out, const at::Tensor& result) { out.copy_(result); }

template <class... T>
void write(at::Tensor& a, at::Tensor& b, const std::tuple<at::Tensor, at::Tensor, T...>& result) {
  a.copy_(std::get<0>(result));
  b.copy_(std::get<1>(result));
}

inline void write(std::vector<at::Tensor>& out, const std::vector<at::Tensor>& result) {
  TORCH_CHECK(out.size() == result.size(), "out has ", out.size(), " tensors, expected ", result.size());
  for (size_t i = 0; i < out.size(); i++) out[i].copy_(result[i]);
}

}  // namespace softnpu::kernels
