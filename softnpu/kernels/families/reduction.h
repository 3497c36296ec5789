// Small helpers for the reduction kernel table.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/aminmax.h>

#include <vector>

#include "kernels/engine/results.h"

namespace softnpu::kernels {

// aclnn operators take an empty list as "all dimensions".
inline at::OptionalIntArrayRef all_or(const at::Tensor&, at::IntArrayRef dims) {
  return dims.empty() ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(dims);
}

// The bounds of a histogram, or none.
class Interval {
 public:
  explicit Interval(const std::vector<at::Scalar>& bounds) {
    for (const auto& b : bounds) values_.push_back(b.toDouble());
  }
  operator std::optional<at::ArrayRef<double>>() const {
    return values_.empty() ? std::nullopt : std::optional<at::ArrayRef<double>>(values_);
  }

 private:
  std::vector<double> values_;
};
inline Interval interval(const std::vector<at::Scalar>& bounds) { return Interval(bounds); }

// Over one dimension, or over all of them.
inline void aminmax(at::Tensor& min, at::Tensor& max, const at::Tensor& self, at::IntArrayRef dim, bool keepdim) {
  at::aminmax_out(min, max, self, dim.size() == 1 ? std::optional<int64_t>(dim[0]) : std::nullopt, keepdim);
}

// The type a norm is asked for: complex numbers have norms of their real type.
inline at::ScalarType norm_type(const at::Tensor& self, const at::Tensor& out) {
  return self.is_complex() ? c10::toComplexType(out.scalar_type()) : out.scalar_type();
}

// The NPU counts integers as well. In float64 their bins are exact; limits have the type of the elements, as on CUDA.
inline void histc(at::Tensor& out, const at::Tensor& self, int64_t bins, const c10::Scalar& min,
                  const c10::Scalar& max) {
  if (at::isIntegralType(self.scalar_type(), false))
    out.copy_(at::histc(self.to(at::kDouble), bins, min.to<int64_t>(), max.to<int64_t>()));
  else
    at::histc_out(out, self, bins, min, max);
}

}  // namespace softnpu::kernels
