// Batch normalisation: the forms that upstream's front functions and autograd formulas call.
#include <ATen/ATen.h>

#include "aclnn/op.h"
#include "ops/provider.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace npu::ops {

namespace {

using Optional = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

Three forward(const Tensor& input, const Optional& weight, const Optional& bias, const Optional& running_mean,
              const Optional& running_var, bool training, double momentum, double eps) {
  CardGuard guard(input);
  TORCH_CHECK(input.dim() >= 2, "batch_norm expects an input with at least 2 dimensions, got ", input.dim());
  auto out = make(like(input));
  const auto type =
      statistics_type(weight.has_value() && weight->defined() ? weight->scalar_type() : input.scalar_type());
  // Without training there are none to save; CANN gets memory for them, and its backward operator sees it again.
  const int64_t channels = training || !on_softnpu() ? input.size(1) : 0;
  const auto saved_type = training ? type : input.scalar_type();
  auto save_mean = empty({channels}, saved_type), save_invstd = empty({channels}, saved_type);
  if (input.numel() > 0)
    NPU_EXEC(aclnnBatchNorm, input, weight, bias, running_mean, running_var, training, momentum, eps, out, save_mean,
             save_invstd);
  return {out, save_mean, save_invstd};
}

Three legit(const Tensor& input, const Optional& weight, const Optional& bias, Tensor& running_mean,
            Tensor& running_var, bool training, double momentum, double eps) {
  return forward(input, weight, bias, running_mean, running_var, training, momentum, eps);
}

Three legit_no_stats(const Tensor& input, const Optional& weight, const Optional& bias, bool training, double momentum,
                     double eps) {
  return forward(input, weight, bias, std::nullopt, std::nullopt, training, momentum, eps);
}

// Results into out= tensors; the statistics of a call without training are left alone, as they have no elements.
std::tuple<Tensor&, Tensor&, Tensor&> write_all(const Three& result, Tensor& out, Tensor& save_mean,
                                                Tensor& save_invstd) {
  write_out(out, std::get<0>(result));
  write_out(save_mean, std::get<1>(result));
  write_out(save_invstd, std::get<2>(result));
  return {out, save_mean, save_invstd};
}

std::tuple<Tensor&, Tensor&, Tensor&> forward_out(const Tensor& input, const Optional& weight, const Optional& bias,
                                                  const Optional& running_mean, const Optional& running_var,
                                                  bool training, double momentum, double eps, Tensor& out,
                                                  Tensor& save_mean, Tensor& save_invstd) {
  return write_all(forward(input, weight, bias, running_mean, running_var, training, momentum, eps), out, save_mean,
                   save_invstd);
}

std::tuple<Tensor&, Tensor&, Tensor&> legit_out(const Tensor& input, const Optional& weight, const Optional& bias,
                                                Tensor& running_mean, Tensor& running_var, bool training,
                                                double momentum, double eps, Tensor& out, Tensor& save_mean,
                                                Tensor& save_invstd) {
  return forward_out(input, weight, bias, running_mean, running_var, training, momentum, eps, out, save_mean,
                     save_invstd);
}

std::tuple<Tensor&, Tensor&, Tensor&> legit_no_stats_out(const Tensor& input, const Optional& weight,
                                                         const Optional& bias, bool training, double momentum,
                                                         double eps, Tensor& out, Tensor& save_mean,
                                                         Tensor& save_invstd) {
  return forward_out(input, weight, bias, std::nullopt, std::nullopt, training, momentum, eps, out, save_mean,
                     save_invstd);
}

// The fourth result is memory that some backends keep for the gradient; none is needed here.
std::tuple<Tensor, Tensor, Tensor, Tensor> with_update(const Tensor& input, const Optional& weight,
                                                       const Optional& bias, Tensor& running_mean, Tensor& running_var,
                                                       double momentum, double eps) {
  CardGuard guard(input);
  return std::tuple_cat(forward(input, weight, bias, running_mean, running_var, true, momentum, eps),
                        std::make_tuple(empty({0}, at::kByte)));
}

std::tuple<Tensor&, Tensor&, Tensor&, Tensor&> with_update_out(const Tensor& input, const Optional& weight,
                                                               const Optional& bias, Tensor& running_mean,
                                                               Tensor& running_var, double momentum, double eps,
                                                               Tensor& out, Tensor& save_mean, Tensor& save_invstd,
                                                               Tensor& reserve) {
  forward_out(input, weight, bias, running_mean, running_var, true, momentum, eps, out, save_mean, save_invstd);
  return {out, save_mean, save_invstd, reserve};
}

// Mean and variance of a batch; the running ones follow.
std::tuple<Tensor, Tensor> update_stats(const Tensor& input, const Optional& running_mean, const Optional& running_var,
                                        double momentum) {
  TORCH_CHECK(input.dim() >= 2, "batch_norm expects an input with at least 2 dimensions, got ", input.dim());
  const auto channels = input.transpose(0, 1).flatten(1);
  const auto [variance, mean] = at::var_mean(channels, /*dim=*/1, /*unbiased=*/false);
  const double count = static_cast<double>(channels.size(1));
  if (running_mean && running_mean->defined()) running_mean->lerp_(mean.to(running_mean->scalar_type()), momentum);
  if (running_var && running_var->defined())
    running_var->lerp_((variance * (count / (count - 1))).to(running_var->scalar_type()), momentum);
  return {mean, variance};
}

Three backward(const Tensor& grad_out, const Tensor& input, const Optional& weight, const Optional& running_mean,
               const Optional& running_var, const Optional& save_mean, const Optional& save_invstd, bool train,
               double eps, std::array<bool, 3> mask) {
  CardGuard guard(input);
  const auto type =
      weight.has_value() && weight->defined() ? weight->scalar_type() : statistics_type(input.scalar_type());
  const auto sums = on_softnpu() ? type : statistics_type(type);  // CANN adds up in float32, and leaves it at that
  Tensor grad_input, grad_weight, grad_bias;
  if (mask[0]) grad_input = make(like(input));
  if (mask[1]) grad_weight = empty({input.size(1)}, sums);
  if (mask[2]) grad_bias = empty({input.size(1)}, sums);
  NPU_EXEC(aclnnBatchNormBackward, grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train,
           eps, mask, grad_input, grad_weight, grad_bias);
  if (mask[1]) grad_weight = grad_weight.to(type);
  if (mask[2]) grad_bias = grad_bias.to(type);
  return {grad_input, grad_weight, grad_bias};
}

Three backward_of_update(const Tensor& grad_out, const Tensor& input, const Tensor& weight,
                         const Optional& running_mean, const Optional& running_var, const Optional& save_mean,
                         const Optional& save_var, bool update, double eps, std::array<bool, 3> mask, const Tensor&) {
  return backward(grad_out, input, weight, running_mean, running_var, save_mean, save_var, update, eps, mask);
}

}  // namespace

NPU_REGISTER(batch_norm) {
  manual("aten::native_batch_norm", "out", &forward_out);
  manual("aten::_native_batch_norm_legit", "out", &legit_out);
  manual("aten::_native_batch_norm_legit", "no_stats_out", &legit_no_stats_out);
  manual("aten::_batch_norm_with_update", "", &with_update);
  manual("aten::_batch_norm_with_update", "out", &with_update_out);
  manual("aten::batch_norm_update_stats", "", &update_stats);
  manual("aten::batch_norm_backward", "", &backward_of_update);
  manual("aten::native_batch_norm", "", &forward);
  manual("aten::_native_batch_norm_legit", "", &legit);
  manual("aten::_native_batch_norm_legit", "no_stats", &legit_no_stats);
  manual("aten::native_batch_norm_backward", "", &backward);
}

}  // namespace npu::ops
