// Operators whose result shape or value depends on data: they wait for the device.
#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/native/Resize.h>

#include "exec.h"
#include "registry.h"
#include "tensor.h"

namespace npu::ops {

namespace {

Tensor find_nonzero(const Tensor& self) {
  CardGuard guard(self);
  auto room = empty({self.numel(), self.dim()}, at::kLong);
  if (self.numel() == 0) return room;
  const auto shapes = NPU_EXEC_SHAPES(aclnnNonzero, 1, self, room);
  return room.narrow(0, 0, shapes[0][0]).clone();
}

Tensor& nonzero_out(const Tensor& self, Tensor& out) {
  TORCH_CHECK(out.scalar_type() == at::kLong, "nonzero: Expected out tensor to have scalar type Long but got ", out.scalar_type());
  auto result = find_nonzero(self);
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

Tensor select_masked(const Tensor& self, const Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == at::kBool || mask.scalar_type() == at::kByte, "masked_select: expected BoolTensor for mask");
  CardGuard guard(self);
  check_same_device("masked_select", {&self, &mask});
  const auto [m, s] = at::expand_outplace(mask, self);
  auto room = empty({m->numel()}, self.scalar_type());
  if (m->numel() == 0) return room;
  const auto shapes = NPU_EXEC_SHAPES(aclnnMaskedSelect, 1, *s, m->to(at::kBool), room);
  return room.narrow(0, 0, shapes[0][0]).clone();
}

Tensor& masked_select_out(const Tensor& self, const Tensor& mask, Tensor& out) {
  TORCH_CHECK(self.scalar_type() == out.scalar_type(), "masked_select(): self and result must have the same scalar type");
  auto result = select_masked(self, mask);
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

bool all_equal(const Tensor& self, const Tensor& other) {
  check_same_device("equal", {&self, &other});
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "Expected object of data type ", self.scalar_type(), " but got data type ",
              other.scalar_type(), " for argument 'other' in call to equal");
  if (self.sizes() != other.sizes()) return false;
  if (self.numel() == 0) return true;
  CardGuard guard(self);
  auto out = empty({}, at::kBool);
  NPU_EXEC(aclnnEqual, self, other, out);
  return out.item<bool>();
}

}  // namespace

NPU_REGISTER(data_dependent) {
  manual("aten::nonzero", "", &find_nonzero);
  manual("aten::nonzero", "out", &nonzero_out);
  manual("aten::masked_select", "", &select_masked);
  manual("aten::masked_select", "out", &masked_select_out);
  manual("aten::equal", "", &all_equal);
}

}  // namespace npu::ops
