// Attention by the CPU's own fused kernel, which is faster than blocks of ATen's operators, where it can do it.
#pragma once

#include "kernels/families/attention_scores.h"

namespace softnpu::kernels::attention {

// Without dropout, sinks and masks but a causal one or a bias that needs no copy, in float32 or bfloat16.
bool fits_fused(const Problem& p);
// The kernel gives the logarithm of a row's sum of exponentials; as a maximum with the sum 1 that is the same softmax.
void forward_fused(const Tensor& out, const Statistics& statistics, const Problem& p);
void backward_fused(const Gradients& gradients, const Tensor& dy, const Tensor& out, const Statistics& statistics,
                    const Problem& p);

}  // namespace softnpu::kernels::attention
