#include "reduce.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace softnpu::comm {

namespace {

constexpr size_t kChunk = 2048;  // elements between two passes over the inputs: accumulators stay in the first cache

struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

// Branch-free conversions, so that loops over them become vector code.
inline float to_float(BFloat16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

inline float to_float(Half x) {
  const uint32_t sign = (x.bits & 0x8000u) << 16, magnitude = x.bits & 0x7fffu;
  // Normal numbers move to float's exponent by a multiplication; so do subnormal ones. Infinity and NaN need the rest.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  const uint32_t special = magnitude >= 0x7c00u ? 0x7f800000u : 0u;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | special | sign);
}

inline BFloat16 round_to(float x, BFloat16) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
  const uint32_t nan = 0x7fc0u | (bits >> 16 & 0x8000u);
  return {static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded)};
}

inline Half round_to(float x, Half) {
  const uint32_t bits = std::bit_cast<uint32_t>(x), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  // Adding a number whose last place is half's last place at this exponent makes the float unit round to nearest even.
  const uint32_t exponent = std::max(magnitude & 0x7f800000u, 0x38800000u);
  const float anchor = std::bit_cast<float>(exponent + (13u << 23));
  const float aligned = std::bit_cast<float>(std::min(magnitude, 0x477ff000u)) + anchor;
  const uint32_t mantissa = std::bit_cast<uint32_t>(aligned) - std::bit_cast<uint32_t>(anchor);
  const uint32_t finite = ((exponent - 0x38800000u) >> 13) + mantissa;
  const uint32_t infinite = 0x7c00u | (magnitude > 0x7f800000u ? 0x200u : 0u);
  return {static_cast<uint16_t>(sign | (magnitude >= 0x477ff000u ? infinite : finite))};
}

template <class T>
struct Element {  // accumulated as itself
  using Sum = T;
  static T load(T x) { return x; }
};
template <class T>
struct Narrow {
  using Sum = float;
  static float load(T x) { return to_float(x); }
  static T store(float x) { return round_to(x, T{}); }
};
template <>
struct Element<Half> : Narrow<Half> {};
template <>
struct Element<BFloat16> : Narrow<BFloat16> {};

// Unsigned arithmetic wraps around where signed overflow would be undefined; narrow types are promoted to int.
template <class T, class Combine>
T wrapped(T a, T b, Combine combine) {
  if constexpr (std::is_floating_point_v<T>)
    return combine(a, b);
  else
    return static_cast<T>(combine(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
}

struct Sum {
  template <class T>
  T operator()(T a, T b) const {
    return wrapped(a, b, [](auto x, auto y) { return x + y; });
  }
};
struct Product {
  template <class T>
  T operator()(T a, T b) const {
    return wrapped(a, b, [](auto x, auto y) { return x * y; });
  }
};
struct Maximum {
  template <class T>
  T operator()(T a, T b) const {
    return a != a || a > b ? a : b;
  }
};
struct Minimum {
  template <class T>
  T operator()(T a, T b) const {
    return a != a || a < b ? a : b;
  }
};

// sums op= the next K inputs, in one pass: memory is read by K streams at once and the sums are written once.
template <class T, class Op, bool kFirst, size_t K>
void pass(const char* const* inputs, size_t offset, size_t n, typename Element<T>::Sum* sums) {
  using E = Element<T>;
  using Sum = typename E::Sum;
  const T* next[K];
  for (size_t k = 0; k < K; ++k) next[k] = reinterpret_cast<const T*>(inputs[k] + offset);
  for (size_t i = 0; i < n; ++i) {
    Sum sum = kFirst ? Sum(E::load(next[0][i])) : Op()(sums[i], Sum(E::load(next[0][i])));
    for (size_t k = 1; k < K; ++k) sum = Op()(sum, Sum(E::load(next[k][i])));
    sums[i] = sum;
  }
}

template <class T, class Op, bool kFirst>
size_t next_pass(const char* const* inputs, size_t left, size_t offset, size_t n, typename Element<T>::Sum* sums) {
  if (left >= 4) return pass<T, Op, kFirst, 4>(inputs, offset, n, sums), 4;
  if (left >= 2) return pass<T, Op, kFirst, 2>(inputs, offset, n, sums), 2;
  return pass<T, Op, kFirst, 1>(inputs, offset, n, sums), 1;
}

// What is written over an input is in a cache already; only other results are worth streaming.
Store store_for(const char* output, const char* const* inputs, size_t input_count, Store store) {
  return std::find(inputs, inputs + input_count, output) != inputs + input_count ? Store::cached : store;
}

template <class T, class Op>
void reduce_as(const char* const* inputs, size_t input_count, char* const* outputs, size_t output_count,
               size_t elements, Store store) {
  using Sum = typename Element<T>::Sum;
  alignas(64) Sum sums[kChunk];
  alignas(64) T rounded[std::is_same_v<T, Sum> ? 1 : kChunk];
  for (size_t done = 0; done < elements; done += kChunk) {
    const size_t n = std::min(kChunk, elements - done), offset = done * sizeof(T);
    size_t taken = next_pass<T, Op, true>(inputs, input_count, offset, n, sums);
    while (taken < input_count) taken += next_pass<T, Op, false>(inputs + taken, input_count - taken, offset, n, sums);
    const char* result = reinterpret_cast<const char*>(sums);
    if constexpr (!std::is_same_v<T, Sum>) {
      for (size_t i = 0; i < n; ++i) rounded[i] = Element<T>::store(sums[i]);
      result = reinterpret_cast<const char*>(rounded);
    }
    for (size_t j = 0; j < output_count; ++j)
      copy_bytes(outputs[j] + offset, result, n * sizeof(T), store_for(outputs[j], inputs, input_count, store));
  }
  finish_stores(store);
}

template <class T>
void reduce_type(uint32_t op, const char* const* inputs, size_t input_count, char* const* outputs, size_t output_count,
                 size_t elements, Store store) {
  switch (op) {
    case HCCL_REDUCE_SUM:
      return reduce_as<T, Sum>(inputs, input_count, outputs, output_count, elements, store);
    case HCCL_REDUCE_PROD:
      return reduce_as<T, Product>(inputs, input_count, outputs, output_count, elements, store);
    case HCCL_REDUCE_MAX:
      return reduce_as<T, Maximum>(inputs, input_count, outputs, output_count, elements, store);
    default:
      return reduce_as<T, Minimum>(inputs, input_count, outputs, output_count, elements, store);
  }
}

struct Type {
  const char* name;
  size_t size;
  decltype(&reduce_type<float>) reduce;
};
template <class T>
constexpr Type type_of(const char* name) {
  return {name, sizeof(T), reduce_type<T>};
}
constexpr Type kTypes[] = {
    // by HcclDataType
    type_of<int8_t>("int8"),     type_of<int16_t>("int16"),  type_of<int32_t>("int32"),
    type_of<Half>("float16"),    type_of<float>("float32"),  type_of<int64_t>("int64"),
    type_of<uint64_t>("uint64"), type_of<uint8_t>("uint8"),  type_of<uint16_t>("uint16"),
    type_of<uint32_t>("uint32"), type_of<double>("float64"), type_of<BFloat16>("bfloat16"),
};
constexpr uint32_t kTypeCount = sizeof kTypes / sizeof kTypes[0];

}  // namespace

size_t size_of(uint32_t type) { return type < kTypeCount ? kTypes[type].size : 0; }

const char* type_name(uint32_t type) { return type < kTypeCount ? kTypes[type].name : "unknown type"; }

const char* op_name(uint32_t op) {
  static const char* const names[] = {"sum", "product", "max", "min"};
  return op < 4 ? names[op] : "unknown op";
}

void reduce(uint32_t type, uint32_t op, const char* const* inputs, size_t input_count, char* const* outputs,
            size_t output_count, size_t elements, Store store) {
  kTypes[type].reduce(op, inputs, input_count, outputs, output_count, elements, store);
}

}  // namespace softnpu::comm
