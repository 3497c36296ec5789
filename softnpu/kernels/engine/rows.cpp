// See rows.h. This file is compiled once for each CPU_CAPABILITY: nothing here may be shared between them by the
// linker, so it uses at::vec, whose names carry the capability, and local functions only.
#include "kernels/engine/rows.h"

#include <ATen/Version.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/engine/blocks.h"

namespace softnpu::kernels::rows {

namespace {

#if defined(CPU_CAPABILITY_DEFAULT) && defined(__x86_64__)
#define FLATTEN  // for processors without AVX2: not worth three times the compiler's time
#else
#define FLATTEN __attribute__((flatten))  // all that the loop calls becomes part of it
#endif

template <class T>
FLATTEN float rms_norm(T* out, float* wide_out, T* total, const T* x, const T* other, const float* weight, float eps,
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
FLATTEN void rms_norm_backward(T* x_grad, float* weight_grad, const T* grad, const T* x, float rstd,
                               const float* weight, int64_t n) {
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
FLATTEN void swiglu(T* out, const T* gate, const T* linear, int64_t n) {
  for_blocks(n, [&](int64_t i, auto count) {
    const Block g = load(gate + i, count);
    store(out + i, g * each(sigmoid<T>, g) * load(linear + i, count), count);
  });
}

template <class T>
FLATTEN void swiglu_backward(T* gate_grad, T* linear_grad, const T* grad, const T* gate, const T* linear, int64_t n) {
  for_blocks(n, [&](int64_t i, auto count) {
    const Block d = load(grad + i, count), g = load(gate + i, count), x = load(linear + i, count);
    const Block s = each(sigmoid<T>, g), silu = g * s;
    store(gate_grad + i, d * x * (s + silu * (both(1) - s)), count);
    store(linear_grad + i, d * silu, count);
  });
}

// The numbers (a, b) of two rows turned, by one cosine and one sine each; backward by the transposed matrix.
template <bool kBackward, class Pair>
inline std::pair<Pair, Pair> turned(const Pair& a, const Pair& b, const Pair& cos1, const Pair& cos2, const Pair& sin1,
                                    const Pair& sin2) {
  if constexpr (kBackward) return {a * cos1 + b * sin2, b * cos2 - a * sin1};
  return {a * cos1 - b * sin1, b * cos2 + a * sin2};
}

template <bool kBackward, class T, class Table>
inline void rotate_halves(T* out, const T* x, const Table* cos, const Table* sin, int64_t n) {
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
inline void rotate_pairs(T* out, const T* x, const Table* cos, const Table* sin, int64_t n) {
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
FLATTEN void rotate(T* out, const T* x, const Table* cos, const Table* sin, int64_t n, bool pairs, bool backward,
                    int64_t count, Steps steps) {
  for (; count > 0; count--, out += steps.out, x += steps.x, cos += steps.cos, sin += steps.sin) {
    if (pairs)
      backward ? rotate_pairs<true>(out, x, cos, sin, n) : rotate_pairs<false>(out, x, cos, sin, n);
    else
      backward ? rotate_halves<true>(out, x, cos, sin, n) : rotate_halves<false>(out, x, cos, sin, n);
  }
}

inline void fill_masked(float* numbers, const Masked& masked, float value, int64_t n) {
  if (masked.marks)
    for (int64_t i = 0; i < n; i++) numbers[i] = masked.marks[i] ? value : numbers[i];
  else
    for (int64_t i = masked.first; i < n; i++) numbers[i] = value;
}

template <class T>
FLATTEN void softmax(T* out, const T* x, float* buffer, float scale, Masked masked, float fill, int64_t n) {
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
FLATTEN void softmax_backward(T* out, const T* grad, const T* y, float* buffer, float scale, Masked masked, int64_t n) {
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
FLATTEN float dynamic_quant(int8_t* out, const T* x, const float* smooth, float most, int64_t n) {
  const auto numbers = [&](int64_t i, auto count) {
    const Block block = load(x + i, count);
    return smooth ? block * load(smooth + i, count) : block;
  };
  const auto larger = [](const Vec& a, const Vec& b) { return at::vec::maximum(a, b); };  // NaN, if one is
  Block magnitudes = both(0);
  for_blocks(n, [&](int64_t i, auto count) {
    magnitudes = each([&](const Vec& m, const Vec& v) { return larger(m, v.abs()); }, magnitudes, numbers(i, count));
  });
  const float largest = at::vec::vec_reduce_all<float>(larger, larger(magnitudes.a, magnitudes.b));
  const float scale = largest / most;
  const Vec divisor(scale == 0 ? 1.0F : scale);
  for_blocks(n, [&](int64_t i, auto count) {
    const Block scaled = each([&](const Vec& v) { return (v / divisor).round(); }, numbers(i, count));
    int32_t whole[kBlock];
    at::vec::convert_to_int_of_same_size(scaled.a).store(whole);
    at::vec::convert_to_int_of_same_size(scaled.b).store(whole + kWidth);
    for (int64_t j = 0; j < count; j++) out[i + j] = static_cast<int8_t>(whole[j]);
  });
  return scale;
}

// The order of a number among others: integers are compared in one step, whatever the numbers are.
inline int32_t order(float x) {
  if (x != x) return std::numeric_limits<int32_t>::max();
  int32_t bits;
  x += 0.0F;  // there is one zero
  memcpy(&bits, &x, sizeof bits);
  return bits ^ (bits >> 31 & std::numeric_limits<int32_t>::max());
}

FLATTEN void largest(int64_t* places, const float* x, int32_t* buffer, int64_t k, int64_t n) {
  for (int64_t i = 0; i < n; i++) buffer[i] = order(x[i]);
  int64_t kept = 0;
  for (int64_t i = 0; i < n; i++) {
    if (kept == k && buffer[i] <= buffer[places[k - 1]]) continue;
    int64_t at = kept < k ? kept++ : k - 1;
    for (; at > 0 && buffer[places[at - 1]] < buffer[i]; at--) places[at] = places[at - 1];
    places[at] = i;
  }
}

template <class T>
constexpr Loops<T> kLoops = {rms_norm<T>,        rms_norm_backward<T>, swiglu<T>,
                             swiglu_backward<T>, rotate<T, T>,         rotate<T, float>,
                             softmax<T>,         softmax_backward<T>,  dynamic_quant<T>};

}  // namespace

namespace CPU_CAPABILITY {
extern const AllLoops kAll;
const AllLoops kAll = {kLoops<float>, kLoops<at::Half>, kLoops<at::BFloat16>, largest};
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
