#include "rules.h"

#include <ATen/native/Resize.h>

#include <cmath>

namespace npu::ops {

Target::Target(const Tensor& out, const Spec& spec) : out_(out) {
  TORCH_CHECK(out.device().is_privateuseone(), "Expected out tensor to be on npu, but got ", out.device(), " instead");
  TORCH_CHECK(c10::canCast(spec.dtype, out.scalar_type()), "result type ", spec.dtype, " can't be cast to the desired output type ",
              out.scalar_type());
  at::native::resize_output(out, spec.sizes);
  if (out.scalar_type() != spec.dtype || !out.is_contiguous()) stand_in_ = make(spec);
}

Spec reduced(const Tensor& t, at::OptionalIntArrayRef dims, bool keepdim, at::ScalarType dtype) {
  Spec spec{{}, dtype};
  std::vector<bool> gone(t.dim(), !dims.has_value() || dims->empty());
  if (dims.has_value())
    for (const int64_t d : *dims)
      if (at::maybe_wrap_dim(d, t.dim()); t.dim() > 0) gone[at::maybe_wrap_dim(d, t.dim())] = true;
  for (int64_t d = 0; d < t.dim(); d++) {
    if (!gone[d]) spec.sizes.push_back(t.size(d));
    else if (keepdim) spec.sizes.push_back(1);
  }
  return spec;
}

Spec pooled(const Tensor& t, at::IntArrayRef output_size) {
  Spec spec = like(t);
  TORCH_CHECK(t.dim() > static_cast<int64_t>(output_size.size()), "pooling to ", output_size, " needs more dimensions than ", t.sizes());
  std::copy(output_size.begin(), output_size.end(), spec.sizes.end() - output_size.size());
  return spec;
}

int64_t integral_correction(const std::optional<c10::Scalar>& correction) {
  if (!correction.has_value()) return 1;
  const double value = correction->toDouble();
  TORCH_CHECK(value == std::floor(value), "npu computes var and std with a whole correction, got ", value);
  return static_cast<int64_t>(value);
}

int32_t div_mode(std::optional<std::string_view> rounding_mode) {
  if (!rounding_mode.has_value()) return 0;
  if (*rounding_mode == "trunc") return 1;
  if (*rounding_mode == "floor") return 2;
  TORCH_CHECK(false, "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '", *rounding_mode, "'");
}

void check_where(const Tensor& condition) {
  TORCH_CHECK(condition.scalar_type() == at::kBool, "where expected condition to be a boolean tensor, but got a tensor with dtype ",
              condition.scalar_type());
}

void check_dot(const Tensor& self, const Tensor& other) {
  TORCH_CHECK(self.dim() == 1 && other.dim() == 1, "1D tensors expected, but got ", self.dim(), "D and ", other.dim(), "D tensors");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "dot : expected both vectors to have same dtype, but found ", self.scalar_type(),
              " and ", other.scalar_type());
  TORCH_CHECK(self.numel() == other.numel(), "inconsistent tensor size, expected tensor [", self.numel(), "] and src [", other.numel(),
              "] to have the same number of elements, but got ", self.numel(), " and ", other.numel(), " elements respectively");
}

void check_index(const Tensor& index, const char* op) {
  TORCH_CHECK_INDEX(index.dim() <= 1, op, "(): Index is supposed to be a vector");
  TORCH_CHECK(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt, op, "(): Expected dtype int32 or int64 for index");
}

void check_steps(int64_t steps) { TORCH_CHECK(steps >= 0, "number of steps must be non-negative"); }

}  // namespace npu::ops
