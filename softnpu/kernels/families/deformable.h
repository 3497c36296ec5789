// Deformable convolution: the points that a kernel reads are moved by learned offsets. Channels of `offset`: horizontal
// shifts, vertical shifts and, if modulated, factors, each by deformable group and place of the kernel.
#pragma once

#include "kernels/families/normalization.h"

namespace softnpu::kernels {

struct Deformable {
  IntArrayRef kernel, stride, padding,
      dilation;  // the last three with four numbers, see csrc/ops/families/deformable.h
  int64_t groups, parts;
  bool modulated;
};

// `sampled` gets what is read, as an image whose pixel (y * kernel + i, x * kernel + j) is place (i, j) of point (y,
// x).
void deformable_conv2d(Tensor& out, Tensor& sampled, const Tensor& input, const Tensor& weight, const Tensor& offset,
                       const Optional& bias, const Deformable& how);
void deformable_conv2d_backward(std::array<Tensor, 4> input_weight_offset_bias, const Tensor& input,
                                const Tensor& grad_output, const Tensor& sampled, const Tensor& weight,
                                const Tensor& offset, const Deformable& how);

// The samples alone.
void deformable_samples(Tensor& sampled, const Tensor& input, const Tensor& offset, const Deformable& how);
void deformable_samples_backward(Tensor& dinput, Tensor& doffset, const Tensor& dsampled, const Tensor& input,
                                 const Tensor& offset, const Deformable& how);

namespace require {
void deformable_samples_shapes(const Tensor& input, const Tensor& offset, const Tensor& sampled, const Deformable& how);
void deformable_shapes(const Tensor& input, const Tensor& weight, const Tensor& offset, const Tensor& out,
                       const Tensor& sampled, const Deformable& how);
}  // namespace require

}  // namespace softnpu::kernels
