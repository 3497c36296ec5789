// The five steps of torch.nn.SyncBatchNorm, between which upstream's module gathers and sums over the ranks. Statistics
// are kept in float, as upstream's are.
#include "aclnn/op.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace npu::ops {

namespace {

using MaybeTensor = std::optional<Tensor>;

// What statistics are kept in: one number for each channel, which are the second dimension.
Tensor statistics(const Tensor& input) { return empty({input.size(1)}, statistics_type(input.scalar_type())); }

std::tuple<Tensor, Tensor> local_stats(const Tensor& input, double eps) {
  CardGuard guard(input);
  auto mean = statistics(input), invstd = statistics(input);
  NPU_EXEC(aclnnBatchNormStats, input, eps, mean, invstd);
  return {mean, invstd};
}

// Rows of `mean` and `invstd` are ranks, which have seen `counts` elements each.
std::tuple<Tensor, Tensor> gather_stats(const Tensor& input, const Tensor& mean, const Tensor& invstd,
                                        const MaybeTensor& running_mean, const MaybeTensor& running_var,
                                        double momentum, double eps, const Tensor& counts) {
  CardGuard guard(input);
  check_same_device("batch_norm_gather_stats_with_counts", {&input, &mean, &invstd, &counts});
  auto all_mean = statistics(input), all_invstd = statistics(input);
  NPU_EXEC(aclnnBatchNormGatherStatsWithCounts, input, mean, invstd, running_mean, running_var, momentum, eps, counts,
           all_mean, all_invstd);
  return {all_mean, all_invstd};
}

Tensor& normalize_out(const Tensor& input, const MaybeTensor& weight, const MaybeTensor& bias, const Tensor& mean,
                      const Tensor& invstd, double eps, Tensor& out) {
  CardGuard guard(input);
  check_same_device("batch_norm_elemt", {&input, &mean, &invstd, &out});
  Target target(out, like(input), {&input});
  NPU_EXEC(aclnnBatchNormElemt, input, weight, bias, mean, invstd, eps, target.tensor());
  target.finish();
  return out;
}

Tensor normalize(const Tensor& input, const MaybeTensor& weight, const MaybeTensor& bias, const Tensor& mean,
                 const Tensor& invstd, double eps) {
  CardGuard guard(input);
  auto out = make(like(input));
  return normalize_out(input, weight, bias, mean, invstd, eps, out);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> backward_reduce(const Tensor& grad_out, const Tensor& input,
                                                           const Tensor& mean, const Tensor& invstd,
                                                           const MaybeTensor& weight, bool input_g, bool weight_g,
                                                           bool bias_g) {
  CardGuard guard(input);
  check_same_device("batch_norm_backward_reduce", {&grad_out, &input, &mean, &invstd});
  const auto type = weight && weight->defined() ? weight->scalar_type() : statistics_type(input.scalar_type());
  Tensor sum_dy, sum_dy_xmu, grad_weight, grad_bias;
  if (input_g) sum_dy = statistics(input), sum_dy_xmu = statistics(input);
  if (weight_g) grad_weight = empty({input.size(1)}, type);
  if (bias_g) grad_bias = empty({input.size(1)}, type);
  NPU_EXEC(aclnnBatchNormReduceBackward, grad_out, input, mean, invstd, weight, input_g, weight_g, bias_g, sum_dy,
           sum_dy_xmu, grad_weight, grad_bias);
  return {sum_dy, sum_dy_xmu, grad_weight, grad_bias};
}

Tensor backward_elemt(const Tensor& grad_out, const Tensor& input, const Tensor& mean, const Tensor& invstd,
                      const MaybeTensor& weight, const Tensor& sum_dy, const Tensor& sum_dy_xmu, const Tensor& count) {
  CardGuard guard(input);
  check_same_device("batch_norm_backward_elemt", {&grad_out, &input, &mean, &invstd, &sum_dy, &sum_dy_xmu, &count});
  auto out = make(like(input));
  NPU_EXEC(aclnnBatchNormElemtBackward, grad_out, input, mean, invstd, weight, sum_dy, sum_dy_xmu, count, out);
  return out;
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
