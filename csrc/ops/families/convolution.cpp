// Convolution of every rank, forward and backward, through upstream's overrideable hook.
#include <ATen/ATen.h>
#include <ATen/native/ConvUtils.h>

#include "aclnn/op.h"
#include "ops/families/cube_math.h"
#include "ops/register.h"
#include "ops/tensor.h"

namespace npu::ops {

namespace {

std::vector<int64_t> output_sizes(const Tensor& input, const Tensor& weight, at::IntArrayRef stride,
                                  at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                                  at::IntArrayRef output_padding, int64_t groups) {
  return transposed ? at::native::conv_input_size(input.sizes(), weight.sizes(), padding, output_padding, stride,
                                                  dilation, groups)
                    : at::native::conv_output_size(input.sizes(), weight.sizes(), padding, stride, dilation);
}

// Whether these are images of one row and may be sequences: upstream makes the one of the other, and the operator has
// names for both.
bool are_sequences(const Tensor& input, const Tensor& weight, at::IntArrayRef stride, at::IntArrayRef padding,
                   at::IntArrayRef dilation, at::IntArrayRef output_padding) {
  return input.dim() == 4 && input.size(2) == 1 && weight.size(2) == 1 && stride[0] == 1 && padding[0] == 0 &&
         dilation[0] == 1 && output_padding[0] == 0 && input.is_contiguous() && weight.is_contiguous();
}

Tensor forward(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias, at::IntArrayRef stride,
               at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
               int64_t groups) {
  CardGuard guard(input);
  check_same_device("convolution", {&input, &weight});
  // In the words that upstream has for the bias, which it checks itself.
  TORCH_CHECK(input.scalar_type() == weight.scalar_type(), "Input type (", input.dtype().name(), ") and weight type (",
              weight.dtype().name(), ") should be the same");
  if (are_sequences(input, weight, stride, padding, dilation, output_padding))
    return forward(input.squeeze(2), weight.squeeze(2), bias, stride.slice(1), padding.slice(1), dilation.slice(1),
                   transposed, output_padding.slice(1), groups)
        .unsqueeze(2);
  auto out = empty(output_sizes(input, weight, stride, padding, dilation, transposed, output_padding, groups),
                   input.scalar_type(), at::native::_conv_suggest_memory_format_impl(input, weight, /*enabled=*/true));
  if (out.numel() == 0) return out;
  NPU_EXEC(aclnnConvolution, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, out,
           convolution_math_type());
  return out;
}

std::tuple<Tensor, Tensor, Tensor> backward(const Tensor& grad_output, const Tensor& input, const Tensor& weight,
                                            at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                                            bool transposed, at::IntArrayRef output_padding, int64_t groups,
                                            std::array<bool, 3> mask) {
  CardGuard guard(input);
  if (are_sequences(input, weight, stride, padding, dilation, output_padding) && grad_output.size(2) == 1) {
    auto [x, w, b] = backward(grad_output.squeeze(2), input.squeeze(2), weight.squeeze(2), stride.slice(1),
                              padding.slice(1), dilation.slice(1), transposed, output_padding.slice(1), groups, mask);
    return {mask[0] ? x.unsqueeze(2) : x, mask[1] ? w.unsqueeze(2) : w, b};
  }
  const int64_t channels = transposed ? weight.size(1) * groups : weight.size(0);
  Tensor grad_input, grad_weight, grad_bias;
  if (mask[0]) grad_input = at::empty_like(input);
  if (mask[1]) grad_weight = at::empty_like(weight);
  // For images the operator wants it, and writes it if the mask says so.
  if (mask[2] || (input.dim() == 4 && !transposed)) grad_bias = empty({channels}, grad_output.scalar_type());
  const int64_t biases = mask[2] ? channels : 0;
  NPU_EXEC(aclnnConvolutionBackward, grad_output, input, weight, at::IntArrayRef(biases), stride, padding, dilation,
           transposed, output_padding, groups, mask, convolution_math_type(), grad_input, grad_weight, grad_bias);
  return {grad_input, grad_weight, mask[2] ? grad_bias : Tensor()};
}

// The kernel that upstream chooses for CPU and CUDA, callable by its name. Its gradient is convolution_backward.
Tensor transposed2d(const Tensor& self, const Tensor& weight, at::IntArrayRef kernel_size,
                    const std::optional<Tensor>& bias, at::IntArrayRef stride, at::IntArrayRef padding,
                    at::IntArrayRef output_padding, at::IntArrayRef dilation) {
  check_same_device("slow_conv_transpose2d", {&self, &weight});  // else upstream would choose this kernel again
  TORCH_CHECK(weight.dim() == 4 && kernel_size.size() == 2 && weight.sizes().slice(2) == kernel_size,
              "slow_conv_transpose2d: kernel_size ", kernel_size,
              " must be the last two of the four dimensions of weight, ", weight.sizes());
  return at::convolution(self, weight, bias, stride, padding, dilation, /*transposed=*/true, output_padding, 1);
}

Tensor& transposed2d_out(const Tensor& self, const Tensor& weight, at::IntArrayRef kernel_size,
                         const std::optional<Tensor>& bias, at::IntArrayRef stride, at::IntArrayRef padding,
                         at::IntArrayRef output_padding, at::IntArrayRef dilation, Tensor& out) {
  return write_out(out, transposed2d(self, weight, kernel_size, bias, stride, padding, output_padding, dilation));
}

}  // namespace

NPU_REGISTER(convolution) {
  manual("aten::convolution_overrideable", "", &forward);
  manual("aten::convolution_backward_overrideable", "", &backward);
  manual("aten::slow_conv_transpose2d", "", &transposed2d);
  manual("aten::slow_conv_transpose2d", "out", &transposed2d_out);
}

}  // namespace npu::ops
