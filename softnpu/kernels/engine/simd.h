// Loops that the compiler turns into vector instructions: numbers as float32, and a choice of the instruction set when
// the program runs. The results do not depend on that choice.
#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <bit>
#include <cstdint>
#include <type_traits>

namespace softnpu::kernels::simd {

#define SOFTNPU_INLINE inline __attribute__((always_inline))

SOFTNPU_INLINE float load(float x) { return x; }
SOFTNPU_INLINE double load(double x) { return x; }
SOFTNPU_INLINE float load(c10::BFloat16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.x) << 16); }
SOFTNPU_INLINE float load(c10::Half x) {
  const uint32_t bits = static_cast<uint32_t>(x.x & 0x7FFF) << 13;
  const uint32_t sign = static_cast<uint32_t>(x.x & 0x8000) << 16;
  const uint32_t finite = std::bit_cast<uint32_t>(std::bit_cast<float>(bits) * 0x1p112F);
  return std::bit_cast<float>((bits >= 0x0F800000 ? bits | 0x7F800000 : finite) | sign);
}

SOFTNPU_INLINE void store(float& to, float x) { to = x; }
SOFTNPU_INLINE void store(double& to, double x) { to = x; }
SOFTNPU_INLINE void store(c10::BFloat16& to, float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  to.x = static_cast<uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000 ? 0x7FC0 : rounded);
}
SOFTNPU_INLINE void store(c10::Half& to, float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x), size = bits & 0x7FFFFFFF;
  const uint32_t normal = (size + 0x0FFF + (size >> 13 & 1) - 0x38000000) >> 13;
  // Half of the spacing of float32 at 0.5 is that of the small numbers of float16: the sum is rounded as they are.
  const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5F) - 0x3F000000;
  const uint32_t finite = size < 0x38800000 ? small : normal;
  const uint32_t large = size > 0x7F800000 ? 0x7E00 : 0x7C00;
  to.x = static_cast<uint16_t>((size >= 0x47800000 ? large : finite) | (bits >> 16 & 0x8000));
}

// Sums and maxima of several numbers at once.
using Vector = float __attribute__((vector_size(32)));
inline constexpr int64_t kLanes = sizeof(Vector) / sizeof(float);

SOFTNPU_INLINE float sum(const float* x, int64_t n) {
  Vector parts[4] = {};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
    for (int j = 0; j < 4; j++) {
      Vector each;
      __builtin_memcpy(&each, x + i + j * kLanes, sizeof(each));
      parts[j] += each;
    }
  const Vector total = (parts[0] + parts[1]) + (parts[2] + parts[3]);
  float result = 0;
  for (int64_t j = 0; j < kLanes; j++) result += total[j];
  for (; i < n; i++) result += x[i];
  return result;
}

// NaN counts as -inf.
SOFTNPU_INLINE float largest(const float* x, int64_t n) {
  float result = -__builtin_inff();
  Vector parts = Vector{} + result;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Vector each;
    __builtin_memcpy(&each, x + i, sizeof(each));
    parts = each > parts ? each : parts;
  }
  for (int64_t j = 0; j < kLanes; j++) result = parts[j] > result ? parts[j] : result;
  for (; i < n; i++) result = x[i] > result ? x[i] : result;
  return result;
}

// e^x for x of at most 0, to one unit in the last place; 0 below -87.
SOFTNPU_INLINE float exp_negative(float x) {
  const float clamped = x < -87.0F ? -87.0F : x;
  const float n = (clamped * 1.44269504F + 12582912.0F) - 12582912.0F;  // the nearest whole number
  const float r = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float e = (p * r) * r + r + 1.0F;
  const auto power = std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
  return x < -87.0F ? 0.0F : e * power;
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
template <class F>
__attribute__((target("avx2"))) void run_wide_vectors(const F& f) {
  f();
}
template <class F>
void run(const F& f) {
  static const bool avx2 = __builtin_cpu_supports("avx2");
  avx2 ? run_wide_vectors(f) : f();
}
#else
template <class F>
void run(const F& f) {
  f();
}
#endif

}  // namespace softnpu::kernels::simd
