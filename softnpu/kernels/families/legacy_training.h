// Layer normalisation of the interface before aclnn.
#pragma once

#include <ATen/TensorOperators.h>

#include "kernels/families/legacy.h"

namespace softnpu::kernels {

// Over the dimensions from `axis` on, which gamma and beta have too. `spread`: the variance, or the inverse of its
// root.
inline void normalize_layer(Tensor& y, Tensor& mean, Tensor& spread, const Tensor& x, const Tensor& gamma,
                            const Tensor& beta, int64_t axis, int64_t parameters_axis, double epsilon, bool inverse) {
  TORCH_CHECK(axis >= -x.dim() && axis < x.dim() && (parameters_axis - axis) % x.dim() == 0, "begin_norm_axis is ",
              axis, ", begin_params_axis ", parameters_axis, " of ", x.dim(), " dimensions");
  const auto sizes = x.sizes().slice(axis < 0 ? axis + x.dim() : axis);
  TORCH_CHECK(gamma.numel() == c10::multiply_integers(sizes) && beta.numel() == gamma.numel(),
              "gamma and beta have a number for each of ", sizes);
  const auto wide = x.to(at::kFloat);
  const auto [result, means, roots] = at::native_layer_norm(wide, sizes, gamma.to(at::kFloat).reshape(sizes),
                                                            beta.to(at::kFloat).reshape(sizes), epsilon);
  put(y, result);
  put(mean, means);
  put(spread, inverse ? roots : roots.square().reciprocal() - epsilon);
}

}  // namespace softnpu::kernels
