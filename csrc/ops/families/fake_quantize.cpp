// Quantisation while training: values rounded to the grid that integers of a scale and a zero point have, and the
// gradients of both. Scales and zero points on the card stay there.
#include <ATen/ATen.h>

#include <cstdlib>
#include <limits>

#include "aclnn/op.h"
#include "ops/families/channels.h"
#include "ops/register.h"
#include "ops/tensor.h"

namespace npu::ops {

namespace {

using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

// `steps` are the rounded integers; scale and zero are numbers or tensors. Which values were within the limits is the
// second result.
template <class Scale, class Zero>
Two on_grid(const Tensor& self, const Tensor& steps, const Scale& scale, const Zero& zero, int64_t least,
            int64_t most) {
  return {((steps.clamp(least, most) - zero) * scale).to(self.scalar_type()),
          steps.ge(least).logical_and_(steps.le(most))};
}

Tensor steps_of(const Tensor& self, const Tensor& scale, const Tensor& zero) {
  return at::round(self * scale.reciprocal()) + zero;
}

Two per_tensor(const Tensor& self, double scale, int64_t zero_point, int64_t least, int64_t most) {
  TORCH_CHECK(least <= most, "`quant_min` should be less than or equal to `quant_max`.");
  TORCH_CHECK(zero_point >= least && zero_point <= most, "`zero_point` must be between `quant_min` and `quant_max`.");
  return on_grid(self, at::round(self * (1.0F / static_cast<float>(scale))) + zero_point, scale, zero_point, least,
                 most);
}

Two per_tensor_on_card(const Tensor& self, const Tensor& scale, const Tensor& zero_point, const Tensor& enabled,
                       int64_t least, int64_t most) {
  TORCH_CHECK(least <= most, "`quant_min` should be less than or equal to `quant_max`.");
  const auto [values, within] = on_grid(self, steps_of(self, scale, zero_point), scale, zero_point, least, most);
  const auto on = enabled.to(at::kBool);
  return {at::where(on, values, self), within.logical_or(on.logical_not())};
}

Two per_channel(const Tensor& self, const Tensor& scale, const Tensor& zero_point, int64_t axis, int64_t least,
                int64_t most) {
  TORCH_CHECK(scale.dim() == 1 && zero_point.dim() == 1, "scale and zero_point should be 1-D tensors");
  TORCH_CHECK(scale.numel() == zero_point.numel(), "scale and zero-point need to have the same dimensions");
  TORCH_CHECK(axis >= 0 && axis < self.dim(), "`axis` must be between 0 and number of dimensions of input");
  TORCH_CHECK(scale.numel() == self.size(axis),
              "dimensions of scale and zero-point are not consistent with input tensor");
  TORCH_CHECK(least <= most, "`quant_min` should be less than or equal to `quant_max`.");
  CardGuard guard(self);
  check_same_device("fake_quantize_per_channel_affine", {&self, &scale, &zero_point});
  auto values = at::empty_like(self), within = at::empty_like(self, at::kBool);
  NPU_EXEC(aclnnFakeQuantPerChannelAffineCachemask, self, scale, zero_point, axis, least, most, values, within);
  return {values, within};
}

// A zero point that is learnt is a real number; the grid has its integer.
Tensor zero_for_values(const Tensor& zero, int64_t least, int64_t most) {
  return (zero + 0.5).clamp(least, most).trunc();
}
Tensor zero_for_gradients(const Tensor& zero, int64_t least, int64_t most) {
  return at::round(zero).clamp(least, most);
}

Tensor learnt(const Tensor& self, const Tensor& scale, const Tensor& zero, int64_t least, int64_t most) {
  return std::get<0>(on_grid(self, steps_of(self, scale, zero), scale, zero, least, most));
}

// Gradients by element, before those of scale and zero point are added up.
Three learnt_backward(const Tensor& grad, const Tensor& self, const Tensor& scale, const Tensor& zero, int64_t least,
                      int64_t most, double factor) {
  const auto steps = steps_of(self, scale, zero);
  const auto [values, within] = on_grid(self, steps, scale, zero, least, most);
  const auto by_scale = at::where(within, (values - self) * scale.reciprocal(), steps.clamp(least, most) - zero);
  return {grad * within, grad * by_scale * factor, at::where(within, at::zeros_like(grad), -grad * scale * factor)};
}

Tensor learnt_per_tensor(const Tensor& self, const Tensor& scale, const Tensor& zero, int64_t least, int64_t most,
                         double) {
  return learnt(self, scale, zero_for_values(zero, least, most), least, most);
}

Three learnt_per_tensor_backward(const Tensor& grad, const Tensor& self, const Tensor& scale, const Tensor& zero,
                                 int64_t least, int64_t most, double factor) {
  const auto [dx, ds, dz] =
      learnt_backward(grad, self, scale, zero_for_gradients(zero, least, most), least, most, factor);
  return {dx, ds.sum().unsqueeze(0), dz.sum().unsqueeze(0)};
}

Tensor learnt_per_channel(const Tensor& self, const Tensor& scale, const Tensor& zero, int64_t axis, int64_t least,
                          int64_t most, double) {
  return learnt(self, along(scale, self, axis), along(zero_for_gradients(zero, least, most), self, axis), least, most);
}

Three learnt_per_channel_backward(const Tensor& grad, const Tensor& self, const Tensor& scale, const Tensor& zero,
                                  int64_t axis, int64_t least, int64_t most, double factor) {
  const auto z = along(zero_for_gradients(zero, least, most), self, axis);
  const auto [dx, ds, dz] = learnt_backward(grad, self, along(scale, self, axis), z, least, most, factor);
  const auto add_up = [&](const Tensor& t) { return t.transpose(0, axis).flatten(1).sum(1); };
  return {dx, add_up(ds), add_up(dz)};
}

// Scale and zero point of the grid from `least` to `most` that covers the range from low to high and has zero on it.
Two grid_of(Tensor low, Tensor high, int64_t least, int64_t most, bool symmetric) {
  constexpr double kSmallest = 6.1e-5;  // what is below leads to overflow in the kernels of other devices
  const auto both_signs = low.lt(0).logical_and_(high.gt(0));
  if (symmetric) {
    const double half = (most - least) / 2;
    const auto reach = at::maximum(low.abs() / (half + 1), high.abs() / half);
    low = at::where(both_signs, reach * -(half + 1), low);
    high = at::where(both_signs, reach * half, high);
  }
  low = low.clamp_max(0);
  high = high.clamp_min(0);
  const auto exact = (high - low) / (most - least);
  const auto none = exact.eq(0).logical_or_(exact.reciprocal().isinf());
  const auto scale = at::where(none, at::full_like(exact, 0.1), exact);
  const auto first = low / scale, last = high / scale;
  const auto from_low = at::rsub(first.abs(), std::abs(least)).lt(at::rsub(last.abs(), std::abs(most)));
  auto zero = at::where(from_low, at::rsub(first, least), at::rsub(last, most));
  if (symmetric) zero = at::where(both_signs, at::full_like(zero, (least + most) / 2.0), zero);
  return {scale.clamp_min(kSmallest), at::round(zero.clamp(least, most))};
}

// An observer and the quantisation that follows it. Both are switched by numbers on the card, so everything is computed
// and chosen there.
Two moving_average(const Tensor& self, const Tensor& observer_on, const Tensor& fake_quant_on, Tensor& running_min,
                   Tensor& running_max, Tensor& scale, Tensor& zero_point, double rate, int64_t least, int64_t most,
                   int64_t axis, bool per_row, bool symmetric) {
  TORCH_CHECK(axis < self.dim(), "Error in fused_moving_avg_obs_fake_quant: ch_axis must be < self.dim()");
  if (per_row && running_min.numel() == 0) {
    running_min.resize_(self.size(axis)).fill_(std::numeric_limits<double>::infinity());
    running_max.resize_(self.size(axis)).fill_(-std::numeric_limits<double>::infinity());
    scale.resize_(self.size(axis));
    zero_point.resize_(self.size(axis));
  }
  const auto rows = per_row ? self.transpose(0, axis).flatten(1) : self.reshape({1, -1});
  const auto observing = observer_on.to(at::kBool).squeeze(), quantizing = fake_quant_on.to(at::kBool).squeeze();
  const auto follow = [&](Tensor& running, const Tensor& now) {
    const auto seen = now.view(running.sizes());
    running.copy_(at::where(observing, at::where(running.isinf(), seen, running + (seen - running) * rate), running));
  };
  follow(running_min, rows.amin({1}));
  follow(running_max, rows.amax({1}));
  const auto [new_scale, new_zero] = grid_of(running_min, running_max, least, most, symmetric);
  scale.copy_(at::where(observing, new_scale.view(scale.sizes()), scale));
  zero_point.copy_(at::where(observing, new_zero.view(zero_point.sizes()).to(zero_point.scalar_type()), zero_point));
  const auto s = per_row ? along(scale, self, axis) : scale, z = per_row ? along(zero_point, self, axis) : zero_point;
  const auto [values, within] = on_grid(self, steps_of(self, s, z), s, z, least, most);
  return {at::where(quantizing, values, self), within.logical_or(quantizing.logical_not())};
}

}  // namespace

NPU_REGISTER(fake_quantize) {
  manual("aten::fake_quantize_per_tensor_affine_cachemask", "", &per_tensor);
  manual("aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", "", &per_tensor_on_card);
  manual("aten::fake_quantize_per_channel_affine_cachemask", "", &per_channel);
  manual("aten::_fused_moving_avg_obs_fq_helper", "", &moving_average);
  manual("aten::_fake_quantize_learnable_per_tensor_affine", "", &learnt_per_tensor);
  manual("aten::_fake_quantize_learnable_per_tensor_affine_backward", "", &learnt_per_tensor_backward);
  manual("aten::_fake_quantize_learnable_per_channel_affine", "", &learnt_per_channel);
  manual("aten::_fake_quantize_learnable_per_channel_affine_backward", "", &learnt_per_channel_backward);
}

}  // namespace npu::ops
