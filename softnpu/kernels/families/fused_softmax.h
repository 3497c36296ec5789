// Softmax with a scale, a mask or a bias, in float32; a result is rounded once.
#pragma once

#include <ATen/TensorOperators.h>

#include "kernels/families/normalization.h"

namespace softnpu::kernels {

// softmax(scale * x) over the last dimension, where a masked number counts as -10000. `triangle` masks what lies above
// the diagonal, whatever `mask` holds.
void scaled_masked_softmax(Tensor& out, const Tensor& x, const Tensor& mask, double scale, bool triangle);
void scaled_masked_softmax_backward(Tensor& out, const Tensor& grad, const Tensor& y, const Tensor& mask, double scale,
                                    bool triangle);
// The mask is added, not tested.
void biased_softmax(Tensor& out, const Tensor& x, const Optional& mask, const Tensor& bias, double scale);

namespace require {
void broadcasts(const Optional& t, const char* name, const Tensor& x);
void softmax_mask(const Tensor& x, const Tensor& mask, bool triangle);
}  // namespace require

}  // namespace softnpu::kernels
