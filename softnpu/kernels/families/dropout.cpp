#include "kernels/families/dropout.h"

#include <ATen/Functions.h>
#include <c10/util/accumulate.h>

#include "kernels/families/random.h"

namespace softnpu::kernels::dropout {

namespace {

constexpr int64_t kAtOnce = int64_t{1} << 20;  // elements

}  // namespace

void generate(at::Tensor& mask, at::IntArrayRef shape, double p, uint64_t seed, uint64_t offset) {
  const int64_t count = c10::multiply_integers(shape);
  TORCH_CHECK(mask.numel() * 8 >= count, "mask has ", mask.numel() * 8, " bits, needs ", count);
  auto packed = at::zeros(mask.sizes(), at::kByte);
  auto* bytes = packed.mutable_data_ptr<uint8_t>();
  auto keep = at::empty({std::min(count, kAtOnce)}, at::kByte);
  const auto* bits = keep.const_data_ptr<uint8_t>();
  for (int64_t begin = 0; begin < count; begin += kAtOnce, bytes += kAtOnce / 8) {
    random::bernoulli(keep, 1 - p, seed, offset + 4 * begin);
    for (int64_t i = 0; i < std::min(kAtOnce, count - begin); i++) bytes[i / 8] |= bits[i] << (i % 8);
  }
  mask.copy_(packed);
}

at::Tensor unpack(const at::Tensor& mask, at::IntArrayRef shape) {
  const int64_t count = c10::multiply_integers(shape);
  TORCH_CHECK(mask.numel() * 8 >= count, "mask has ", mask.numel() * 8, " bits, needs ", count);
  const auto packed = mask.to(at::kByte).contiguous();
  const auto* bytes = packed.const_data_ptr<uint8_t>();
  auto keep = at::empty(shape, at::kBool);
  auto* bits = keep.mutable_data_ptr<bool>();
  for (int64_t i = 0; i < count; i++) bits[i] = bytes[i / 8] >> (i % 8) & 1;
  return keep;
}

void apply(at::Tensor& out, const at::Tensor& self, const at::Tensor& mask, double p) {
  at::mul_out(out, self, unpack(mask, self.sizes()));
  if (p < 1) out.mul_(1 / (1 - p));
}

}  // namespace softnpu::kernels::dropout
