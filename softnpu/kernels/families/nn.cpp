#include "kernels/families/nn.h"

#include <ATen/CPUFunctions.h>
#include <ATen/Functions.h>
#include <ATen/native/batch_norm.h>

#include "kernels/engine/landing.h"
#include "kernels/engine/require.h"
#include "kernels/engine/wide.h"

namespace softnpu::kernels {

namespace {

void copy_into(const Optional& to, const Tensor& from) {
  if (to.has_value() && from.defined()) to->copy_(from);
}

}  // namespace

// ATen's out= form takes `out` and `self` for two of one layout.
void gelu(Tensor& out, const Tensor& self, std::string_view approximate) {
  if (out.strides() == self.strides())
    at::cpu::gelu_out(out, self, approximate);
  else
    out.copy_(at::cpu::gelu(self, approximate));
}

// ATen's out= forms of these two write dense memory whatever the strides of `out` are.
void softmax_backward(Tensor& out, const Tensor& grad_output, const Tensor& output, int64_t dim) {
  const auto type = output.scalar_type();
  if (out.scalar_type() == type && out.is_contiguous())
    at::cpu::_softmax_backward_data_out(out, grad_output, output, dim, type);
  else
    out.copy_(at::cpu::_softmax_backward_data(grad_output, output, dim, type));
}

void log_softmax_backward(Tensor& out, const Tensor& grad_output, const Tensor& output, int64_t dim) {
  const auto type = output.scalar_type();
  if (out.scalar_type() == type && out.is_contiguous())
    at::cpu::_log_softmax_backward_data_out(out, grad_output, output, dim, type);
  else
    out.copy_(at::cpu::_log_softmax_backward_data(grad_output, output, dim, type));
}

// The device may keep indices in int32; ATen computes them in int64.
void max_pool2d(Tensor& out, Tensor& indices, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
                IntArrayRef padding, IntArrayRef dilation, bool ceil_mode) {
  if (indices.scalar_type() == at::kLong) {
    at::cpu::max_pool2d_with_indices_out(out, indices, self, kernel_size, stride, padding, dilation, ceil_mode);
    return;
  }
  auto [values, where] = at::cpu::max_pool2d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode);
  out.copy_(values);
  indices.copy_(where);
}

void max_pool3d(Tensor& out, Tensor& indices, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
                IntArrayRef padding, IntArrayRef dilation, bool ceil_mode) {
  auto [values, where] = at::max_pool3d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode);
  out.copy_(values);
  indices.copy_(where);
}

void max_pool2d_backward(Tensor& out, const Tensor& grad_output, const Tensor& self, IntArrayRef kernel_size,
                         IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil_mode,
                         const Tensor& indices) {
  at::cpu::max_pool2d_with_indices_backward_out(out, grad_output, self, kernel_size, stride, padding, dilation,
                                                ceil_mode, indices.to(at::kLong));
}

void max_pool2d_with_mask_backward(Tensor& out, const Tensor& grad_output, const Tensor& self, IntArrayRef kernel_size,
                                   IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil_mode) {
  const auto indices =
      std::get<1>(at::max_pool2d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode));
  max_pool2d_backward(out, grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices);
}

void adaptive_max_pool2d(Tensor& out, Tensor& indices, const Tensor& self, IntArrayRef output_size) {
  const auto [values, where] = at::adaptive_max_pool2d(self, output_size);
  out.copy_(values);
  indices.copy_(where);
}

void prelu_backward(Tensor& grad_input, Tensor& grad_weight, const Tensor& grad_output, const Tensor& self,
                    const Tensor& weight) {
  std::vector<int64_t> shape(self.dim(), 1);  // weights lie along dimension 1
  if (weight.numel() > 1) shape[1] = weight.numel();
  const auto [input, full] = at::_prelu_kernel_backward(grad_output, self, weight.reshape(shape));
  grad_input.copy_(input);
  grad_weight.copy_(full.sum_to_size(shape).view(grad_weight.sizes()));
}

void batch_norm(Tensor& out, Tensor& save_mean, Tensor& save_invstd, const Tensor& input, const Optional& weight,
                const Optional& bias, const Optional& running_mean, const Optional& running_var, bool training,
                double momentum, double eps) {
  // ATen's out= form reads the input as if it were dense, in the format of `out`.
  const bool dense = input.strides() == out.strides() && input.is_contiguous(input.suggest_memory_format());
  if (training && dense && out.scalar_type() == input.scalar_type() && save_mean.scalar_type() == input.scalar_type()) {
    at::cpu::native_batch_norm_out(out, save_mean, save_invstd, input, weight, bias, running_mean, running_var,
                                   training, momentum, eps);
    return;
  }
  const Landing land({out});
  auto [result, mean, invstd] =
      at::cpu::native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps);
  out.copy_(result);
  if (mean.numel() == save_mean.numel()) save_mean.copy_(mean);
  if (invstd.numel() == save_invstd.numel()) save_invstd.copy_(invstd);
}

void batch_norm_backward(Optional grad_input, Optional grad_weight, Optional grad_bias, const Tensor& grad_out,
                         const Tensor& self, const Optional& weight, const Optional& running_mean,
                         const Optional& running_var, const Optional& save_mean, const Optional& save_invstd,
                         bool train, double eps, const std::vector<uint8_t>& mask) {
  if (direct({grad_out, self, weight, running_mean, running_var, save_mean, save_invstd, grad_input, grad_weight,
              grad_bias}) &&
      self.numel()) {
    auto [gi, gw, gb] = chosen(mask, grad_input, grad_weight, grad_bias);
    at::native::batch_norm_cpu_backward_stub(at::kCPU, gi, gw, gb, grad_out, self, given(weight), given(running_mean),
                                             given(running_var), given(save_mean), given(save_invstd), train, eps);
    return;
  }
  // The saved statistics are float32; ATen takes them beside float16 input only if the other parameters are float32
  // too.
  const auto wide = [](const Optional& t) { return t && t->defined() ? Optional(t->to(at::kFloat)) : t; };
  const bool mixed = save_mean && save_mean->defined() && save_mean->scalar_type() != self.scalar_type();
  const Landing land({grad_input});
  auto [gi, gw, gb] = at::cpu::native_batch_norm_backward(
      grad_out, self, mixed ? wide(weight) : weight, mixed ? wide(running_mean) : running_mean,
      mixed ? wide(running_var) : running_var, save_mean, save_invstd, train, eps, three_flags(mask));
  copy_into(grad_input, gi);
  copy_into(grad_weight, gw);
  copy_into(grad_bias, gb);
}

void convolution(Tensor& out, const Tensor& input, const Tensor& weight, const Optional& bias, IntArrayRef stride,
                 IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef output_padding,
                 int64_t groups) {
  if (worth_widening({input, weight})) {
    out.copy_(at::convolution(widened(input), widened(weight), widened(bias), stride, padding, dilation, transposed,
                              output_padding, groups));
    return;
  }
  const Landing land({out});
  out.copy_(at::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups));
}

void convolution_backward(Optional grad_input, Optional grad_weight, Optional grad_bias, const Tensor& grad_output,
                          const Tensor& input, const Tensor& weight, IntArrayRef bias_sizes, IntArrayRef stride,
                          IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef output_padding,
                          int64_t groups, const std::vector<uint8_t>& mask) {
  const at::OptionalIntArrayRef sizes =
      bias_sizes.empty() ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(bias_sizes);
  const Landing land({grad_input, grad_weight});
  const bool wide = worth_widening({grad_output, input, weight});
  auto [gi, gw, gb] = at::convolution_backward(wide ? widened(grad_output) : grad_output, wide ? widened(input) : input,
                                               wide ? widened(weight) : weight, sizes, stride, padding, dilation,
                                               transposed, output_padding, groups, three_flags(mask));
  copy_into(grad_input, gi);
  copy_into(grad_weight, gw);
  copy_into(grad_bias, gb);
}

namespace require {

void convolution_gradient(const Tensor& grad, const Tensor& input, const Tensor& weight, IntArrayRef stride,
                          IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef output_padding,
                          int64_t groups) {
  rank(weight, "weight", 3, 5);
  rank(input, "input", weight.dim(), weight.dim());
  that(groups > 0, "argument 'groups' is not positive");
  that(input.size(1) == (transposed ? weight.size(0) : weight.size(1) * groups),
       "input has other channels than weight");
  const size_t dims = weight.dim() - 2;
  const auto number = [&](IntArrayRef list, const char* name, size_t dim, int64_t least) {
    if (list.size() != 1) entries(list, name, dims);
    const int64_t n = list[list.size() == 1 ? 0 : dim];
    that(n >= least, ("argument '" + std::string(name) + "' has " + std::to_string(n)).c_str());
    return n;
  };
  std::vector<int64_t> sizes{input.size(0), transposed ? weight.size(1) * groups : weight.size(0)};
  for (size_t d = 0; d < dims; d++) {
    const int64_t step = number(stride, "stride", d, 1), around = 2 * number(padding, "padding", d, 0);
    const int64_t length = input.size(2 + d),
                  kernel = number(dilation, "dilation", d, 1) * (weight.size(2 + d) - 1) + 1;
    sizes.push_back(transposed ? (length - 1) * step - around + kernel + number(output_padding, "output_padding", d, 0)
                               : (length + around - kernel) / step + 1);
  }
  shape(grad, "grad_output", sizes);
}

}  // namespace require

}  // namespace softnpu::kernels
