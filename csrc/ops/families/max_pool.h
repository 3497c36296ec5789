// Largest values of windows on a provider that has them with 32-bit places, or with a mask; for rows of nn.yaml and
// pooling.yaml. See Note [What is sent].
#pragma once

#include "ops/provider.h"
#include "ops/tensor.h"

namespace npu::ops {

struct Window {
  at::IntArrayRef kernel, stride, padding, dilation;
  bool ceil_mode = false;
};

// Solids have depth. torch's places are 64-bit numbers.
void pool_solids(const Tensor& self, const Window& window, const Tensor& out, const Tensor& indices);
void adaptive_pool_solids(const Tensor& self, at::IntArrayRef size, const Tensor& out, const Tensor& indices);
// What the backward operators take: 32-bit places on CANN.
Tensor narrow_places(const Tensor& indices);

// Planes, as solids of depth one: the operators of planes give a mask instead of places.
void pool_planes(const Tensor& self, const Window& window, const Tensor& out, const Tensor& indices);
void pool_planes_backward(const Tensor& grad, const Tensor& self, const Tensor& indices, const Window& window,
                          const Tensor& grad_input);

}  // namespace npu::ops
