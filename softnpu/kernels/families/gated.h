// Gated units: one half of the input, activated, times the other.
#pragma once

#include <string_view>

#include "kernels/families/normalization.h"

namespace softnpu::kernels {

Tensor fast_gelu(const Tensor& x);  // x * sigmoid(1.702 * x)
Tensor fast_gelu_backward(const Tensor& grad, const Tensor& x);
void gelu_mul(Tensor& out, const Tensor& input, std::string_view approximate);
// `approximate`: 0 for the error function, else tanh. The right half is the gate unless `left`.
void geglu(Tensor& out, Tensor& activated, const Tensor& self, int64_t dim, int64_t approximate, bool left);
void geglu_backward(Tensor& grad_input, const Tensor& grad_out, const Tensor& self, const Tensor& activated,
                    int64_t dim, int64_t approximate, bool left);
void swiglu(Tensor& out, const Tensor& self, int64_t dim);
void swiglu_backward(Tensor& grad_input, const Tensor& grad_out, const Tensor& self, int64_t dim);
// Both halves clipped, the gate's sigmoid sharpened by alpha. With `group_index`, which counts rows, the rows behind
// the counted ones are left alone.
void clipped_swiglu(Tensor& out, const Tensor& x, const Optional& group_index, int64_t dim, double alpha, double limit,
                    double bias, bool interleaved);

}  // namespace softnpu::kernels
