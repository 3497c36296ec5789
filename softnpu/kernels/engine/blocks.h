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
#if defined(CPU_CAPABILITY_AVX512)
    if constexpr (std::is_same_v<T, at::Half> && !std::is_same_v<Count, int64_t>) {  // each half from its own register
      constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtps_ph(x.a, kNearest));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + kWidth), _mm512_cvtps_ph(x.b, kNearest));
      return;
    }
#endif
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

// A power as a product.
struct Power {
  Vec fraction, scale;
};

// e^(sign * x) for x from -87.3 to 87.3: within two units in the last place, or within 2^-18 of its value for a result
// that is rounded to the fewer bits of T.
template <class T>
inline Power power(const Vec& x, float sign) {
#if defined(CPU_CAPABILITY_AVX512) || defined(CPU_CAPABILITY_AVX2)
  const Vec magic(12582912.0F + 127.0F);  // adding it leaves a whole number in the last bits, as exponents are stored
  const Vec shifted = at::vec::fmadd(x, Vec(sign * 1.44269504F), magic);
  const Vec r = at::vec::fmadd(shifted - magic, Vec(sign * -0.693147182F), x);  // times sign
  Vec p(std::is_same_v<T, float> ? sign * 8.3125019446e-3F : 4.14584e-2F);
  if constexpr (std::is_same_v<T, float>)
    for (const float c : {4.1890330613e-2F, sign * 1.6667115688e-1F, 4.9999231100e-1F, sign, 1.0F})
      p = at::vec::fmadd(p, r, Vec(c));
  else
    for (const float c : {sign * 1.6791031e-1F, 5.000437e-1F, sign * 9.9996334e-1F, 9.999993e-1F})
      p = at::vec::fmadd(p, r, Vec(c));
#if defined(CPU_CAPABILITY_AVX512)
  return {p, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(shifted), 23))};
#else
  return {p, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(shifted), 23))};
#endif
#else
  return {(x * Vec(sign)).exp_u20(), Vec(1.0F)};
#endif
}

// e^x for x of at most 0, or NaN.
inline Vec exponential(const Vec& x) {
  const auto [fraction, scale] = power<float>(at::vec::clamp_min(x, Vec(-kLimit)), 1);
  return Vec::blendv(fraction * scale, Vec(0.0F), x < Vec(-kLimit));
}

// 1 / (1 + e^-x) within three units in the last place, or nearly that once it is rounded to T; 0 below -87.3. For a
// product with x: what comes of NaN is any number.
template <class T>
inline Vec sigmoid(const Vec& x) {
#if defined(CPU_CAPABILITY_AVX512)
  const auto [fraction, scale] = power<T>(_mm512_range_ps(x, Vec(kLimit), 2), -1);  // the smaller magnitude, x's sign
  const Vec divisor = at::vec::fmadd(fraction, scale, Vec(1.0F));
  // 14 bits of the reciprocal: a division takes as long as all the rest.
  const Vec estimate = _mm512_maskz_rcp14_ps(_mm512_cmp_ps_mask(x, Vec(-kLimit), _CMP_NLT_UQ), divisor);
  if constexpr (std::is_same_v<T, at::BFloat16>) return estimate;
  return estimate * (Vec(2.0F) - divisor * estimate);
#else
  const auto [fraction, scale] = power<T>(at::vec::clamp(x, Vec(-kLimit), Vec(kLimit)), -1);
  return Vec::blendv(Vec(1.0F) / at::vec::fmadd(fraction, scale, Vec(1.0F)), Vec(0.0F), x < Vec(-kLimit));
#endif
}

}  // namespace

}  // namespace softnpu::kernels::rows
