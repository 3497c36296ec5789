#include "kernels/engine/row_math.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// Compiled for several instruction sets, of which the loader takes the best. The sanitizers start after it has chosen.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define VECTORS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define VECTORS
#endif

namespace softnpu::kernels::row {

namespace {

constexpr int64_t kLanes = 32;  // sums that are kept side by side

VECTORS void widen_bfloat16(float* to, const uint16_t* from, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = std::bit_cast<float>(uint32_t{from[i]} << 16);
}

VECTORS void narrow_bfloat16(uint16_t* to, const float* from, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    const uint32_t bits = std::bit_cast<uint32_t>(from[i]);
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    to[i] = static_cast<uint16_t>(from[i] != from[i] ? 0x7fc0 : rounded);
  }
}

#if defined(__x86_64__)
const bool kHasHalf = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");

__attribute__((target("avx2,f16c"))) void widen_half(float* to, const c10::Half* from, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  for (; i < n; i++) to[i] = from[i];
}
__attribute__((target("avx2,f16c"))) void narrow_half(c10::Half* to, const float* from, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), 0));
  for (; i < n; i++) to[i] = from[i];
}
#else
constexpr bool kHasHalf = false;
void widen_half(float*, const c10::Half*, int64_t) {}
void narrow_half(c10::Half*, const float*, int64_t) {}
#endif

// Within two units in the last place for every float; beyond the range 0 or infinity.
inline float exponential(float x) {
  const float clamped = std::min(std::max(x, -87.33654f), 88.72283f);
  const float shifted = clamped * 1.44269504f + 12582912.0f;  // the whole number lands in the last bits
  const float whole = shifted - 12582912.0f;
  const float r = (clamped - whole * 0.693359375f) + whole * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const auto power = std::bit_cast<uint32_t>(shifted) << 23;  // 2 to the whole number, times one
  const float result = std::bit_cast<float>(std::bit_cast<uint32_t>(p) + power);
  const float low = x < -87.33654f ? 0.0f : result;
  const float high = x > 88.72283f ? std::numeric_limits<float>::infinity() : low;
  return x != x ? x : high;
}

}  // namespace

bool fits(const at::Tensor& t) {
  const auto type = t.scalar_type();
  return t.is_contiguous() && (type == at::kFloat || type == at::kHalf || type == at::kBFloat16);
}

void widen(float* to, const at::Tensor& from, int64_t at, int64_t n) {
  switch (from.scalar_type()) {
    case at::kHalf: {
      const auto* data = from.const_data_ptr<c10::Half>() + at;
      return kHasHalf ? widen_half(to, data, n) : void(std::copy(data, data + n, to));
    }
    case at::kBFloat16:
      return widen_bfloat16(to, reinterpret_cast<const uint16_t*>(from.const_data_ptr<c10::BFloat16>() + at), n);
    default:
      std::memcpy(to, from.const_data_ptr<float>() + at, n * sizeof(float));
  }
}

void narrow(const at::Tensor& to, int64_t at, const float* from, int64_t n) {
  switch (to.scalar_type()) {
    case at::kHalf: {
      auto* data = to.mutable_data_ptr<c10::Half>() + at;
      return kHasHalf ? narrow_half(data, from, n) : void(std::copy(from, from + n, data));
    }
    case at::kBFloat16:
      return narrow_bfloat16(reinterpret_cast<uint16_t*>(to.mutable_data_ptr<c10::BFloat16>() + at), from, n);
    default:
      if (float* data = to.mutable_data_ptr<float>() + at; data != from) std::memcpy(data, from, n * sizeof(float));
  }
}

VECTORS float square_sum(const float* x, int64_t n) {
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t j = 0; j < kLanes; j++) lanes[j] += x[i + j] * x[i + j];
  float total = 0;
  for (; i < n; i++) total += x[i] * x[i];
  for (const float lane : lanes) total += lane;
  return total;
}

VECTORS void add(float* to, const float* x, const float* y, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = x[i] + y[i];
}

VECTORS void scale(float* to, const float* x, const float* w, float f, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = f * x[i] * w[i];
}

VECTORS void silu_multiply(float* to, const float* gate, const float* x, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = gate[i] / (1.0f + exponential(-gate[i])) * x[i];
}

}  // namespace softnpu::kernels::row
