// Blocks of numbers in vector registers for engine/rows.cpp, which is compiled once for each CPU_CAPABILITY: read from
// float32, float16 or bfloat16, computed in float32, rounded once. All names are local to the file that includes this.
#pragma once

#include <ATen/cpu/vec/functional.h>
#include <ATen/cpu/vec/vec.h>

#include <algorithm>
#include <array>
#include <type_traits>

namespace softnpu::kernels::rows {

namespace {

using Vec = at::vec::Vectorized<float>;
constexpr int64_t kWidth = Vec::size();
constexpr int64_t kBlock = 2 * kWidth;  // numbers of float16 in a register, which widen to two registers

constexpr float kLimit = 87.33654F;  // e^-x beyond it would be denormal

struct Block {
  Vec a, b;
};
template <class F, class... B>
inline Block each(const F& f, const B&... blocks) {
  return {f(blocks.a...), f(blocks.b...)};
}
inline Block operator+(const Block& x, const Block& y) { return {x.a + y.a, x.b + y.b}; }
inline Block operator-(const Block& x, const Block& y) { return {x.a - y.a, x.b - y.b}; }
inline Block operator*(const Block& x, const Block& y) { return {x.a * y.a, x.b * y.b}; }
inline Block both(float x) { return {Vec(x), Vec(x)}; }

// Whole blocks have their length as a constant.
template <class T, class Count>
inline Block load(const T* from, Count count) {
  if constexpr (std::is_same_v<T, float>) {
    if constexpr (!std::is_same_v<Count, int64_t>) return {Vec::loadu(from), Vec::loadu(from + kWidth)};
    const int64_t first = std::min<int64_t>(count, kWidth);
    return {Vec::loadu(from, first), Vec::loadu(from + first, count - first)};
  } else {
#if defined(CPU_CAPABILITY_AVX512)
    if constexpr (!std::is_same_v<Count, int64_t>) {  // widened on the way from memory
      Block block;
      at::vec::load_to_float<T>(from, block.a);
      at::vec::load_to_float<T>(from + kWidth, block.b);
      return block;
    }
#endif
    using Short = at::vec::Vectorized<T>;
    const auto [a, b] = at::vec::convert_to_float<T>(
        std::is_same_v<Count, int64_t> ? Short::loadu(from, static_cast<int16_t>(count)) : Short::loadu(from));
    return {a, b};
  }
}

#if defined(CPU_CAPABILITY_AVX512)
// Half of the instructions of at::vec, which allows for signalling NaNs; arithmetic makes none.
inline __m512i rounded_bits(const Vec& x) {
  const __m512i bits = _mm512_castps_si512(x), bias = _mm512_set1_epi32(0x7FFF);
  const __mmask16 numbers = _mm512_cmp_ps_mask(x, x, _CMP_ORD_Q);
  const __mmask16 odd = _mm512_mask_test_epi32_mask(numbers, bits, _mm512_set1_epi32(0x10000));
  const __m512i sum = _mm512_mask_add_epi32(bits, numbers, bits, bias);
  return _mm512_mask_sub_epi32(sum, odd, sum, _mm512_set1_epi32(-1));
}
#endif

template <class T>
inline at::vec::Vectorized<T> narrowed(const Block& x) {
#if defined(CPU_CAPABILITY_AVX512)
  if constexpr (std::is_same_v<T, at::BFloat16>) {
    alignas(64) static constexpr auto kUpper = [] {
      std::array<uint16_t, 32> places{};
      for (uint16_t i = 0; i < 32; i++) places[i] = 2 * i + 1;
      return places;
    }();
    return _mm512_permutex2var_epi16(rounded_bits(x.a), _mm512_load_si512(kUpper.data()), rounded_bits(x.b));
  }
#endif
  return at::vec::convert_from_float<T>(x.a, x.b);
}

template <class T, class Count>
inline void store(T* to, const Block& x, Count count) {
  if constexpr (std::is_same_v<T, float>) {
    const int64_t first = std::min<int64_t>(count, kWidth);
    x.a.store(to, first);
    x.b.store(to + first, count - first);
  } else {
    narrowed<T>(x).store(to, static_cast<int>(count));
  }
}

// As it will be read back.
template <class T>
inline Block rounded(const Block& x) {
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else {
    const auto [a, b] = at::vec::convert_to_float<T>(narrowed<T>(x));
    return {a, b};
  }
}

// f(place, count) for the blocks of n numbers.
template <class F>
inline void for_blocks(int64_t n, const F& f) {
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) f(i, std::integral_constant<int64_t, kBlock>());
  if (i < n) f(i, n - i);
}

inline float sum(const Block& x) {
  return at::vec::vec_reduce_all<float>([](Vec a, Vec b) { return a + b; }, x.a + x.b);
}

// e^(sign * x) within two units in the last place, for x from -87.3 to 87.3; x beyond counts as one of these.
inline Vec power(const Vec& x, float sign) {
  const Vec clamped = at::vec::clamp_min(at::vec::clamp_max(x, Vec(kLimit)), Vec(-kLimit));
#if defined(CPU_CAPABILITY_AVX512) || defined(CPU_CAPABILITY_AVX2)
  const Vec magic(12582912.0F);  // adding it leaves a whole number in the last bits
  const Vec shifted = at::vec::fmadd(clamped, Vec(sign * 1.44269504F), magic), n = shifted - magic;
  const Vec r = at::vec::fmadd(n, Vec(sign * -0.693147182F), clamped);  // times sign
  Vec p(sign * 8.3125019446e-3F);
  for (const float c : {4.1890330613e-2F, sign * 1.6667115688e-1F, 4.9999231100e-1F, sign, 1.0F})
    p = at::vec::fmadd(p, r, Vec(c));
#if defined(CPU_CAPABILITY_AVX512)
  return _mm512_scalef_ps(p, n);
#else
  const __m256i exponents = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponents));
#endif
#else
  return (clamped * Vec(sign)).exp_u20();
#endif
}

// e^x for x of at most 0, or NaN.
inline Vec exponential(const Vec& x) { return Vec::blendv(power(x, 1), Vec(0.0F), x < Vec(-kLimit)); }

// 1 / (1 + e^-x) within three units in the last place; 0 below -87.3.
inline Vec sigmoid(const Vec& x) {
  const Vec divisor = Vec(1.0F) + power(x, -1);
#if defined(CPU_CAPABILITY_AVX512)
  // A division takes as long as all the rest.
  const Vec estimate = _mm512_maskz_rcp14_ps(_mm512_cmp_ps_mask(x, Vec(-kLimit), _CMP_NLT_UQ), divisor);
  return estimate * (Vec(2.0F) - divisor * estimate);
#else
  return Vec::blendv(Vec(1.0F) / divisor, Vec(0.0F), x < Vec(-kLimit));
#endif
}

}  // namespace

}  // namespace softnpu::kernels::rows
