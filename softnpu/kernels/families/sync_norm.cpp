#include "kernels/families/sync_norm.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "kernels/engine/require.h"

namespace softnpu::kernels {

namespace {

// Narrow floating types are widened: sums over a batch need the digits.
Tensor wide_sum(const Tensor& t) { return t.scalar_type() == at::kDouble ? t : t.to(at::kFloat); }

std::vector<int64_t> but_channels(const Tensor& input) {
  std::vector<int64_t> dims;
  for (int64_t dim = 0; dim < input.dim(); dim++)
    if (dim != 1) dims.push_back(dim);
  return dims;
}

// One number for each channel, shaped to meet `input`.
Tensor along_channels(const Tensor& values, const Tensor& input) {
  std::vector<int64_t> shape(input.dim(), 1);
  shape[1] = input.size(1);
  return wide_sum(values).reshape(shape);
}

Tensor centred(const Tensor& input, const Tensor& mean) { return wide_sum(input) - along_channels(mean, input); }

// Statistics that modules keep, moved towards those of this batch; the variance is that of a sample.
void follow(const Optional& running_mean, const Optional& running_var, const Tensor& mean, const Tensor& variance,
            const Tensor& total, double momentum) {
  if (running_mean) running_mean->copy_(wide_sum(*running_mean) * (1 - momentum) + mean * momentum);
  if (running_var)
    running_var->copy_(wide_sum(*running_var) * (1 - momentum) + variance * (total / (total - 1)) * momentum);
}

Tensor column(const Tensor& counts) { return wide_sum(counts).reshape({-1, 1}); }

}  // namespace

void batch_norm_stats(Tensor& mean, Tensor& invstd, const Tensor& input, double eps) {
  const auto dims = but_channels(input);
  const auto centre = wide_sum(input).mean(dims);
  mean.copy_(centre);
  invstd.copy_(at::rsqrt(centred(input, centre).square().mean(dims) + eps));
}

void batch_norm_sums(Tensor& sum, Tensor& square_sum, const Tensor& input) {
  const auto x = wide_sum(input);
  const auto dims = but_channels(input);
  sum.copy_(x.sum(dims));
  square_sum.copy_(x.square().sum(dims));
}

void batch_norm_gather(Tensor& out_mean, Tensor& out_invstd, const Tensor& mean, const Tensor& invstd,
                       Optional running_mean, Optional running_var, double momentum, double eps, const Tensor& counts) {
  const auto weight = column(counts);
  const auto total = weight.sum();
  const auto means = wide_sum(mean);
  const auto all_mean = (means * weight).sum(0) / total;
  const auto variances = wide_sum(invstd).square().reciprocal() - eps;
  const auto variance = ((variances + (means - all_mean).square()) * weight).sum(0) / total;
  out_mean.copy_(all_mean);
  out_invstd.copy_(at::rsqrt(variance + eps));
  follow(running_mean, running_var, all_mean, variance, total, momentum);
}

void batch_norm_gather_sums(Tensor& out_mean, Tensor& out_invstd, const Tensor& sum, const Tensor& square_sum,
                            const Tensor& counts, Tensor& running_mean, Tensor& running_var, double momentum,
                            double eps) {
  const auto total = wide_sum(counts).sum();
  const auto mean = wide_sum(sum).sum(0) / total;
  const auto variance = wide_sum(square_sum).sum(0) / total - mean.square();
  out_mean.copy_(mean);
  out_invstd.copy_(at::rsqrt(variance + eps));
  // Unlike upstream's, the variance that modules keep is that of the batch itself.
  running_mean.copy_(wide_sum(running_mean) * (1 - momentum) + mean * momentum);
  running_var.copy_(wide_sum(running_var) * (1 - momentum) + variance * momentum);
}

void batch_norm_elements(Tensor& out, const Tensor& input, const Optional& weight, const Optional& bias,
                         const Tensor& mean, const Tensor& invstd) {
  auto result = centred(input, mean) * along_channels(invstd, input);
  if (weight) result = result * along_channels(*weight, input);
  if (bias) result = result + along_channels(*bias, input);
  out.copy_(result);
}

void batch_norm_reduce_backward(Optional sum_dy, Optional sum_dy_xmu, Optional grad_weight, Optional grad_bias,
                                const Tensor& grad_out, const Tensor& input, const Tensor& mean, const Tensor& invstd) {
  const auto dims = but_channels(input);
  const auto grad = wide_sum(grad_out);
  const auto sum = grad.sum(dims);
  const auto weighted = (grad * centred(input, mean)).sum(dims);
  if (sum_dy) sum_dy->copy_(sum);
  if (sum_dy_xmu) sum_dy_xmu->copy_(weighted);
  if (grad_weight) grad_weight->copy_(weighted * wide_sum(invstd));
  if (grad_bias) grad_bias->copy_(sum);
}

void batch_norm_elements_backward(Tensor& out, const Tensor& grad_out, const Tensor& input, const Tensor& mean,
                                  const Tensor& invstd, const Optional& weight, const Tensor& sum_dy,
                                  const Tensor& sum_dy_xmu, const Tensor& count) {
  const auto total = wide_sum(count).sum();
  const auto scale = wide_sum(invstd);
  const auto slope = along_channels(wide_sum(sum_dy_xmu) / total * scale.square(), input);
  auto grad = (wide_sum(grad_out) - along_channels(wide_sum(sum_dy) / total, input) - centred(input, mean) * slope) *
              along_channels(scale, input);
  if (weight) grad = grad * along_channels(*weight, input);
  out.copy_(grad);
}

void require::card_statistics(const Tensor& first, const Tensor& second, const Tensor& counts,
                              std::initializer_list<Optional> results) {
  rank(first, "mean or sum", 2, 2);
  like(second, "invstd or square_sum", first);
  numbers(counts, "counts", first.size(0));
  for (const auto& result : results) shape(result, "running or combined statistics", {first.size(1)});
}

void require::tbc(const Tensor& input, const Tensor& weight, const Tensor& bias, int64_t pad) {
  rank(input, "input", 3, 3);
  rank(weight, "weight", 3, 3);
  that(input.size(2) == weight.size(1), "weight has another number of channels than the input");
  shape(bias, "bias", {weight.size(2)});
  that(pad >= 0 && input.size(0) + 2 * pad >= weight.size(0), "pad is negative, or the input shorter than weight");
  one_type({input, weight, bias});
}

}  // namespace softnpu::kernels
