// Network kernels that need more than one line.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/engine/results.h"

namespace softnpu::kernels {

using at::IntArrayRef;
using at::Tensor;
using Optional = std::optional<Tensor>;

// `t` in the type of `other` (softmax of float16 into float32).
inline Tensor as(const Tensor& t, const Tensor& other) { return t.to(other.scalar_type()); }
inline std::array<bool, 3> three_flags(const std::vector<uint8_t>& mask) {
  TORCH_CHECK(mask.size() == 3, "output_mask has ", mask.size(), " entries, expected 3");
  return {mask[0] != 0, mask[1] != 0, mask[2] != 0};
}
// Whether ATen's loops can work on all of these as they are: dense, of one type, wide enough to add up in.
inline bool direct(std::initializer_list<Optional> tensors) {
  std::optional<at::ScalarType> type;
  for (const auto& t : tensors) {
    if (!t || !t->defined()) continue;
    if (!type) type = t->scalar_type();
    if (t->scalar_type() != *type || !t->is_contiguous()) return false;
  }
  return type == at::kFloat || type == at::kDouble;
}
inline Tensor given(const Optional& t) { return t ? *t : Tensor(); }
// Those of three gradients that the mask asks for.
inline std::array<Tensor, 3> chosen(const std::vector<uint8_t>& mask, const Optional& a, const Optional& b,
                                    const Optional& c) {
  const auto wanted = three_flags(mask);
  return {wanted[0] ? given(a) : Tensor(), wanted[1] ? given(b) : Tensor(), wanted[2] ? given(c) : Tensor()};
}
inline void write(Tensor& a, Tensor& b, Tensor& c, const std::tuple<Tensor, Tensor, Tensor>& result) {
  write(a, b, result);
  c.copy_(std::get<2>(result));
}
namespace require {
// `grad` has the sizes of the convolution's result.
void convolution_gradient(const Tensor& grad, const Tensor& input, const Tensor& weight, IntArrayRef stride,
                          IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef output_padding,
                          int64_t groups);
}  // namespace require

inline std::optional<int64_t> non_zero(int64_t n) { return n ? std::optional<int64_t>(n) : std::nullopt; }

void gelu(Tensor& out, const Tensor& self, std::string_view approximate);
// The gradient is made in the type of `output`, and lands in `out` without a copy where that is dense and of its type.
void softmax_backward(Tensor& out, const Tensor& grad_output, const Tensor& output, int64_t dim);
void log_softmax_backward(Tensor& out, const Tensor& grad_output, const Tensor& output, int64_t dim);
void max_pool2d(Tensor& out, Tensor& indices, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
                IntArrayRef padding, IntArrayRef dilation, bool ceil_mode);
void max_pool2d_backward(Tensor& out, const Tensor& grad_output, const Tensor& self, IntArrayRef kernel_size,
                         IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil_mode,
                         const Tensor& indices);
void max_pool3d(Tensor& out, Tensor& indices, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
                IntArrayRef padding, IntArrayRef dilation, bool ceil_mode);
// The operator's mask of maxima is opaque: it is left alone, and the gradient finds the maxima again.
void max_pool2d_with_mask_backward(Tensor& out, const Tensor& grad_output, const Tensor& self, IntArrayRef kernel_size,
                                   IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil_mode);
void adaptive_max_pool2d(Tensor& out, Tensor& indices, const Tensor& self, IntArrayRef output_size);
void prelu_backward(Tensor& grad_input, Tensor& grad_weight, const Tensor& grad_output, const Tensor& self,
                    const Tensor& weight);
void batch_norm(Tensor& out, Tensor& save_mean, Tensor& save_invstd, const Tensor& input, const Optional& weight,
                const Optional& bias, const Optional& running_mean, const Optional& running_var, bool training,
                double momentum, double eps);
void batch_norm_backward(Optional grad_input, Optional grad_weight, Optional grad_bias, const Tensor& grad_out,
                         const Tensor& self, const Optional& weight, const Optional& running_mean,
                         const Optional& running_var, const Optional& save_mean, const Optional& save_invstd,
                         bool train, double eps, const std::vector<uint8_t>& mask);
void convolution(Tensor& out, const Tensor& input, const Tensor& weight, const Optional& bias, IntArrayRef stride,
                 IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef output_padding,
                 int64_t groups);
void convolution_backward(Optional grad_input, Optional grad_weight, Optional grad_bias, const Tensor& grad_output,
                          const Tensor& input, const Tensor& weight, IntArrayRef bias_sizes, IntArrayRef stride,
                          IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef output_padding,
                          int64_t groups, const std::vector<uint8_t>& mask);

}  // namespace softnpu::kernels
