// Numbers of 4 and 8 bits, exactly: float4_e2m1, float4_e1m2, float8_e4m3fn, float8_e5m2, float8_e8m0 (the scale of an
// MX block) and hifloat8. Encoding saturates: no finite number becomes infinite.
#pragma once

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

namespace softnpu::kernels::mx {

enum class Rounding { to_even, away, down };  // ties to even, ties away from zero, towards minus infinity

inline Rounding rounding(std::string_view mode) {
  return mode == "floor" ? Rounding::down : mode == "round" ? Rounding::away : Rounding::to_even;
}

// A sign, `exponent` bits with `bias`, `mantissa` bits; subnormal numbers; codes above `last` are no finite numbers.
struct Format {
  int exponent, mantissa, bias;
  uint8_t last;

  constexpr int bits() const { return 1 + exponent + mantissa; }
  constexpr int least() const { return 1 - bias; }                      // exponent of the smallest normal number
  constexpr int greatest() const { return (last >> mantissa) - bias; }  // exponent of the largest number
  constexpr uint8_t sign() const { return uint8_t{1} << (exponent + mantissa); }
  double most() const { return decode(last); }

  double decode(uint8_t code) const {
    const int field = (code & (sign() - 1)) >> mantissa, fraction = code & ((1 << mantissa) - 1);
    const double value = field ? std::ldexp(fraction + (1 << mantissa), field - bias - mantissa)
                               : std::ldexp(fraction, least() - mantissa);
    return code & sign() ? -value : value;
  }

  uint8_t encode(double value, Rounding mode) const {
    const bool negative = std::signbit(value);
    const double magnitude = std::abs(value);
    int code = last;
    if (magnitude < most()) {
      // Steps of the lattice around the number; a step that reaches the next power of two carries into the exponent.
      const int power = magnitude == 0 ? least() : std::max(std::ilogb(magnitude), least());
      const double steps = std::ldexp(magnitude, mantissa - power), below = std::floor(steps), rest = steps - below;
      const bool up = mode == Rounding::down   ? negative && rest > 0
                      : mode == Rounding::away ? rest >= 0.5
                                               : rest > 0.5 || (rest == 0.5 && std::fmod(below, 2) == 1);
      code = std::min(((power - least()) << mantissa) + static_cast<int>(below) + up, static_cast<int>(last));
    }
    return static_cast<uint8_t>(code | (negative ? sign() : 0));
  }
};

inline constexpr Format kE2M1{2, 1, 1, 0x07}, kE1M2{1, 2, 1, 0x07}, kE4M3{4, 3, 7, 0x7e}, kE5M2{5, 2, 15, 0x7b};

// Of a tensor's type; types of bits stand for what torch lacks, see engine/dtypes.cpp.
inline const Format* format_of(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Float4_e2m1fn_x2:
      return &kE2M1;
    case c10::ScalarType::Bits4x2:
      return &kE1M2;
    case c10::ScalarType::Float8_e4m3fn:
      return &kE4M3;
    case c10::ScalarType::Float8_e5m2:
      return &kE5M2;
    default:
      return nullptr;
  }
}

// ---- The scale of a block: a power of two, as the exponent of a float32 with its bias. 255 is no number.

inline constexpr uint8_t kNoScale = 255;

inline float scale_value(uint8_t code) {
  return code == kNoScale ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(std::ldexp(1.0, code - 127));
}

struct Scaling {
  int64_t algorithm = 0;  // 0: OCP's; 1: rounded up, as cuBLAS does; 2: rounded up for a given maximum of the type
  double maximum = 0;     // of the type, for algorithm 2; 0 for its own
  double least_amax = 0;  // for algorithm 1
};

// For the largest magnitude of a block.
inline uint8_t scale_code(float amax, const Format& format, const Scaling& scaling) {
  if (!std::isfinite(amax)) return kNoScale;
  if (scaling.algorithm == 0)
    return amax == 0 ? 0 : static_cast<uint8_t>(std::clamp(std::ilogb(amax) - format.greatest(), -127, 127) + 127);
  if (scaling.algorithm == 1 && scaling.least_amax > 0) amax = std::max(amax, static_cast<float>(scaling.least_amax));
  const double maximum = scaling.maximum > 0 ? scaling.maximum : format.most();
  const auto bits = std::bit_cast<uint32_t>(amax / static_cast<float>(maximum));
  const uint32_t field = bits >> 23 & 0xff, fraction = bits & 0x7fffff;
  const bool up = field > 0 ? field < 254 && fraction > 0 : scaling.algorithm == 1 && fraction > 0x400000;
  return static_cast<uint8_t>(field + up);
}

// ---- hifloat8: a dot of 2 to 4 bits says how many bits of exponent follow, the rest is the mantissa.
// See "Ascend HiFloat8 Format for Deep Learning", arXiv:2409.16626.

inline constexpr uint8_t kHifNan = 0x80, kHifInf = 0x6f;
inline constexpr double kHifMost = 32768;

inline double hif_decode(uint8_t code) {
  const int bits = code & 0x7f;
  if (code == kHifNan) return std::numeric_limits<double>::quiet_NaN();
  const double sign = code & 0x80 ? -1 : 1;
  if (bits == kHifInf) return sign * std::numeric_limits<double>::infinity();
  if (bits < 8) return bits ? sign * std::ldexp(1.0, bits - 23) : 0;  // powers of two below the others
  const int width = bits >= 0x60 ? 4 : bits >= 0x40 ? 3 : bits >= 0x20 ? 2 : bits >= 0x10 ? 1 : 0;  // of the exponent
  const int mantissa = width == 4 ? 1 : width == 3 ? 2 : 3;
  int exponent = 0;
  if (width) {
    const int field = bits >> mantissa & ((1 << width) - 1),
              high = 1 << (width - 1);  // a sign, then all but a leading 1
    exponent = (field & (high - 1)) | high;
    if (field & high) exponent = -exponent;
  }
  return sign * std::ldexp(1 + std::ldexp(bits & ((1 << mantissa) - 1), -mantissa), exponent);
}

// Ties away from zero.
inline uint8_t hif_encode(double value) {
  struct Entry {
    double value;
    uint8_t code;
  };
  static const auto table = [] {  // the finite magnitudes, ascending
    std::array<Entry, 127> all;
    size_t n = 0;
    for (int code = 0; code < 128; code++)
      if (code != kHifInf) all[n++] = {hif_decode(static_cast<uint8_t>(code)), static_cast<uint8_t>(code)};
    std::sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) { return a.value < b.value; });
    return all;
  }();
  if (std::isnan(value)) return kHifNan;
  const double magnitude = std::min(std::abs(value), kHifMost);
  auto above = std::lower_bound(table.begin(), table.end(), magnitude,
                                [](const Entry& entry, double v) { return entry.value < v; });
  if (above != table.begin() && magnitude - (above - 1)->value < above->value - magnitude) above--;
  return static_cast<uint8_t>(above->code | (std::signbit(value) && above->code ? 0x80 : 0));
}

}  // namespace softnpu::kernels::mx
