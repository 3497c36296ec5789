// Division that rounds down, by a tensor or by a number.
#include <ATen/ATen.h>

#include "aclnn/op.h"
#include "ops/families/forms.h"
#include "ops/register.h"

namespace npu::ops {

namespace {

bool by_number(const Tensor& self, const Tensor& other) { return is_cpu_scalar(other) && is_npu(self); }

void check_operands(const Tensor& self, const Tensor& other) {
  if (!is_cpu_scalar(self) && !is_cpu_scalar(other)) check_same_device("floor_divide", {&self, &other});
}

Spec quotient(const Tensor& self, const Tensor& other) {
  TORCH_CHECK_NOT_IMPLEMENTED(promote(self, other) != at::kBool, "\"div_floor\" not implemented for 'Bool'");
  return elementwise(promote(self, other), self, other);
}

void launch(const Tensor& self, const Tensor& other, const Tensor& out, at::ScalarType type) {
  if (out.numel() == 0) return;
  if (by_number(self, other))
    NPU_EXEC(aclnnFloorDivides, self, read_cpu_scalar(other), out);
  else
    NPU_EXEC(aclnnFloorDivide, on_device(self, type), on_device(other, type), out);
}

Tensor floor_divide(const Tensor& self, const Tensor& other) {
  CardGuard guard(first_npu({&self, &other}));
  check_operands(self, other);
  const auto spec = quotient(self, other);
  auto out = make(spec);
  launch(self, other, out, spec.dtype);
  return out;
}

Tensor& floor_divide_(Tensor& self, const Tensor& other) {
  CardGuard guard(self);
  check_operands(self, other);
  at::assert_no_internal_overlap(self);
  const auto spec = quotient(self, other);
  check_inplace(self, spec);
  if (self.numel() == 0) return self;
  if (by_number(self, other))
    NPU_EXEC(aclnnInplaceFloorDivides, self, read_cpu_scalar(other));
  else
    NPU_EXEC(aclnnInplaceFloorDivide, self, on_device(other, spec.dtype));
  return self;
}

Tensor& floor_divide_out(const Tensor& self, const Tensor& other, Tensor& out) {
  CardGuard guard(out);
  check_operands(self, other);
  const auto spec = quotient(self, other);
  Target target(out, spec, {&self, &other});
  launch(self, other, target.tensor(), spec.dtype);
  target.finish();
  return out;
}

}  // namespace

NPU_REGISTER(division) {
  manual("aten::floor_divide", "", &floor_divide);
  manual("aten::floor_divide_", "Tensor", &floor_divide_);
  manual("aten::floor_divide", "out", &floor_divide_out);
}

}  // namespace npu::ops
