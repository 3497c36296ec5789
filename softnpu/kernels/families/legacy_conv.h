// Convolutions of the interface before aclnn: strides and dilations count batch and channels too, paddings both sides.
#pragma once

#include "kernels/families/legacy.h"

namespace softnpu::kernels {

struct LegacyWindow {
  std::vector<int64_t> stride, padding, dilation, output_padding;
  int64_t groups;
  LegacyWindow(at::IntArrayRef strides, at::IntArrayRef pads, at::IntArrayRef dilations, int64_t groups,
               const std::string& data_format, at::IntArrayRef output_padding = {});
};

void legacy_conv(Tensor& y, const Tensor& x, const Tensor& filter, const Optional& bias, const LegacyWindow& window);
void legacy_conv_input(Tensor& y, const Tensor& input_size, const Tensor& filter, const Tensor& grad,
                       const LegacyWindow& window);
void legacy_conv_filter(Tensor& y, const Tensor& x, const Tensor& filter_size, const Tensor& grad,
                        const LegacyWindow& window);
void legacy_conv_transpose(Tensor& y, const Tensor& input_size, const Tensor& x, const Tensor& filter,
                           const Optional& bias, const LegacyWindow& window);

// What a deformable convolution reads, of images with channels last: strides and dilations are [1, rows, columns, 1].
struct LegacyDeformable {
  at::IntArrayRef kernel, strides, pads, dilations;
  int64_t parts;
  bool modulated;
  const std::string& data_format;
};
void legacy_deformable(Tensor& y, const Tensor& x, const Tensor& offsets, const LegacyDeformable& how);
void legacy_deformable_backward(Tensor& grad_x, Tensor& grad_offsets, const Tensor& grad, const Tensor& x,
                                const Tensor& offsets, const LegacyDeformable& how);

}  // namespace softnpu::kernels
