#include "dump/element_type.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>
#include <c10/util/Float8_e8m0fnu.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

namespace npu::dump {

namespace {

template <class From, class To>
void widen(const void* from, size_t count, void* to) {
  const auto* source = static_cast<const From*>(from);
  auto* target = static_cast<To*>(to);
  for (size_t i = 0; i < count; i++) target[i] = static_cast<To>(source[i]);
}

void widen_complex_half(const void* from, size_t count, void* to) { widen<c10::Half, float>(from, 2 * count, to); }

template <class T>
double magnitude(const T& value) {
  if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>)
    return static_cast<double>(std::abs(value));
  else
    return static_cast<double>(value);
}

template <class T>
Statistics measure(const void* written, size_t count) {
  const auto* values = static_cast<const T*>(written);
  Statistics s;
  double sum = 0, squares = 0, least = std::numeric_limits<double>::infinity(), most = -least;
  for (size_t i = 0; i < count; i++) {
    const double value = magnitude(values[i]);
    if (!std::isfinite(value)) {
      (std::isnan(value) ? s.nan : s.infinite)++;
      continue;
    }
    s.finite++;
    sum += value;
    squares += value * value;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  if (s.finite) s = {s.finite, s.nan, s.infinite, least, most, sum / static_cast<double>(s.finite), std::sqrt(squares)};
  return s;
}

template <class T>
constexpr ElementType plain(const char* name, const char* numpy) {
  return {name, numpy, sizeof(T), sizeof(T), nullptr, &measure<T>};
}

template <class T>
constexpr ElementType widened(const char* name) {
  return {name, "<f4", sizeof(T), 4, &widen<T, float>, &measure<float>};
}

constexpr ElementType bytes(const char* name) { return {name, "|u1", 0, 1, nullptr, &measure<uint8_t>}; }

}  // namespace

const ElementType& element_type(aclDataType type) {
  static constexpr struct {
    aclDataType type;
    ElementType element;
  } kAll[] = {
      {ACL_FLOAT, plain<float>("float32", "<f4")},
      {ACL_FLOAT16, plain<c10::Half>("float16", "<f2")},
      {ACL_BF16, widened<c10::BFloat16>("bfloat16")},
      {ACL_DOUBLE, plain<double>("float64", "<f8")},
      {ACL_INT8, plain<int8_t>("int8", "|i1")},
      {ACL_INT16, plain<int16_t>("int16", "<i2")},
      {ACL_INT32, plain<int32_t>("int32", "<i4")},
      {ACL_INT64, plain<int64_t>("int64", "<i8")},
      {ACL_UINT8, plain<uint8_t>("uint8", "|u1")},
      {ACL_UINT16, plain<uint16_t>("uint16", "<u2")},
      {ACL_UINT32, plain<uint32_t>("uint32", "<u4")},
      {ACL_UINT64, plain<uint64_t>("uint64", "<u8")},
      {ACL_BOOL, {"bool", "|b1", 1, 1, nullptr, &measure<uint8_t>}},
      {ACL_COMPLEX32, {"complex32", "<c8", 4, 8, &widen_complex_half, &measure<std::complex<float>>}},
      {ACL_COMPLEX64, plain<std::complex<float>>("complex64", "<c8")},
      {ACL_COMPLEX128, plain<std::complex<double>>("complex128", "<c16")},
      {ACL_FLOAT8_E5M2, widened<c10::Float8_e5m2>("float8_e5m2")},
      {ACL_FLOAT8_E4M3FN, widened<c10::Float8_e4m3fn>("float8_e4m3fn")},
      {ACL_FLOAT8_E8M0, widened<c10::Float8_e8m0fnu>("float8_e8m0fnu")},
      {ACL_HIFLOAT8, bytes("hifloat8")},
      {ACL_FLOAT4_E2M1, bytes("float4_e2m1fn_x2")},
      {ACL_FLOAT4_E1M2, bytes("float4_e1m2")},
  };
  static constexpr ElementType kOther = bytes("unknown");
  for (const auto& each : kAll)
    if (each.type == type) return each.element;
  return kOther;
}

}  // namespace npu::dump
