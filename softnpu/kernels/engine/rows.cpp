// See rows.h. This file is compiled once for each CPU_CAPABILITY: nothing here may be shared between them by the
// linker, so it uses at::vec, whose names carry the capability, and local functions only.
#include "kernels/engine/rows.h"

#include <ATen/Version.h>
#include <ATen/cpu/vec/functional.h>
#include <ATen/cpu/vec/vec.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace softnpu::kernels::rows {

namespace {

using Vec = at::vec::Vectorized<float>;
constexpr int64_t kWidth = Vec::size();
constexpr int64_t kBlock = 2 * kWidth;  // numbers of float16 in a register, which widen to two registers

#define ROWS_INLINE inline __attribute__((always_inline))

struct Block {
  Vec a, b;
};
template <class F, class... B>
ROWS_INLINE Block each(const F& f, const B&... blocks) {
  return {f(blocks.a...), f(blocks.b...)};
}
ROWS_INLINE Block operator+(const Block& x, const Block& y) { return {x.a + y.a, x.b + y.b}; }
ROWS_INLINE Block operator-(const Block& x, const Block& y) { return {x.a - y.a, x.b - y.b}; }
ROWS_INLINE Block operator*(const Block& x, const Block& y) { return {x.a * y.a, x.b * y.b}; }
ROWS_INLINE Block both(float x) { return {Vec(x), Vec(x)}; }

// Whole blocks have their length as a constant.
template <class T, class Count>
ROWS_INLINE Block load(const T* from, Count count) {
  if constexpr (std::is_same_v<T, float>) {
    if constexpr (!std::is_same_v<Count, int64_t>) return {Vec::loadu(from), Vec::loadu(from + kWidth)};
    const int64_t first = std::min<int64_t>(count, kWidth);
    return {Vec::loadu(from, first), Vec::loadu(from + first, count - first)};
  } else {
    using Short = at::vec::Vectorized<T>;
    const auto [a, b] = at::vec::convert_to_float<T>(
        std::is_same_v<Count, int64_t> ? Short::loadu(from, static_cast<int16_t>(count)) : Short::loadu(from));
    return {a, b};
  }
}

template <class T, class Count>
ROWS_INLINE void store(T* to, const Block& x, Count count) {
  if constexpr (std::is_same_v<T, float>) {
    const int64_t first = std::min<int64_t>(count, kWidth);
    x.a.store(to, first);
    x.b.store(to + first, count - first);
  } else {
    at::vec::convert_from_float<T>(x.a, x.b).store(to, static_cast<int>(count));
  }
}

// As it will be read back.
template <class T>
ROWS_INLINE Block rounded(const Block& x) {
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else {
    const auto [a, b] = at::vec::convert_to_float<T>(at::vec::convert_from_float<T>(x.a, x.b));
    return {a, b};
  }
}

// f(place, count) for the blocks of n numbers.
template <class F>
ROWS_INLINE void for_blocks(int64_t n, const F& f) {
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) f(i, std::integral_constant<int64_t, kBlock>());
  if (i < n) f(i, n - i);
}

ROWS_INLINE float sum(const Block& x) {
  return at::vec::vec_reduce_all<float>([](Vec a, Vec b) { return a + b; }, x.a + x.b);
}

// x * 2^n, where n is in the last bits of `shifted`.
ROWS_INLINE Vec scaled(const Vec& x, [[maybe_unused]] const Vec& shifted, [[maybe_unused]] const Vec& n) {
#if defined(CPU_CAPABILITY_AVX512)
  return _mm512_scalef_ps(x, n);
#elif defined(CPU_CAPABILITY_AVX2)
  const __m256i power = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), power));
#else
  float numbers[kWidth], powers[kWidth];
  x.store(numbers), shifted.store(powers);
  for (int64_t i = 0; i < kWidth; i++)
    numbers[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(numbers[i]) + (std::bit_cast<uint32_t>(powers[i]) << 23));
  return Vec::loadu(numbers);
#endif
}

// e^x within two units in the last place; beyond the range 0 or infinity.
ROWS_INLINE Vec exponential(const Vec& x) {
  const Vec low(-87.33654F), high(88.72283F), magic(12582912.0F);  // adding it leaves a whole number in the last bits
  const Vec clamped = at::vec::clamp_min(at::vec::clamp_max(x, high), low);
  const Vec shifted = at::vec::fmadd(clamped, Vec(1.44269504F), magic), n = shifted - magic;
  const Vec r = at::vec::fmadd(n, Vec(2.12194440e-4F), at::vec::fmadd(n, Vec(-0.693359375F), clamped));
  Vec p(1.9875691500e-4F);
  for (const float c : {1.3981999507e-3F, 8.3334519073e-3F, 4.1665795894e-2F, 1.6666665459e-1F, 5.0000001201e-1F})
    p = at::vec::fmadd(p, r, Vec(c));
  p = at::vec::fmadd(p, r * r, r) + Vec(1.0F);
  const Vec result = Vec::blendv(scaled(p, shifted, n), Vec(0.0F), x < low);
  return Vec::blendv(result, Vec(std::numeric_limits<float>::infinity()), x > high);
}

ROWS_INLINE Vec sigmoid(const Vec& x) { return Vec(1.0F) / (Vec(1.0F) + exponential(x.neg())); }

template <class T>
float rms_norm(T* out, float* wide_out, T* total, const T* x, const T* other, const float* weight, float eps,
               int64_t n) {
  Block squares = both(0);
  for_blocks(n, [&](int64_t i, auto count) {
    Block numbers = load(x + i, count);
    if (other) {
      numbers = rounded<T>(numbers + load(other + i, count));
      store(total + i, numbers, count);
    }
    squares = squares + numbers * numbers;
  });
  const float rstd = 1.0F / std::sqrt(sum(squares) / static_cast<float>(n) + eps);
  const T* from = other ? total : x;
  for_blocks(n, [&](int64_t i, auto count) {
    const Block result = load(from + i, count) * both(rstd) * load(weight + i, count);
    store(out + i, result, count);
    if (wide_out) store(wide_out + i, result, count);
  });
  return rstd;
}

template <class T>
void rms_norm_backward(T* x_grad, float* weight_grad, const T* grad, const T* x, float rstd, const float* weight,
                       int64_t n) {
  Block products = both(0);
  for_blocks(n, [&](int64_t i, auto count) {
    const Block g = load(grad + i, count), normed = load(x + i, count) * both(rstd), part = g * normed;
    store(weight_grad + i, load(weight_grad + i, count) + part, count);
    products = products + part * load(weight + i, count);
  });
  const Block mean = both(sum(products) / static_cast<float>(n));
  for_blocks(n, [&](int64_t i, auto count) {
    const Block normed = load(x + i, count) * both(rstd);
    store(x_grad + i, both(rstd) * (load(grad + i, count) * load(weight + i, count) - normed * mean), count);
  });
}

template <class T>
void swiglu(T* out, const T* gate, const T* linear, int64_t n) {
  for_blocks(n, [&](int64_t i, auto count) {
    const Block g = load(gate + i, count);
    store(out + i, g * each(sigmoid, g) * load(linear + i, count), count);
  });
}

template <class T>
void swiglu_backward(T* gate_grad, T* linear_grad, const T* grad, const T* gate, const T* linear, int64_t n) {
  for_blocks(n, [&](int64_t i, auto count) {
    const Block d = load(grad + i, count), g = load(gate + i, count), x = load(linear + i, count);
    const Block s = each(sigmoid, g), silu = g * s;
    store(gate_grad + i, d * x * (s + silu * (both(1) - s)), count);
    store(linear_grad + i, d * silu, count);
  });
}

// The numbers (a, b) of two rows turned, by one cosine and one sine each; backward by the transposed matrix.
template <bool kBackward, class Pair>
ROWS_INLINE std::pair<Pair, Pair> turned(const Pair& a, const Pair& b, const Pair& cos1, const Pair& cos2,
                                         const Pair& sin1, const Pair& sin2) {
  if constexpr (kBackward) return {a * cos1 + b * sin2, b * cos2 - a * sin1};
  return {a * cos1 - b * sin1, b * cos2 + a * sin2};
}

template <bool kBackward, class T, class Table>
ROWS_INLINE void rotate_halves(T* out, const T* x, const Table* cos, const Table* sin, int64_t n) {
  const int64_t h = n / 2;
  for_blocks(h, [&](int64_t i, auto count) {
    const auto [first, second] =
        turned<kBackward>(load(x + i, count), load(x + h + i, count), load(cos + i, count), load(cos + h + i, count),
                          load(sin + i, count), load(sin + h + i, count));
    store(out + i, first, count);
    store(out + h + i, second, count);
  });
}

template <bool kBackward, class T, class Table>
ROWS_INLINE void rotate_pairs(T* out, const T* x, const Table* cos, const Table* sin, int64_t n) {
  const auto apart = [](const Block& block) {
    const auto [a, b] = at::vec::deinterleave2<float>(block.a, block.b);
    return Block{a, b};
  };
  for_blocks(n, [&](int64_t i, auto count) {
    const Block numbers = apart(load(x + i, count)), c = apart(load(cos + i, count)), s = apart(load(sin + i, count));
    const auto [first, second] = turned<kBackward>(numbers.a, numbers.b, c.a, c.b, s.a, s.b);
    const auto [a, b] = at::vec::interleave2<float>(first, second);
    store(out + i, Block{a, b}, count);
  });
}

template <class T, class Table>
void rotate(T* out, const T* x, const Table* cos, const Table* sin, int64_t n, bool pairs, bool backward, int64_t count,
            Steps steps) {
  for (; count > 0; count--, out += steps.out, x += steps.x, cos += steps.cos, sin += steps.sin) {
    if (pairs)
      backward ? rotate_pairs<true>(out, x, cos, sin, n) : rotate_pairs<false>(out, x, cos, sin, n);
    else
      backward ? rotate_halves<true>(out, x, cos, sin, n) : rotate_halves<false>(out, x, cos, sin, n);
  }
}

ROWS_INLINE void fill_masked(float* numbers, const Masked& masked, float value, int64_t n) {
  if (masked.marks)
    for (int64_t i = 0; i < n; i++) numbers[i] = masked.marks[i] ? value : numbers[i];
  else
    for (int64_t i = masked.first; i < n; i++) numbers[i] = value;
}

template <class T>
void softmax(T* out, const T* x, float* buffer, float scale, Masked masked, float fill, int64_t n) {
  for_blocks(n, [&](int64_t i, auto count) { store(buffer + i, load(x + i, count) * both(scale), count); });
  fill_masked(buffer, masked, fill, n);
  float largest = -std::numeric_limits<float>::infinity();  // NaN does not count
  for (int64_t i = 0; i < n; i++) largest = buffer[i] > largest ? buffer[i] : largest;
  Block total = both(0);
  const auto shifted = [&](const Vec& v) { return exponential(v - Vec(largest)); };
  for_blocks(n, [&](int64_t i, auto count) {
    const Block powers = each(shifted, load(buffer + i, count));
    store(buffer + i, powers, count);
    if constexpr (!std::is_same_v<decltype(count), int64_t>)
      total = total + powers;
    else
      total = total + load(buffer + i, count);  // zeros behind the end
  });
  const Vec divisor(sum(total));
  for_blocks(n, [&](int64_t i, auto count) {
    store(out + i, each([&](const Vec& v) { return v / divisor; }, load(buffer + i, count)), count);
  });
}

template <class T>
void softmax_backward(T* out, const T* grad, const T* y, float* buffer, float scale, Masked masked, int64_t n) {
  Block total = both(0);
  for_blocks(n, [&](int64_t i, auto count) { total = total + load(grad + i, count) * load(y + i, count); });
  const Block shift = both(sum(total));
  for_blocks(n, [&](int64_t i, auto count) {
    store(buffer + i, (load(grad + i, count) - shift) * load(y + i, count) * both(scale), count);
  });
  fill_masked(buffer, masked, 0, n);
  for_blocks(n, [&](int64_t i, auto count) { store(out + i, load(buffer + i, count), count); });
}

template <class T>
constexpr Loops<T> kLoops = {rms_norm<T>,  rms_norm_backward<T>, swiglu<T>,  swiglu_backward<T>,
                             rotate<T, T>, rotate<T, float>,     softmax<T>, softmax_backward<T>};

}  // namespace

namespace CPU_CAPABILITY {
extern const AllLoops kAll;
const AllLoops kAll = {kLoops<float>, kLoops<at::Half>, kLoops<at::BFloat16>};
}  // namespace CPU_CAPABILITY

#if defined(CPU_CAPABILITY_DEFAULT)
#if defined(__x86_64__)
namespace AVX2 {
extern const AllLoops kAll;
}
namespace AVX512 {
extern const AllLoops kAll;
}
const AllLoops& all_loops() {
  static const AllLoops& chosen = [&]() -> const AllLoops& {
    const auto capability = at::get_cpu_capability();
    return capability == "AVX512" ? AVX512::kAll : capability == "AVX2" ? AVX2::kAll : DEFAULT::kAll;
  }();
  return chosen;
}
#else
const AllLoops& all_loops() { return DEFAULT::kAll; }
#endif
#endif

}  // namespace softnpu::kernels::rows
