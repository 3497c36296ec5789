#include "kernels/families/random.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>

#include <cmath>
#include <numbers>

#include "kernels/families/philox.h"

namespace softnpu::kernels::random {

namespace {

using Bits = std::array<uint32_t, 4>;

double unit(uint32_t high, uint32_t low) {  // [0, 1) with 53 bits
  return ((uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
}

// Calls fill(element index, random bits) -> value, for every element in logical order.
template <class Fill>
void generate(at::Tensor& self, uint64_t seed, uint64_t offset, Fill&& fill) {
  auto dense = self.is_contiguous() ? self : at::empty(self.sizes(), self.options());
  AT_DISPATCH_V2(dense.scalar_type(), "random", AT_WRAP([&] {
                   auto* data = dense.mutable_data_ptr<scalar_t>();
                   at::parallel_for(0, dense.numel(), 2048, [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; i++)
                       data[i] = static_cast<scalar_t>(fill(i, philox(seed, offset / 4 + i)));
                   });
                 }),
                 AT_EXPAND(AT_ALL_TYPES), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), at::kHalf, at::kBFloat16, at::kBool);
  if (!dense.is_same(self)) self.copy_(dense);
}

// Complex tensors are random in both parts.
at::Tensor real_view(at::Tensor& self) { return self.is_complex() ? at::view_as_real(self) : self; }

}  // namespace

void uniform(at::Tensor& self, double from, double to, uint64_t seed, uint64_t offset) {
  auto real = real_view(self);
  const bool wide = real.scalar_type() == at::kDouble;
  // Rounding to a narrow type must not reach `to`: draw as many bits as the type holds.
  const int drop = real.scalar_type() == at::kHalf ? 13 : real.scalar_type() == at::kBFloat16 ? 16 : 0;
  generate(real, seed, offset, [=](int64_t, const Bits& b) {
    const double u = wide ? unit(b[0], b[1]) : std::ldexp(static_cast<double>(b[0] >> (8 + drop)), drop - 24);
    return u * (to - from) + from;
  });
}

void normal(at::Tensor& self, double mean, double std, uint64_t seed, uint64_t offset) {
  auto real = real_view(self);
  if (self.is_complex()) std *= std::numbers::sqrt2 / 2;
  generate(real, seed, offset, [=](int64_t, const Bits& b) {  // Box and Muller; 1 - u keeps the logarithm finite
    const double radius = std::sqrt(-2 * std::log1p(-unit(b[0], b[1])));
    return radius * std::cos(2 * std::numbers::pi * unit(b[2], b[3])) * std + mean;
  });
}

void normal(at::Tensor& self, const at::Tensor& mean, const at::Tensor& std, uint64_t seed, uint64_t offset) {
  const auto type = self.is_complex() ? self.scalar_type() : at::kDouble;
  auto standard = at::empty(self.sizes(), type);
  normal(standard, 0, 1, seed, offset);
  self.copy_(standard * std.to(type) + mean.to(type));
}
void normal(at::Tensor& self, double mean, const at::Tensor& std, uint64_t seed, uint64_t offset) {
  normal(self, at::scalar_tensor(mean, at::kDouble), std, seed, offset);
}
void normal(at::Tensor& self, const at::Tensor& mean, double std, uint64_t seed, uint64_t offset) {
  normal(self, mean, at::scalar_tensor(std, at::kDouble), seed, offset);
}

int64_t most(const at::Tensor& self) {
  switch (self.scalar_type()) {
    case at::kBool:
      return 2;
    case at::kHalf:
      return (int64_t{1} << 11) + 1;
    case at::kBFloat16:
      return (int64_t{1} << 8) + 1;
    case at::kFloat:
      return (int64_t{1} << 24) + 1;
    case at::kDouble:
      return (int64_t{1} << 53) + 1;
    default: {
      const auto bits = 8 * self.element_size() - (at::isSignedType(self.scalar_type()) ? 1 : 0);
      return bits < 64 ? static_cast<int64_t>(uint64_t{1} << bits) : 0;
    }
  }
}

void integers(at::Tensor& self, int64_t from, int64_t to, uint64_t seed, uint64_t offset) {
  const uint64_t range = static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
  generate(self, seed, offset, [=](int64_t, const Bits& b) {
    const uint64_t bits = uint64_t{b[0]} << 32 | b[1];
    return static_cast<int64_t>(range ? static_cast<uint64_t>(from) + bits % range : bits);
  });
}

void bernoulli(at::Tensor& self, double p, uint64_t seed, uint64_t offset) {
  generate(self, seed, offset, [=](int64_t, const Bits& b) { return unit(b[0], b[1]) < p; });
}

void bernoulli(at::Tensor& self, const at::Tensor& p, uint64_t seed, uint64_t offset) {
  const auto chance = p.expand(self.sizes()).to(at::kDouble).contiguous();
  const double* c = chance.const_data_ptr<double>();
  for (int64_t i = 0; i < chance.numel(); i++)
    TORCH_CHECK(0 <= c[i] && c[i] <= 1, "bernoulli expects probabilities in [0, 1], but got ", c[i]);
  generate(self, seed, offset, [=](int64_t i, const Bits& b) { return unit(b[0], b[1]) < c[i]; });
}

void permutation(at::Tensor& out, int64_t n, uint64_t seed, uint64_t offset) {
  auto keys = at::empty({n}, at::kDouble);
  uniform(keys, 0, 1, seed, offset);
  out.copy_(at::argsort(keys, /*stable=*/true, 0, false));
}

}  // namespace softnpu::kernels::random
