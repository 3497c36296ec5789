// Small operators on a provider without their extension entries, from operators that it has: see Note [Operators that
// the provider lacks]. Most are what the official client was seen to do.
#include "ops/families/substitutes.h"

#include <ATen/ATen.h>
#include <ATen/native/TensorCompare.h>
#include <ATen/ops/isin_native.h>

#include "aclnn/op.h"
#include "ops/composition.h"
#include "ops/register.h"
#include "ops/rules.h"
#include "ops/structured.h"

namespace npu::ops {

namespace {

// ---- conjugates

Tensor& conj_physical_out(const Tensor& self, Tensor& out) {
  CardGuard guard(self);
  if (!self.is_complex()) return write_out(out, self);
  const Tensor plain = *resolved(self);
  return write_out(out, at::complex(at::real(plain), at::imag(plain).neg()));
}

Tensor& conj_physical_(Tensor& self) {
  CardGuard guard(self);
  // The official client's call: the real parts are read where they are written, element by element.
  if (self.is_complex() && self.numel() > 0) NPU_EXEC(aclnnComplex, at::real(self), at::imag(self).neg(), self);
  return self;
}

// ---- isin: upstream sorts long lists, and asks the device to compare each element with each of a short one

void isin_short(const Tensor& elements, const Tensor& tests, bool invert, const Tensor& out) {
  Sizes column(elements.sizes().begin(), elements.sizes().end());
  column.push_back(1);
  const auto each = elements.reshape(column), list = tests.reshape({-1});
  if (invert)
    out.copy_(each.ne(list).all(-1));
  else
    out.copy_(each.eq(list).any(-1));
}

using IsIn = Op<at::native::structured_isin_Tensor_Tensor_out, 1>;

Tensor is_in(const Tensor& elements, const Tensor& tests, bool unique, bool invert) {
  CardGuard guard(elements);
  IsIn op(Form::functional);
  op.meta(elements, tests, unique, invert);
  op.impl(elements, tests, unique, invert, op.output(0));
  return op.take(0);
}

Tensor& is_in_out(const Tensor& elements, const Tensor& tests, bool unique, bool invert, Tensor& out) {
  return write_out(out, is_in(elements, tests, unique, invert));
}

}  // namespace

void expm1_of_parts(const Tensor& self, const Tensor& out) {
  const Tensor plain = *resolved(self);
  const auto x = at::real(plain), y = at::imag(plain), half = (y * 0.5).sin();
  // cos(y) - 1 without cancellation
  const auto real = x.expm1() * y.cos() - half * half * 2, imaginary = x.exp() * y.sin();
  NPU_EXEC(aclnnComplex, real, imaginary, out);
}

NPU_REGISTER(substitutes) {
  at::native::isin_default_stub.set_privateuse1_dispatch_ptr(&isin_short);
  composed("aten::conj_physical", "out", &conj_physical_out);
  composed("aten::conj_physical_", "", &conj_physical_);
  composed("aten::isin", "Tensor_Tensor", &is_in);
  composed("aten::isin", "Tensor_Tensor_out", &is_in_out);
}

}  // namespace npu::ops
