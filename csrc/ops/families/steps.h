// Steps of optimisers: the tensors have one shape, and numbers go to the card as tensors.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/scalar_tensor.h>

#include <optional>

namespace npu::ops {

using at::Tensor;

inline void check_step(const char* op, const Tensor& grad, const Tensor& var, const Tensor& m, const Tensor& v) {
  for (const Tensor* t : {&var, &m, &v})
    TORCH_CHECK(t->sym_sizes() == grad.sym_sizes(), op, ": var, m and v need the shape of grad, ", grad.sym_sizes(),
                ", found ", t->sym_sizes());
}

inline void check_largest(std::optional<bool> amsgrad, const std::optional<Tensor>& largest) {
  TORCH_CHECK(!amsgrad.value_or(false) || largest.has_value(),
              "npu_apply_adam_w needs max_grad_norm, the largest v so far, for amsgrad");
}

inline Tensor number(const at::Scalar& value, const Tensor& on, at::ScalarType type) {
  return at::scalar_tensor(value, on.options().dtype(type));
}
inline Tensor number(const at::Scalar& value, const Tensor& on) { return number(value, on, on.scalar_type()); }

}  // namespace npu::ops
