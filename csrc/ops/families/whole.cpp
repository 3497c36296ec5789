// Operators that upstream composes for every device, of which the NPU does the whole in one call. They stand at the
// device's key, so that what differentiates, traces or transforms them sees upstream's operators; torch.dropout, whose
// mask is the device's own, stands at the autograd key.
#include <ATen/ATen.h>
#include <ATen/ScalarOps.h>
#include <ATen/ops/dropout_native.h>

#include "ops/calls.h"
#include "ops/provider.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace npu::ops {

namespace {

Tensor isfinite(const Tensor& self) {
  CardGuard guard(self);
  auto out = make(elementwise(at::kBool, self));
  if (out.numel() > 0) NPU_EXEC(aclnnIsFinite, self, out);
  return out;
}

Tensor isclose(const Tensor& self, const Tensor& other, double rtol, double atol, bool equal_nan) {
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), self.scalar_type(), " did not match ", other.scalar_type());
  TORCH_CHECK(rtol >= 0, "rtol must be greater than or equal to zero, but got ", rtol);
  TORCH_CHECK(atol >= 0, "atol must be greater than or equal to zero, but got ", atol);
  CardGuard guard(first_npu({&self, &other}));
  auto out = make(elementwise(at::kBool, self, other));
  if (out.numel() > 0)
    NPU_EXEC(aclnnIsClose, on_device(self, self.scalar_type()), on_device(other, other.scalar_type()), rtol, atol,
             equal_nan, out);
  return out;
}

Tensor mish_backward(const Tensor& grad, const Tensor& self) {
  CardGuard guard(self);
  check_same_device("mish_backward", {&grad, &self});
  auto out = make(elementwise(self.scalar_type(), grad, self));
  if (out.numel() > 0) NPU_EXEC(aclnnMishBackward, grad, self, out);
  return out;
}

Tensor ones_like(const Tensor& self, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                 std::optional<c10::Device> device, std::optional<bool> pin_memory,
                 std::optional<at::MemoryFormat> format) {
  return at::empty_like(self, dtype, layout, device, pin_memory, format).fill_(1);
}

// Upstream multiplies a tensor of the number by `self`, which is two launches; the official client does so for types
// that are neither floating nor complex, and multiplies the parts of complex ones.
Tensor& multiply_by_number(Tensor& self, const c10::Scalar& other) {
  const auto number = at::native::wrapped_scalar_tensor(other);
  if (!on_softnpu() && self.is_complex() && !other.isComplex() && !self.is_conj() && !self.is_neg()) {
    at::view_as_real(self).mul_(number);
    return self;
  }
  return self.is_floating_point() || self.is_complex() ? self.mul_(number) : at::mul_out(self, number, self);
}

// CANN draws a mask of bits. softnpu is faster with a byte for each element, which is upstream's composition.
Tensor dropout(const Tensor& input, double p, bool train) {
  const bool packed = !on_softnpu() && train && p > 0 && p < 1 && input.numel() > 0 && is_direct(input) &&
                      at::isFloatingType(input.scalar_type()) && input.scalar_type() != at::kDouble;
  return packed ? std::get<0>(call::_npu_dropout(input, p)) : at::native::dropout(input, p, train);
}

}  // namespace

NPU_REGISTER(whole) {
  reg("aten::isfinite", "", &isfinite, "aclnnIsFinite");
  reg("aten::isclose", "", &isclose, "aclnnIsClose");
  reg("aten::mish_backward", "", &mish_backward, "aclnnMishBackward");
  manual("aten::mul_", "Scalar", &multiply_by_number);
  manual("aten::ones_like", "", &ones_like);
  reg_as(c10::DispatchKey::AutogradPrivateUse1, "aten::dropout", "", &dropout);
}

}  // namespace npu::ops
