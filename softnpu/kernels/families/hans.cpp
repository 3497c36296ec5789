#include "kernels/families/hans.h"

#include <ATen/Functions.h>

#include <cstring>

#include "kernels/engine/require.h"

namespace softnpu::kernels {

namespace {

// The sign behind the other bits, so that the exponent fills the first byte.
uint64_t turned(uint64_t bits, int width) {
  return ((bits << 1) | (bits >> (width - 1))) & ((uint64_t{1} << width) - 1);
}
uint64_t back(uint64_t bits, int width) { return (bits >> 1) | (bits & 1) << (width - 1); }

int64_t room(const Tensor& t) { return static_cast<int64_t>(t.nbytes()); }

}  // namespace

void hans_encode(const Tensor& input, Tensor& pdf, bool statistic, Tensor& mantissa, Tensor& fixed, Tensor& var) {
  const auto numbers = input.contiguous();
  const int64_t size = input.element_size(), count = input.numel();
  auto rest = at::zeros(mantissa.sizes(), mantissa.options()), first = at::zeros(fixed.sizes(), fixed.options());
  auto more = at::zeros(var.sizes(), var.options());
  const auto* from = static_cast<const char*>(numbers.const_data_ptr());
  auto* low = static_cast<uint8_t*>(rest.mutable_data_ptr());
  auto *exponents = static_cast<uint8_t*>(first.mutable_data_ptr()),
       *others = static_cast<uint8_t*>(more.mutable_data_ptr());
  auto counts = at::zeros({256}, at::kInt);
  const int64_t fits = room(fixed);
  for (int64_t i = 0; i < count; i++) {
    uint64_t bits = 0;
    memcpy(&bits, from + i * size, size);
    bits = turned(bits, static_cast<int>(8 * size));
    const auto exponent = static_cast<uint8_t>(bits >> (8 * (size - 1)));
    counts.mutable_data_ptr<int32_t>()[exponent]++;
    (i < fits ? exponents[i] : others[i - fits]) = exponent;
    memcpy(low + i * (size - 1), &bits, size - 1);
  }
  mantissa.copy_(rest), fixed.copy_(first), var.copy_(more);
  if (statistic) pdf.copy_(counts.view(pdf.sizes()));
}

void hans_decode(const Tensor& mantissa, const Tensor& fixed, const Tensor& var, Tensor& out) {
  const auto rest = mantissa.contiguous(), first = fixed.contiguous(), more = var.contiguous();
  const int64_t size = out.element_size(), fits = room(fixed);
  auto result = at::empty(out.sizes(), out.options().memory_format(at::MemoryFormat::Contiguous));
  const auto* low = static_cast<const uint8_t*>(rest.const_data_ptr());
  const auto *exponents = static_cast<const uint8_t*>(first.const_data_ptr()),
             *others = static_cast<const uint8_t*>(more.const_data_ptr());
  auto* to = static_cast<char*>(result.mutable_data_ptr());
  for (int64_t i = 0; i < out.numel(); i++) {
    uint64_t bits = 0;
    memcpy(&bits, low + i * (size - 1), size - 1);
    bits |= static_cast<uint64_t>(i < fits ? exponents[i] : others[i - fits]) << (8 * (size - 1));
    bits = back(bits, static_cast<int>(8 * size));
    memcpy(to + i * size, &bits, size);
  }
  out.copy_(result);
}

namespace require {

void hans(const Tensor& numbers, const Tensor& mantissa, const Tensor& fixed, const Tensor& var) {
  that(numbers.is_floating_point() && (numbers.element_size() == 2 || numbers.element_size() == 4),
       "the numbers are not of float32, float16 or bfloat16");
  that(room(mantissa) >= numbers.numel() * static_cast<int64_t>(numbers.element_size() - 1), "mantissa is too short");
  that(room(fixed) + room(var) >= numbers.numel(), "fixed and var are too short");
}

}  // namespace require
}  // namespace softnpu::kernels
