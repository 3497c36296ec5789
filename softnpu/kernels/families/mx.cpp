#include "kernels/families/mx.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>

#include "kernels/engine/require.h"

namespace softnpu::kernels {

namespace {

using mx::Format;

Tensor rows_of(const Tensor& x, int64_t axis) { return x.to(at::kFloat).movedim(axis, -1).contiguous(); }

// Codes of numbers divided by the scale.
void encode(uint8_t* codes, const float* values, int64_t count, uint8_t scale, const Format& format,
            mx::Rounding rounding) {
  const double factor = std::ldexp(1.0, 127 - scale);
  for (int64_t i = 0; i < count; i++)
    codes[i] = scale == mx::kNoScale ? 0 : format.encode(values[i] * factor, rounding);
}

// The largest magnitude; not a number where there is one that is not finite.
float largest(const float* values, int64_t count, float so_far = 0) {
  for (int64_t i = 0; i < count; i++)
    if (!(std::abs(values[i]) <= so_far)) {
      if (!std::isfinite(values[i])) return std::numeric_limits<float>::quiet_NaN();
      so_far = std::abs(values[i]);
    }
  return so_far;
}

void write_codes(Tensor& y, const Tensor& codes) {
  y.view(at::kByte).copy_(mx::format_of(y.scalar_type())->bits() == 4 ? mx::packed(codes) : codes);
}
void write_scales(Tensor& scale, const Tensor& codes) { scale.view(at::kByte).copy_(codes); }

std::vector<int64_t> places(const Optional& ends, int64_t length) {
  if (!ends) return {length};
  const auto all = ends->to(at::kLong).contiguous();
  return {all.const_data_ptr<int64_t>(), all.const_data_ptr<int64_t>() + all.numel()};
}

int64_t up(int64_t count, int64_t size) { return (count + size - 1) / size; }

// int8 and float8 are rounded to even, hifloat8 away from zero.
uint8_t to_byte(double value, at::ScalarType type) {
  if (type == at::ScalarType::Bits8) return mx::hif_encode(value);
  if (type == at::kChar)
    return static_cast<uint8_t>(static_cast<int8_t>(std::clamp(std::nearbyint(value), -128., 127.)));
  if (std::isnan(value)) return 0x7f;
  return mx::format_of(type)->encode(value, mx::Rounding::to_even);
}

}  // namespace

namespace mx {

Tensor packed(const Tensor& codes) {
  const auto dense = codes.contiguous();
  auto pairs = dense.view(at::kByte).unflatten(-1, {dense.size(-1) / 2, 2});
  return pairs.select(-1, 0) + pairs.select(-1, 1) * 16;
}

Tensor unpacked(const Tensor& pairs) {
  const auto bytes = pairs.view(at::kByte);
  return at::stack({at::bitwise_and(bytes, 15), at::bitwise_right_shift(bytes, 4)}, -1).flatten(-2);
}

Tensor dequantized(const Tensor& x, const Tensor& scale, int64_t block_size) {
  const Format& format = *format_of(x.scalar_type());
  const auto codes = (format.bits() == 4 ? unpacked(x) : x.view(at::kByte)).contiguous();
  const auto powers = scale.view(at::kByte).flatten(-2).contiguous();
  auto out = at::empty(codes.sizes(), codes.options().dtype(at::kFloat));
  std::array<float, 256> values;
  for (int code = 0; code < 256; code++) {
    const bool finite = format.bits() == 4 || (code & 0x7f) <= format.last;
    const bool infinite = &format == &kE5M2 && (code & 0x7f) == 0x7c;
    values[code] = finite     ? static_cast<float>(format.decode(static_cast<uint8_t>(code)))
                   : infinite ? (code & 0x80 ? -1 : 1) * std::numeric_limits<float>::infinity()
                              : std::numeric_limits<float>::quiet_NaN();
  }
  const int64_t length = codes.size(-1), width = powers.size(-1), rows = length ? codes.numel() / length : 0;
  const auto* code = codes.const_data_ptr<uint8_t>();
  const auto* power = powers.const_data_ptr<uint8_t>();
  auto* value = out.mutable_data_ptr<float>();
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < length; i++)
      value[r * length + i] = values[code[r * length + i]] * scale_value(power[r * width + i / block_size]);
  return out;
}

Tensor hif_decoded(const Tensor& codes) {
  const auto bytes = codes.view(at::kByte).contiguous();
  auto out = at::empty(bytes.sizes(), bytes.options().dtype(at::kFloat));
  const auto* from = bytes.const_data_ptr<uint8_t>();
  auto* to = out.mutable_data_ptr<float>();
  for (int64_t i = 0; i < bytes.numel(); i++) to[i] = static_cast<float>(hif_decode(from[i]));
  return out;
}

bool is_floating_byte(at::ScalarType type) {
  return type == at::ScalarType::Bits8 || type == at::ScalarType::Float8_e4m3fn || type == at::ScalarType::Float8_e5m2;
}

double most_of(at::ScalarType type) {
  if (type == at::ScalarType::Bits8) return kHifMost;
  return type == at::kChar ? 127 : format_of(type)->most();
}

void write_bytes(Tensor& y, const Tensor& values) {
  const auto wide = values.to(at::kFloat).contiguous();
  auto codes = at::empty(wide.sizes(), wide.options().dtype(at::kByte));
  const auto* value = wide.const_data_ptr<float>();
  auto* code = codes.mutable_data_ptr<uint8_t>();
  for (int64_t i = 0; i < wide.numel(); i++) code[i] = to_byte(value[i], y.scalar_type());
  y.view(at::kByte).copy_(codes);
}

}  // namespace mx

void mx_quantize(Tensor& y, Tensor& scale, const Tensor& x, int64_t axis, int64_t block, std::string_view round_mode,
                 const mx::Scaling& scaling, const Optional& ends) {
  const Format& format = *mx::format_of(y.scalar_type());
  const auto mode = mx::rounding(round_mode);
  const int64_t along = at::maybe_wrap_dim(axis, x.dim());
  const auto wide = rows_of(x, along);
  auto codes = at::zeros(wide.sizes(), wide.options().dtype(at::kByte));
  auto sizes = wide.sizes().vec();
  const int64_t length = sizes.back(), pairs = scale.size(along), rows = length ? wide.numel() / length : 0;
  sizes.back() = pairs;
  sizes.push_back(2);
  auto scales = at::zeros(sizes, codes.options());
  const auto* values = wide.const_data_ptr<float>();
  auto *code = codes.mutable_data_ptr<uint8_t>(), *power = scales.mutable_data_ptr<uint8_t>();
  const auto groups = places(ends, length);
  for (int64_t r = 0; r < rows; r++) {
    int64_t begin = 0, place = 0;  // of the group; its scales begin with a pair
    for (const int64_t end : groups) {
      for (int64_t i = begin; i < end; i += block) {
        const int64_t count = std::min(block, end - i), at = r * length + i;
        const auto chosen = mx::scale_code(largest(values + at, count), format, scaling);
        power[r * pairs * 2 + place + (i - begin) / block] = chosen;
        encode(code + at, values + at, count, chosen, format, mode);
      }
      place += 2 * up(end - begin, 2 * block);
      begin = end;
    }
  }
  write_codes(y, codes.movedim(-1, along));
  write_scales(scale, scales.movedim(-2, along));
}

void mx_quantize_squares(Tensor& y, Tensor& scale1, Tensor& scale2, const Tensor& x, std::string_view round_mode,
                         const mx::Scaling& scaling) {
  constexpr int64_t kSide = 32;
  const Format& format = *mx::format_of(y.scalar_type());
  const auto mode = mx::rounding(round_mode);
  const auto wide = x.to(at::kFloat).contiguous();
  const int64_t rows = x.size(-2), columns = x.size(-1), planes = x.numel() ? x.numel() / (rows * columns) : 0;
  auto codes = at::zeros(wide.sizes(), wide.options().dtype(at::kByte));
  auto first = at::zeros(scale1.sizes(), codes.options()), second = at::zeros(scale2.sizes(), codes.options());
  const auto* values = wide.const_data_ptr<float>();
  auto* code = codes.mutable_data_ptr<uint8_t>();
  auto *by_row = first.mutable_data_ptr<uint8_t>(), *by_column = second.mutable_data_ptr<uint8_t>();
  const int64_t width = 2 * up(columns, 2 * kSide), height = up(rows, 2 * kSide);
  for (int64_t p = 0; p < planes; p++)
    for (int64_t r = 0; r < rows; r += kSide)
      for (int64_t c = 0; c < columns; c += kSide) {
        const int64_t down = std::min(kSide, rows - r), across = std::min(kSide, columns - c);
        const auto at = [&](int64_t row) { return (p * rows + r + row) * columns + c; };
        float amax = 0;
        for (int64_t i = 0; i < down; i++) amax = largest(values + at(i), across, amax);
        const auto chosen = mx::scale_code(amax, format, scaling);
        for (int64_t i = 0; i < down; i++) {
          encode(code + at(i), values + at(i), across, chosen, format, mode);
          by_row[(p * rows + r + i) * width + c / kSide] = chosen;
        }
        for (int64_t i = 0; i < across; i++)
          by_column[((p * height + r / (2 * kSide)) * columns + c + i) * 2 + r / kSide % 2] = chosen;
      }
  write_codes(y, codes);
  write_scales(scale1, first);
  write_scales(scale2, second);
}

void mx_quantize_levels(Tensor& y, Tensor& level0, Tensor& level1, const Tensor& x, int64_t outer, int64_t inner,
                        std::string_view round_mode) {
  auto wide = x.to(at::kFloat, false, true).contiguous();
  const int64_t length = x.size(-1), rows = length ? x.numel() / length : 0;
  auto scales = at::zeros(level0.sizes(), wide.options());
  auto *values = wide.mutable_data_ptr<float>(), *scale = scales.mutable_data_ptr<float>();
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < length; i += outer) {
      auto* block = values + r * length + i;
      const int64_t count = std::min(outer, length - i);
      const float chosen = largest(block, count) / static_cast<float>(mx::kE2M1.most());
      scale[r * level0.size(-1) + i / outer] = chosen;
      if (chosen != 0)
        for (int64_t k = 0; k < count; k++) block[k] /= chosen;
    }
  level0.copy_(scales);
  mx_quantize(y, level1, wide.to(x.scalar_type()), -1, inner, round_mode, {});
}

void mx_dequantize(Tensor& y, const Tensor& x, const Tensor& scale) { y.copy_(mx::dequantized(x, scale, 32)); }

void cast(Tensor& out, const Tensor& self) {
  const auto in_pairs = [](const Tensor& t) {
    const auto* format = mx::format_of(t.scalar_type());
    return format && format->bits() == 4;
  };
  Tensor wide = self;
  if (self.scalar_type() == at::ScalarType::Bits8) {
    wide = mx::hif_decoded(self);
  } else if (in_pairs(self)) {
    const auto codes = mx::unpacked(self).contiguous();
    wide = at::empty(codes.sizes(), codes.options().dtype(at::kFloat));
    for (int64_t i = 0; i < codes.numel(); i++)
      wide.mutable_data_ptr<float>()[i] =
          static_cast<float>(mx::format_of(self.scalar_type())->decode(codes.const_data_ptr<uint8_t>()[i]));
  }
  if (out.scalar_type() != at::ScalarType::Bits8 && !in_pairs(out)) {
    out.copy_(wide);
    return;
  }
  const auto values = wide.to(at::kFloat).contiguous();
  auto codes = at::empty(values.sizes(), values.options().dtype(at::kByte));
  const auto* value = values.const_data_ptr<float>();
  auto* code = codes.mutable_data_ptr<uint8_t>();
  for (int64_t i = 0; i < values.numel(); i++)
    code[i] = in_pairs(out) ? mx::format_of(out.scalar_type())->encode(value[i], mx::Rounding::to_even)
                            : mx::hif_encode(value[i]);
  out.view(at::kByte).copy_(in_pairs(out) ? mx::packed(codes) : codes);
}

Tensor gated(const Tensor& x, const GatedUnit& gate) {
  const auto wide = x.to(at::kFloat);
  Tensor active, linear;
  if (gate.mode == 1) {
    const auto pairs = wide.unflatten(-1, {x.size(-1) / 2, 2});
    active = pairs.select(-1, 0);
    linear = pairs.select(-1, 1);
  } else {
    const auto halves = wide.chunk(2, gate.dim);
    active = halves[gate.left ? 0 : 1];
    linear = halves[gate.left ? 1 : 0];
  }
  switch (gate.mode) {
    case 0:
      return at::silu(active) * linear;
    case 3:
      return at::silu(active).clamp_max(gate.limit) * linear.clamp(-gate.limit, gate.limit);
    default:
      active = active.clamp_max(gate.limit);
      return active * at::sigmoid(active * gate.alpha) * (linear.clamp(-gate.limit, gate.limit) + gate.bias);
  }
}

Optional group_ends(const Optional& group_index, int64_t mode) {
  if (!group_index) return std::nullopt;
  return mode == 0 ? group_index->cumsum(0) : *group_index;
}

Tensor added(Tensor& out, const Tensor& a, const Tensor& b) {
  const auto sum = a.to(at::kFloat) + b.to(at::kFloat);
  out.copy_(sum);
  return sum;
}

Tensor normed(Tensor& rstd, const Tensor& x, const Tensor& gamma, const Optional& beta, double eps) {
  const auto wide = x.to(at::kFloat);
  const auto scale = wide.square().mean(-1, true).add_(eps).rsqrt_();
  if (rstd.numel() == scale.numel()) rstd.copy_(scale.view(rstd.sizes()));
  auto y = (wide * scale).mul_(gamma.to(at::kFloat));
  return beta ? y + beta->to(at::kFloat) : y;
}

void block_quantize(Tensor& y, Tensor& scale, const Tensor& x, const Optional& ends, double min_scale, int64_t rows,
                    int64_t columns, double maximum) {
  const auto wide = x.to(at::kFloat).contiguous();
  const int64_t height = x.size(-2), width = x.size(-1), planes = x.numel() ? x.numel() / (height * width) : 0;
  auto codes = at::zeros(wide.sizes(), wide.options().dtype(at::kByte));
  auto scales = at::zeros(scale.sizes(), wide.options());
  const float most = static_cast<float>(maximum > 0 ? maximum : mx::most_of(y.scalar_type()));
  const float limit = min_scale > 0 ? static_cast<float>(1 / min_scale) : std::numeric_limits<float>::infinity();
  const auto* values = wide.const_data_ptr<float>();
  auto* code = codes.mutable_data_ptr<uint8_t>();
  auto* out = scales.mutable_data_ptr<float>();
  const auto groups = places(ends, height);
  const int64_t across = up(width, columns);
  for (int64_t p = 0; p < planes; p++) {
    int64_t begin = 0, line = 0;  // of scales
    for (const int64_t end : groups) {
      for (int64_t r = begin; r < end; r += rows, line++)
        for (int64_t c = 0; c < width; c += columns) {
          const int64_t down = std::min(rows, end - r), count = std::min(columns, width - c);
          float amax = 0;
          for (int64_t i = 0; i < down; i++) amax = largest(values + (p * height + r + i) * width + c, count, amax);
          const float chosen = std::min(amax / most, limit);
          out[(p * scale.size(-2) + line) * across + c / columns] = chosen;
          for (int64_t i = 0; i < down; i++)
            for (int64_t k = 0; k < count; k++) {
              const int64_t at = (p * height + r + i) * width + c + k;
              code[at] = chosen == 0 ? 0 : to_byte(values[at] / chosen, y.scalar_type());
            }
        }
      begin = end;
    }
  }
  y.view(at::kByte).copy_(codes);
  scale.copy_(scales);
}

void quantize_with_max(Tensor& y, Tensor& amax, const Tensor& x, const Tensor& scale) {
  const auto wide = x.to(at::kFloat).contiguous();
  const float by = scale.to(at::kFloat).contiguous().const_data_ptr<float>()[0];
  mx::write_bytes(y, wide / by);
  amax.fill_(wide.numel() ? wide.abs().max().item<float>() : 0);
}

void gate_and_quantize(Tensor& y, Tensor& scale, Tensor& origin, const Tensor& x, const Optional& weight,
                       const Optional& lengths, double limit, double maximum) {
  constexpr float kLeast = 1e-8f;  // of the largest number
  const auto halves = x.to(at::kFloat).chunk(2, -1);
  auto wide = limit > 0 ? at::silu(halves[0].clamp_max(limit)) * halves[1].clamp(-limit, limit)
                        : at::silu(halves[0]) * halves[1];
  wide = wide.reshape({-1, halves[0].size(-1)});
  if (weight) wide = wide * weight->to(at::kFloat).reshape({-1, 1});
  if (origin.numel()) origin.copy_(wide.view(origin.sizes()));
  wide = wide.contiguous();
  auto codes = at::zeros(wide.sizes(), wide.options().dtype(at::kByte));
  const auto* values = wide.const_data_ptr<float>();
  auto* code = codes.mutable_data_ptr<uint8_t>();
  int64_t begin = 0, group = 0;
  for (const int64_t end : places(group_ends(lengths, 0), wide.size(0))) {
    const int64_t first = begin * wide.size(1), last = end * wide.size(1);
    const float chosen = std::max(largest(values + first, last - first), kLeast) / static_cast<float>(maximum);
    scale[group++].fill_(chosen);
    for (int64_t i = first; i < last; i++) code[i] = mx::hif_encode(values[i] / chosen);
    begin = end;
  }
  y.view(at::kByte).copy_(codes.view(y.sizes()));
}

namespace require {

namespace {

constexpr int64_t kMostBlock = int64_t{1} << 30;

void group_numbers(const Tensor& t) {
  that(t.dim() == 1 && (t.scalar_type() == at::kInt || t.scalar_type() == at::kLong),
       "the numbers of the groups are not integers in one dimension");
}

}  // namespace

void mx_input(const Tensor& x, std::string_view round_mode) {
  const auto type = x.scalar_type();
  that(type == at::kFloat || type == at::kHalf || type == at::kBFloat16, "the input is not of a floating type");
  that(x.dim() > 0, "the input has no dimensions");
  that(round_mode == "rint" || round_mode == "round" || round_mode == "floor",
       "the round mode is none of rint, round and floor");
}

void mx_numbers(const Tensor& y, const char* name, at::IntArrayRef sizes) {
  const auto* format = mx::format_of(y.scalar_type());
  that(format, "a tensor of quantised numbers is of another type than those of MX blocks");
  that(!sizes.empty(), "a tensor has no dimensions");
  auto expected = sizes.vec();
  if (format->bits() == 4) {
    that(expected.back() % 2 == 0, "the last dimension is odd, float4 comes in pairs");
    expected.back() /= 2;
  }
  shape(y, name, expected);
}

void mx_scales(const Tensor& scale, const char* name, at::IntArrayRef sizes, int64_t axis, int64_t block,
               const Optional& groups) {
  const auto type = scale.scalar_type();
  that(type == at::ScalarType::Float8_e8m0fnu || type == at::kByte, "a tensor of scales is not of type float8_e8m0");
  that(block > 0 && block <= kMostBlock, "the block size is not positive, or too large");
  if (groups) group_numbers(*groups);
  auto expected = sizes.vec();
  that(axis >= -static_cast<int64_t>(expected.size()) && axis < static_cast<int64_t>(expected.size()),
       "the axis is out of range");
  auto& length = expected[at::maybe_wrap_dim(axis, static_cast<int64_t>(expected.size()))];
  length = groups ? length / (2 * block) + groups->numel() : (length + 2 * block - 1) / (2 * block);
  expected.push_back(2);
  shape(scale, name, expected);
}

void block_scales(const Tensor& scale, const Tensor& x, int64_t rows, int64_t columns, const Optional& groups) {
  rank(x, "x", 2, 3);
  that(rows > 0 && columns > 0 && std::max(rows, columns) <= kMostBlock, "a block size is not positive, or too large");
  if (groups) group_numbers(*groups);
  that(scale.scalar_type() == at::kFloat, "the scales are not float32");
  auto expected = x.sizes().vec();
  auto& height = expected[x.dim() - 2];
  height = groups ? height / rows + groups->numel() : (height + rows - 1) / rows;
  expected.back() = (expected.back() + columns - 1) / columns;
  shape(scale, "scale", expected);
}

void byte_numbers(const Tensor& y, const Tensor& x) {
  const auto type = y.scalar_type();
  that(type == at::kChar || type == at::ScalarType::Bits8 || type == at::ScalarType::Float8_e4m3fn ||
           type == at::ScalarType::Float8_e5m2,
       "y is not int8, float8 or hifloat8");
  that(x.is_floating_point() && c10::elementSize(x.scalar_type()) > 1, "x is not of a floating type");
  like(y, "y", x);
}

void castable(const Tensor& out, const Tensor& self) {
  const auto sizes = [](const Tensor& t) {
    const auto* format = mx::format_of(t.scalar_type());
    auto numbers = t.sizes().vec();
    if (format && format->bits() == 4) numbers.back() *= 2;
    return numbers;
  };
  that(sizes(out) == sizes(self), "out and self have different sizes");
}

std::vector<int64_t> gated_sizes(const Tensor& x, int64_t dim) {
  dimension(x, dim);
  auto sizes = x.sizes().vec();
  auto& length = sizes[at::maybe_wrap_dim(dim, x.dim())];
  that(length % 2 == 0, "x does not have two halves");
  length /= 2;
  return sizes;
}

}  // namespace require
}  // namespace softnpu::kernels
