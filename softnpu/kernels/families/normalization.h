// Layer, group and root-mean-square normalisation. Computed in float32 for the short floating types, like the
// statistics.
#pragma once

#include "kernels/families/nn.h"

namespace softnpu::kernels {

inline Tensor wide(const Tensor& t) {
  return t.scalar_type() == at::kHalf || t.scalar_type() == at::kBFloat16 ? t.to(at::kFloat) : t;
}
inline Optional wide(const Optional& t) { return t ? Optional(wide(*t)) : std::nullopt; }

inline void store(const Optional& to, const Tensor& from) {
  if (to && from.defined()) to->copy_(from.view(to->sizes()));
}

void layer_norm(Tensor& out, Optional mean, Optional rstd, const Tensor& input, IntArrayRef shape,
                const Optional& weight, const Optional& bias, double eps);
void layer_norm_backward(Optional grad_input, Optional grad_weight, Optional grad_bias, const Tensor& grad_out,
                         const Tensor& input, IntArrayRef shape, const Tensor& mean, const Tensor& rstd,
                         const Optional& weight, const Optional& bias, const std::vector<uint8_t>& mask);
void group_norm(Tensor& out, Tensor& mean, Tensor& rstd, const Tensor& input, const Optional& weight,
                const Optional& bias, int64_t n, int64_t c, int64_t hxw, int64_t group, double eps);
void group_norm_backward(Optional grad_input, Optional grad_weight, Optional grad_bias, const Tensor& grad_out,
                         const Tensor& input, const Tensor& mean, const Tensor& rstd, const Optional& weight, int64_t n,
                         int64_t c, int64_t hxw, int64_t group, const std::vector<uint8_t>& mask);

}  // namespace softnpu::kernels
