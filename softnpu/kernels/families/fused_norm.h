// Normalisations with something in front or behind: a sum, an activation, a cast. Statistics are float32; a result is
// rounded once.
#pragma once

#include <ATen/TensorOperators.h>

#include "kernels/families/normalization.h"

namespace softnpu::kernels {

// Of x, or of the sum of x and `other`, which is rounded into `sum` first. `out` has one or two tensors for the result,
// in whatever types; the weights are gamma + offset.
void add_rms_norm(std::array<Tensor*, 2> out, Tensor& rstd, Tensor* sum, const Tensor& x, const Tensor* other,
                  const Tensor& gamma, double offset, double eps);
inline void rms_norm(Tensor& out, Tensor& rstd, const Tensor& x, const Tensor& gamma, double offset, double eps) {
  add_rms_norm({&out, nullptr}, rstd, nullptr, x, nullptr, gamma, offset, eps);
}
void rms_norm_backward(Tensor& grad_input, Tensor& grad_gamma, const Tensor& grad_out, const Tensor& self,
                       const Tensor& rstd, const Tensor& gamma);
// Layer norm of a sum that was rounded to the type of its terms; `sum` gets it if it is asked for.
void add_layer_norm(Tensor& out, Tensor& mean, Tensor& rstd, Tensor& sum, std::array<Optional, 3> terms,
                    const Tensor& gamma, const Tensor& beta, double eps, bool keep_sum);
void deep_norm(Tensor& out, Tensor& mean, Tensor& rstd, const Tensor& x, const Tensor& gamma, const Tensor& beta,
               double eps);
// Gradients of a layer norm: {x, gamma, beta}.
void norm_backward(std::array<Tensor, 3> grads, const Tensor& grad_out, const Tensor& x, const Tensor& mean,
                   const Tensor& rstd, const Tensor& gamma);
// y * sigmoid(scale * y) of the group norm y; a scale of zero stands for y itself.
void group_norm_swish(Tensor& out, Tensor& mean, Tensor& rstd, const Tensor& input, const Optional& weight,
                      const Optional& bias, int64_t groups, double eps, double scale);
void group_norm_swish_backward(Tensor& grad_input, Tensor& grad_weight, Tensor& grad_bias, const Tensor& grad_out,
                               const Tensor& input, const Tensor& mean, const Tensor& rstd, const Optional& weight,
                               const Optional& bias, int64_t groups, double scale, std::array<bool, 3> wanted);

}  // namespace softnpu::kernels
