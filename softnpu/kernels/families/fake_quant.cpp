#include "kernels/families/fake_quant.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>

namespace softnpu::kernels {

void fake_quantize(at::Tensor& out, at::Tensor& mask, const at::Tensor& self, const at::Tensor& scale,
                   const at::Tensor& zero_point, int64_t least, int64_t most) {
  TORCH_CHECK(least <= most, "quant_min is greater than quant_max");
  const auto type = self.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto s = scale.to(type), z = zero_point.to(type);
  const auto scaled = self.to(type) * s.reciprocal();
  // A zero point that is a fraction is added before rounding, as on the CPU.
  const auto steps = zero_point.is_floating_point() ? at::round(scaled + z) : at::round(scaled) + z;
  out.copy_((steps.clamp(least, most) - z) * s);
  mask.copy_(steps.ge(least).logical_and_(steps.le(most)));
}

at::Tensor by_channel(const at::Tensor& values, const at::Tensor& self, int64_t axis) {
  std::vector<int64_t> shape(self.dim(), 1);
  shape[at::maybe_wrap_dim(axis, self.dim())] = values.numel();
  return values.reshape(shape);
}

}  // namespace softnpu::kernels
