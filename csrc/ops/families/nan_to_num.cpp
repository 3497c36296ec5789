// nan_to_num: the replacements that the caller leaves out depend on the type.
#include <ATen/ATen.h>

#include <limits>

#include "aclnn/op.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace npu::ops {

namespace {

double largest_value(at::ScalarType type) {
  switch (type) {
    case at::kHalf:
      return std::numeric_limits<c10::Half>::max();
    case at::kBFloat16:
      return std::numeric_limits<c10::BFloat16>::max();
    case at::kDouble:
      return std::numeric_limits<double>::max();
    default:
      return std::numeric_limits<float>::max();
  }
}

Tensor& nan_to_num_out(const Tensor& self, std::optional<double> nan, std::optional<double> posinf,
                       std::optional<double> neginf, Tensor& out) {
  TORCH_CHECK(self.scalar_type() == out.scalar_type(), "nan_to_num: dtype of out: ", out.scalar_type(),
              " should be same as input: ", self.scalar_type());
  CardGuard guard(self);
  Target target(out, elementwise(self), {&self});
  const auto type = real_type(self);
  const double most = largest_value(type);
  if (c10::isIntegralType(type, true)) {
    target.tensor().copy_(self);
  } else if (type == at::kDouble) {  // the operator's replacements are float32
    NPU_EXEC(softnpuNanToNum, self, nan.value_or(0), posinf.value_or(most), neginf.value_or(-most), target.tensor());
  } else {
    NPU_EXEC(aclnnNanToNum, self, nan.value_or(0), posinf.value_or(most), neginf.value_or(-most), target.tensor());
  }
  target.finish();
  return out;
}

Tensor& nan_to_num_(Tensor& self, std::optional<double> nan, std::optional<double> posinf,
                    std::optional<double> neginf) {
  const auto type = real_type(self);
  if (c10::isIntegralType(type, true)) return self;
  if (type == at::kDouble) return nan_to_num_out(self, nan, posinf, neginf, self);
  CardGuard guard(self);
  at::assert_no_internal_overlap(self);
  const double most = largest_value(type);
  NPU_EXEC(aclnnInplaceNanToNum, self, nan.value_or(0), posinf.value_or(most), neginf.value_or(-most));
  return self;
}

}  // namespace

NPU_REGISTER(nan_to_num) {
  manual("aten::nan_to_num", "out", &nan_to_num_out);
  manual("aten::nan_to_num_", "", &nan_to_num_);
}

}  // namespace npu::ops
