// Small helpers for the reduction kernel table.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/aminmax.h>

#include <tuple>

namespace softnpu::kernels {

// aclnn operators take an empty list as "all dimensions".
inline at::OptionalIntArrayRef all_or(const at::Tensor&, at::IntArrayRef dims) {
  return dims.empty() ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(dims);
}

// Functional results into given outputs, for operators without an out= form.
template <class... T>
void write(at::Tensor& a, at::Tensor& b, const std::tuple<at::Tensor, at::Tensor, T...>& result) {
  a.copy_(std::get<0>(result));
  b.copy_(std::get<1>(result));
}

// Over one dimension, or over all of them.
inline void aminmax(at::Tensor& min, at::Tensor& max, const at::Tensor& self, at::IntArrayRef dim, bool keepdim) {
  at::aminmax_out(min, max, self, dim.size() == 1 ? std::optional<int64_t>(dim[0]) : std::nullopt, keepdim);
}

}  // namespace softnpu::kernels
