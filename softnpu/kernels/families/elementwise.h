// Small conversions for the elementwise kernel table.
#pragma once

#include <ATen/ScalarOps.h>

#include <string_view>

namespace softnpu::kernels {

// A number with the promotion rules of a Python number.
inline at::Tensor number(const at::Scalar& s) {
  auto t = c10::scalar_to_tensor(s);
  t.unsafeGetTensorImpl()->set_wrapped_number(true);
  return t;
}

// aclnnDivMod: 0 true division, 1 towards zero, 2 towards minus infinity.
inline std::optional<std::string_view> rounding(int64_t mode) {
  if (mode == 1) return "trunc";
  if (mode == 2) return "floor";
  return std::nullopt;
}

// aclnnLogit: a negative eps stands for none.
inline std::optional<double> bound(double eps) { return eps < 0 ? std::nullopt : std::optional<double>(eps); }

}  // namespace softnpu::kernels
