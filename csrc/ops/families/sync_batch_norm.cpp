// The five steps of torch.nn.SyncBatchNorm, between which upstream's module gathers and sums over the ranks. Composed
// from other operators; statistics are kept in float, as upstream's are.
#include <ATen/ATen.h>

#include "ops/register.h"

namespace npu::ops {

namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

// All dimensions but the channels', which is the second.
std::vector<int64_t> reduced_dims(const Tensor& input) {
  std::vector<int64_t> dims;
  for (int64_t dim = 0; dim < input.dim(); ++dim)
    if (dim != 1) dims.push_back(dim);
  return dims;
}

// One number per channel, shaped to meet `input`.
Tensor per_channel(const Tensor& values, const Tensor& input) {
  std::vector<int64_t> shape(input.dim(), 1);
  shape[1] = input.size(1);
  return values.to(at::kFloat).view(shape);
}

Tensor as_float(const Tensor& tensor) { return tensor.to(at::kFloat); }

std::tuple<Tensor, Tensor> local_stats(const Tensor& input, double eps) {
  const Tensor x = as_float(input);
  const auto dims = reduced_dims(input);
  const Tensor mean = x.mean(dims);
  const Tensor variance = (x - per_channel(mean, input)).square().mean(dims);
  return {mean, at::rsqrt(variance + eps)};
}

// Rows of `mean` and `invstd` are ranks, which have seen `counts` elements each.
std::tuple<Tensor, Tensor> gather_stats(const Tensor&, const Tensor& mean, const Tensor& invstd,
                                        const MaybeTensor& running_mean, const MaybeTensor& running_var,
                                        double momentum, double eps, const Tensor& counts) {
  const Tensor weight = as_float(counts).view({-1, 1});
  const Tensor total = weight.sum();
  const Tensor all_mean = (mean * weight).sum(0) / total;
  const Tensor variances = invstd.square().reciprocal() - eps;
  const Tensor variance = ((variances + (mean - all_mean).square()) * weight).sum(0) / total;
  if (running_mean && running_mean->defined())
    running_mean->mul_(1 - momentum).add_(all_mean.to(running_mean->scalar_type()), momentum);
  if (running_var && running_var->defined()) {
    const Tensor unbiased = variance * (total / (total - 1));
    running_var->mul_(1 - momentum).add_(unbiased.to(running_var->scalar_type()), momentum);
  }
  return {all_mean, at::rsqrt(variance + eps)};
}

Tensor normalize(const Tensor& input, const MaybeTensor& weight, const MaybeTensor& bias, const Tensor& mean,
                 const Tensor& invstd, double) {
  Tensor result = (as_float(input) - per_channel(mean, input)) * per_channel(invstd, input);
  if (weight && weight->defined()) result = result * per_channel(*weight, input);
  if (bias && bias->defined()) result = result + per_channel(*bias, input);
  return result.to(input.scalar_type());
}

Tensor& normalize_out(const Tensor& input, const MaybeTensor& weight, const MaybeTensor& bias, const Tensor& mean,
                      const Tensor& invstd, double eps, Tensor& out) {
  return out.copy_(normalize(input, weight, bias, mean, invstd, eps));
}

std::tuple<Tensor, Tensor, Tensor, Tensor> backward_reduce(const Tensor& grad_out, const Tensor& input,
                                                           const Tensor& mean, const Tensor& invstd,
                                                           const MaybeTensor& weight, bool input_g, bool weight_g,
                                                           bool bias_g) {
  const auto dims = reduced_dims(input);
  const Tensor grad = as_float(grad_out);
  const Tensor sum_dy = grad.sum(dims);
  const Tensor sum_dy_xmu = (grad * (as_float(input) - per_channel(mean, input))).sum(dims);
  const auto type = weight && weight->defined() ? weight->scalar_type() : at::kFloat;
  return {input_g ? sum_dy : Tensor(), input_g ? sum_dy_xmu : Tensor(),
          weight_g ? (sum_dy_xmu * invstd).to(type) : Tensor(), bias_g ? sum_dy.to(type) : Tensor()};
}

Tensor backward_elemt(const Tensor& grad_out, const Tensor& input, const Tensor& mean, const Tensor& invstd,
                      const MaybeTensor& weight, const Tensor& sum_dy, const Tensor& sum_dy_xmu, const Tensor& count) {
  const Tensor total = as_float(count).sum();
  const Tensor centred = as_float(input) - per_channel(mean, input);
  const Tensor slope = per_channel(sum_dy_xmu / total * invstd.square(), input);
  Tensor grad =
      (as_float(grad_out) - per_channel(sum_dy / total, input) - centred * slope) * per_channel(invstd, input);
  if (weight && weight->defined()) grad = grad * per_channel(*weight, input);
  return grad.to(input.scalar_type());
}

}  // namespace

NPU_REGISTER(sync_batch_norm) {
  manual("aten::batch_norm_stats", "", &local_stats);
  manual("aten::batch_norm_gather_stats_with_counts", "", &gather_stats);
  manual("aten::batch_norm_elemt", "", &normalize);
  manual("aten::batch_norm_elemt", "out", &normalize_out);
  manual("aten::batch_norm_backward_reduce", "", &backward_reduce);
  manual("aten::batch_norm_backward_elemt", "", &backward_elemt);
}

}  // namespace npu::ops
