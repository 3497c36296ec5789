// Quantised tensors: integers on the card with a scale and a zero point, as torch.quantize_per_tensor and _per_channel
// make them.
//
// Upstream's functions for them know no device; what is written for each device is here: the loops between real numbers
// and integers, which are compositions, and copies. Arithmetic on quantised tensors is the CPU's alone, as on CUDA:
// dequantise first.
#include <ATen/ATen.h>
#include <ATen/native/quantized/AffineQuantizer.h>
#include <ATen/ops/_empty_affine_quantized_native.h>
#include <ATen/ops/_empty_per_channel_affine_quantized_native.h>
#include <ATen/ops/dequantize_native.h>
#include <ATen/ops/quantize_per_channel_native.h>
#include <ATen/ops/quantize_per_tensor_dynamic_native.h>
#include <ATen/ops/quantize_per_tensor_native.h>
#include <ATen/quantized/QTensorImpl.h>
#include <ATen/quantized/Quantizer.h>

#include <limits>

#include "ops/families/channels.h"
#include "ops/register.h"
#include "ops/tensor.h"

namespace npu::ops {

namespace {

// The integers of a quantised tensor, in its memory.
Tensor integers(const Tensor& quantized) {
  TORCH_CHECK(quantized.scalar_type() != at::kQUInt4x2 && quantized.scalar_type() != at::kQUInt2x4,
              "npu has no quantised type ", quantized.scalar_type(), "; use qint8, quint8 or qint32");
  auto t = at::empty({0}, quantized.options().dtype(at::toUnderlying(quantized.scalar_type())));
  return t.set_(quantized.storage(), quantized.storage_offset(), quantized.sizes(), quantized.strides());
}

std::pair<int64_t, int64_t> limits(at::ScalarType type) {
  if (type == at::kQInt8) return {-128, 127};
  if (type == at::kQUInt8) return {0, 255};
  return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
}

void store(Tensor& quantized, const Tensor& steps) {
  const auto [least, most] = limits(quantized.scalar_type());
  integers(quantized).copy_(steps.clamp(least, most));
}

// In float64 where float32 cannot hold the integers.
Tensor reals(const Tensor& t, const Tensor& quantized) {
  return t.to(quantized.scalar_type() == at::kQInt32 ? at::kDouble : at::kFloat);
}

void quantize_per_tensor(const Tensor& real, Tensor& quantized, double scale, int64_t zero) {
  store(quantized, at::round(reals(real, quantized) * (1.0F / static_cast<float>(scale))) + zero);
}

void dequantize_per_tensor(const Tensor& quantized, Tensor& real, double scale, int64_t zero) {
  real.copy_((reals(integers(quantized), quantized) - zero) * scale);
}

void quantize_per_channel(const Tensor& real, Tensor& quantized, const Tensor& scales, const Tensor& zeros,
                          int64_t axis) {
  const auto scale = along(scales.to(real.device(), at::kFloat), real, axis);
  store(quantized, at::round(reals(real, quantized) * scale.reciprocal()) + along(zeros.to(real.device()), real, axis));
}

void dequantize_per_channel(const Tensor& quantized, Tensor& real, const Tensor& scales, const Tensor& zeros,
                            int64_t axis) {
  real.copy_((reals(integers(quantized), quantized) - along(zeros.to(real.device()), real, axis)) *
             along(scales.to(real.device(), at::kFloat), real, axis));
}

// With zero points that are real numbers: added before rounding.
void quantize_per_channel_real_zeros(const Tensor& real, Tensor& quantized, const Tensor& scales, const Tensor& zeros,
                                     int64_t axis) {
  const auto scale = along(scales.to(real.device(), at::kFloat), real, axis);
  store(quantized, at::round(reals(real, quantized) * scale.reciprocal() +
                             along(zeros.to(real.device(), at::kFloat), real, axis)));
}

Tensor int_repr(const Tensor& self) { return integers(self).clone(at::MemoryFormat::Contiguous); }

// From integers that were computed otherwise.
Tensor with_scale(const Tensor& self, double scale, int64_t zero) {
  auto result =
      at::_empty_affine_quantized(self.sizes(), self.options().dtype(at::toQIntType(self.scalar_type())), scale, zero);
  integers(result).copy_(self);
  return result;
}

Tensor with_scales(const Tensor& self, const Tensor& scales, const Tensor& zeros, int64_t axis) {
  auto result = at::_empty_per_channel_affine_quantized(self.sizes(), scales, zeros, axis,
                                                        self.options().dtype(at::toQIntType(self.scalar_type())));
  integers(result).copy_(self);
  return result;
}

// Between two quantised tensors, one of them on a card.
Tensor copy_from(const Tensor& src, const Tensor& self, bool non_blocking) {
  at::set_quantizer_(self, at::get_qtensorimpl(src)->quantizer());
  integers(self).copy_(integers(src), non_blocking);
  return self;
}

Tensor& copy_(Tensor& self, const Tensor& src, bool non_blocking) {
  if (!self.is_quantized()) return self.copy_(src.dequantize(), non_blocking);
  TORCH_CHECK(src.is_quantized() ? self.scalar_type() == src.scalar_type() : src.scalar_type() == at::kFloat,
              "copy_: a quantised tensor takes a float tensor or one of its own type, but got ", src.scalar_type(),
              " for ", self.scalar_type());
  if (!src.is_quantized()) {
    auto quantizer = at::get_qtensorimpl(self)->quantizer();
    return self.copy_(quantizer->quantize(src.to(self.device())), non_blocking);
  }
  copy_from(src, self, non_blocking);
  return self;
}

// Scales stay where they are, also those of channels.
Tensor flip(const Tensor& self, at::IntArrayRef dims) {
  const auto result = at::empty_like(self);
  integers(result).copy_(integers(self).flip(dims));
  return result;
}

}  // namespace

NPU_REGISTER(quantized) {
  constexpr auto kQuantized = c10::DispatchKey::QuantizedPrivateUse1;
  manual("aten::quantize_per_tensor", "", &at::native::quantize_per_tensor);
  manual("aten::quantize_per_tensor", "tensor_qparams", &at::native::quantize_per_tensor_tensor_qparams);
  manual("aten::quantize_per_tensor", "tensors", &at::native::quantize_per_tensor_list_cpu);
  manual("aten::quantize_per_tensor_dynamic", "", &at::native::quantize_per_tensor_dynamic);
  manual("aten::quantize_per_channel", "", &at::native::quantize_per_channel);
  manual("aten::dequantize", "self", &at::native::dequantize_cpu_or_cuda);
  manual("aten::_empty_affine_quantized", "", &at::native::empty_affine_quantized);
  manual("aten::_empty_per_channel_affine_quantized", "", &at::native::empty_per_channel_affine_quantized);
  manual("aten::_make_per_tensor_quantized_tensor", "", &with_scale);
  manual("aten::_make_per_channel_quantized_tensor", "", &with_scales);
  reg_as(kQuantized, "aten::int_repr", "", &int_repr);
  reg_as(kQuantized, "aten::copy_", "", &copy_);
  reg_as(kQuantized, "aten::_copy_from", "", &copy_from);
  reg_as(kQuantized, "aten::flip", "", &flip);
}

}  // namespace npu::ops

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(quantize_tensor_per_tensor_affine_stub, &npu::ops::quantize_per_tensor)
REGISTER_PRIVATEUSE1_DISPATCH(dequantize_tensor_per_tensor_affine_stub, &npu::ops::dequantize_per_tensor)
REGISTER_PRIVATEUSE1_DISPATCH(quantize_tensor_per_channel_affine_stub, &npu::ops::quantize_per_channel)
REGISTER_PRIVATEUSE1_DISPATCH(dequantize_tensor_per_channel_affine_stub, &npu::ops::dequantize_per_channel)
REGISTER_PRIVATEUSE1_DISPATCH(quantize_tensor_per_channel_float_qparams_stub,
                              &npu::ops::quantize_per_channel_real_zeros)
REGISTER_PRIVATEUSE1_DISPATCH(dequantize_tensor_per_channel_float_qparams_stub, &npu::ops::dequantize_per_channel)
}  // namespace at::native
