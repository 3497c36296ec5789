// Layer and group normalisation; batch normalisation is in batch_norm.cpp.
#include <ATen/ATen.h>
#include <ATen/native/layer_norm.h>

#include "aclnn/op.h"
#include "ops/provider.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace npu::ops {

namespace {

using Optional = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

// Statistics of the normalised dimensions: one for each position in the others.
Tensor statistics(const Tensor& input, size_t normalized) {
  Sizes sizes(input.sizes().begin(), input.sizes().end() - static_cast<int64_t>(normalized));
  sizes.append(normalized, 1);
  return empty(sizes, statistics_type(input.scalar_type()));
}

Three layer_norm(const Tensor& input, at::IntArrayRef shape, const Optional& weight, const Optional& bias, double eps) {
  CardGuard guard(input);
  at::native::_check_layer_norm_inputs(input, shape, weight.value_or(Tensor()), bias.value_or(Tensor()));
  auto out = make(sized(input.sizes(), input));
  auto mean = statistics(input, shape.size()), rstd = statistics(input, shape.size());
  if (input.numel() > 0) NPU_EXEC(aclnnLayerNorm, input, shape, weight, bias, eps, out, mean, rstd);
  return {out, mean, rstd};
}

// The gradient of a parameter, undefined where there is none; zeros where nothing was normalised.
Tensor gradient(bool wanted, const Optional& parameter, bool zero) {
  if (!wanted || !parameter.has_value() || !parameter->defined()) return {};
  if (zero) return at::zeros_like(*parameter, at::MemoryFormat::Contiguous);
  const auto type = parameter->scalar_type();  // CANN adds up in float32, and leaves it at that
  return empty(parameter->sizes(), on_softnpu() ? type : statistics_type(type));
}

Tensor in_type_of(const Tensor& gradient, const Optional& parameter) {
  return gradient.defined() ? gradient.to(parameter->scalar_type()) : gradient;
}

// A parameter of the operator; where there is none, CANN gets one that changes nothing.
Optional given(const Optional& parameter, at::IntArrayRef shape, const Tensor& input, int neutral) {
  if (on_softnpu() || (parameter.has_value() && parameter->defined())) return parameter;
  return neutral ? at::ones(shape, input.options()) : at::zeros(shape, input.options());
}

Three layer_norm_backward(const Tensor& grad_out, const Tensor& input, at::IntArrayRef shape, const Tensor& mean,
                          const Tensor& rstd, const Optional& weight, const Optional& bias, std::array<bool, 3> mask) {
  CardGuard guard(input);
  at::native::_check_layer_norm_inputs(input, shape, weight.value_or(Tensor()), bias.value_or(Tensor()));
  const bool none = input.numel() == 0;
  Tensor grad_input, grad_weight = gradient(mask[1], weight, none), grad_bias = gradient(mask[2], bias, none);
  if (mask[0]) grad_input = make(sized(input.sizes(), input));
  if (input.numel() > 0) {
    const auto scale = given(weight, shape, input, 1), shift = given(bias, shape, input, 0);
    NPU_EXEC(aclnnLayerNormBackward, grad_out, input, shape, mean, rstd, scale, shift, mask, grad_input, grad_weight,
             grad_bias);
  }
  return {grad_input, in_type_of(grad_weight, weight), in_type_of(grad_bias, bias)};
}

Three group_norm(const Tensor& input, const Optional& weight, const Optional& bias, int64_t n, int64_t c, int64_t hxw,
                 int64_t groups, double eps) {
  CardGuard guard(input);
  TORCH_CHECK(groups > 0 && c % groups == 0,
              "Expected number of channels in input to be divisible by num_groups, but got input of shape ",
              input.sizes(), " and num_groups=", groups);
  auto out = make(sized(input.sizes(), input));
  const auto type = on_softnpu() ? statistics_type(input.scalar_type()) : input.scalar_type();  // as CANN has them
  auto mean = empty({n, groups}, type), rstd = empty({n, groups}, type);
  if (input.numel() > 0) NPU_EXEC(aclnnGroupNorm, input, weight, bias, n, c, hxw, groups, eps, out, mean, rstd);
  return {out, mean, rstd};
}

Three group_norm_backward(const Tensor& grad_out, const Tensor& input, const Tensor& mean, const Tensor& rstd,
                          const Optional& weight, int64_t n, int64_t c, int64_t hxw, int64_t groups,
                          std::array<bool, 3> mask) {
  CardGuard guard(input);
  const auto type = weight.has_value() && weight->defined() ? weight->scalar_type() : input.scalar_type();
  Tensor grad_input, grad_weight, grad_bias;
  if (mask[0]) grad_input = make(sized(input.sizes(), input));
  const auto parameter = [&] { return input.numel() ? empty({c}, type) : at::zeros({c}, input.options().dtype(type)); };
  if (mask[1]) grad_weight = parameter();
  if (mask[2]) grad_bias = parameter();
  if (input.numel() > 0)
    NPU_EXEC(aclnnGroupNormBackward, grad_out, input, mean, rstd, weight, n, c, hxw, groups, mask, grad_input,
             grad_weight, grad_bias);
  return {grad_input, grad_weight, grad_bias};
}

}  // namespace

NPU_REGISTER(normalization) {
  manual("aten::native_layer_norm", "", &layer_norm);
  manual("aten::native_layer_norm_backward", "", &layer_norm_backward);
  manual("aten::native_group_norm", "", &group_norm);
  manual("aten::native_group_norm_backward", "", &group_norm_backward);
}

}  // namespace npu::ops
