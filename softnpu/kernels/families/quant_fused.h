// Quantised results of gates, rotations and gradients. Numbers are float32 until they are quantised.
#pragma once

#include "kernels/families/mx.h"
#include "kernels/families/quant.h"

namespace softnpu::kernels {

void quantize_both_axes(Tensor& y1, Tensor& scale1, Tensor& y2, Tensor& scale2, const Tensor& x, const Optional& ends,
                        std::string_view round_mode, const mx::Scaling& scaling);
// Of silu(a) * b, whose halves of x are cut off at `limit` where it is positive.
Tensor swiglu_gradient(const Tensor& grad, const Tensor& x, bool left, double limit);
// Rows behind the groups have no gradient; `lengths` of groups.
void swiglu_group_gradient(Tensor& grad_x, Tensor& grad_weight, const Tensor& grad_y, const Tensor& x,
                           const Optional& weight, const Optional& origin, const Optional& lengths, double limit);
void rms_norm_gradient_quant(Tensor& dx, Tensor& dgamma, const Tensor& dy, const Tensor& x, const Tensor& rstd,
                             const Tensor& gamma, const Tensor& scale, const Optional& offset, bool divide);
// Blocks of the last dimension by a matrix, in the type of x, to int8 or int4 with a scale for each row, or to MX
// blocks; these are cut off at alpha times their largest number where it lies between 0 and 1.
void rotate_quant(Tensor& y, Tensor& scale, const Tensor& x, const Tensor& rotation, const Optional& alpha,
                  int64_t axis, std::string_view round_mode, const mx::Scaling& scaling);

namespace require {

void gate_axes(const Tensor& x, const Optional& group_index);
void both_axes(at::IntArrayRef sizes, const Optional& groups, const Tensor& y1, const Tensor& scale1, const Tensor& y2,
               const Tensor& scale2);
void rotation_of(const Tensor& x, const Tensor& rotation, const Optional& alpha, const Tensor& y, const Tensor& scale,
                 int64_t axis, std::string_view round_mode);

}  // namespace require
}  // namespace softnpu::kernels
