// Variance and standard deviation. The device takes a whole number of degrees of freedom; for others the uncorrected
// variance is scaled.
#include <ATen/ATen.h>

#include <cmath>

#include "aclnn/op.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace npu::ops {

namespace {

using Dims = at::OptionalIntArrayRef;
using Correction = std::optional<c10::Scalar>;

struct Freedom {
  explicit Freedom(const Correction& c)
      : correction(c.has_value() ? c->toDouble() : 1), whole(correction == std::floor(correction)) {}
  int64_t launched() const { return whole ? static_cast<int64_t>(correction) : 0; }
  // What the uncorrected variance of `reduced`, taken of `self`, lacks.
  double factor(const Tensor& self, const Tensor& reduced) const {
    const double n = reduced.numel() ? static_cast<double>(self.numel()) / static_cast<double>(reduced.numel()) : 0;
    return n / std::max(0.0, n - correction);
  }

  double correction;
  bool whole;
};

void check(const Tensor& self, const char* op) {
  TORCH_CHECK(self.is_floating_point() || self.is_complex(), op, " only support floating point and complex dtypes");
}

Tensor& var_out(const Tensor& self, Dims dim, const Correction& correction, bool keepdim, Tensor& out) {
  CardGuard guard(self);
  check(self, "std and var");
  const Freedom freedom(correction);
  Target target(out, reduced(self, dim, keepdim, real_type(self)));
  NPU_EXEC(aclnnVarCorrection, self, or_empty(dim), freedom.launched(), keepdim, target.tensor());
  if (!freedom.whole) target.tensor().mul_(freedom.factor(self, target.tensor()));
  target.finish();
  return out;
}

Tensor& std_out(const Tensor& self, Dims dim, const Correction& correction, bool keepdim, Tensor& out) {
  CardGuard guard(self);
  check(self, "std and var");
  const Freedom freedom(correction);
  Target target(out, reduced(self, dim, keepdim, real_type(self)));
  NPU_EXEC(aclnnStd, self, every_dim(self, dim), freedom.launched(), keepdim, target.tensor());
  if (!freedom.whole) target.tensor().mul_(std::sqrt(freedom.factor(self, target.tensor())));
  target.finish();
  return out;
}

Tensor var(const Tensor& self, Dims dim, const Correction& correction, bool keepdim) {
  CardGuard guard(self);
  auto out = make(reduced(self, dim, keepdim, real_type(self)));
  return var_out(self, dim, correction, keepdim, out);
}

Tensor std(const Tensor& self, Dims dim, const Correction& correction, bool keepdim) {
  CardGuard guard(self);
  auto out = make(reduced(self, dim, keepdim, real_type(self)));
  return std_out(self, dim, correction, keepdim, out);
}

std::tuple<Tensor, Tensor> var_mean(const Tensor& self, Dims dim, const Correction& correction, bool keepdim) {
  CardGuard guard(self);
  check(self, "var_mean");
  const Freedom freedom(correction);
  auto var = make(reduced(self, dim, keepdim, real_type(self))),
       mean = make(reduced(self, dim, keepdim, self.scalar_type()));
  NPU_EXEC(aclnnVarMean, self, every_dim(self, dim), freedom.launched(), keepdim, var, mean);
  if (!freedom.whole) var.mul_(freedom.factor(self, var));
  return {var, mean};
}

std::tuple<Tensor, Tensor> std_mean(const Tensor& self, Dims dim, const Correction& correction, bool keepdim) {
  CardGuard guard(self);
  check(self, "std_mean");
  const Freedom freedom(correction);
  auto std = make(reduced(self, dim, keepdim, real_type(self))),
       mean = make(reduced(self, dim, keepdim, self.scalar_type()));
  NPU_EXEC(aclnnStdMeanCorrection, self, every_dim(self, dim), freedom.launched(), keepdim, std, mean);
  if (!freedom.whole) std.mul_(std::sqrt(freedom.factor(self, std)));
  return {std, mean};
}

}  // namespace

NPU_REGISTER(variance) {
  manual("aten::var", "correction", &var);
  manual("aten::var", "correction_out", &var_out);
  manual("aten::std", "correction", &std);
  manual("aten::std", "correction_out", &std_out);
  manual("aten::var_mean", "correction", &var_mean);
  manual("aten::std_mean", "correction", &std_mean);
}

}  // namespace npu::ops
