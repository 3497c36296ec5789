#include "kernels/families/quant.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>

#include <numeric>

#include "kernels/engine/rows.h"

namespace softnpu::kernels {

namespace {

struct Limits {
  double least, most;
};

bool is_packed(const Tensor& out, const Tensor& x) {
  return out.scalar_type() == at::kInt && out.numel() * 8 == x.numel() && out.numel() > 0;
}

Limits limits(const Tensor& out, const Tensor& x) {
  if (is_packed(out, x)) return {-8, 7};
  switch (out.scalar_type()) {
    case at::kChar:
      return {-128, 127};
    case at::kByte:
      return {0, 255};
    case at::kInt:
      return {-2147483648.0, 2147483647.0};
    default:
      TORCH_CHECK(false, "quantised numbers are int8, uint8 or int32, not ", out.scalar_type());
  }
}

Tensor wide(const Tensor& t) { return t.to(at::kFloat); }
Tensor or_one(const Tensor& scale) { return at::where(scale == 0, 1.0, scale); }  // a row of zeros

std::array<Tensor, 2> halves(const Tensor& x, bool left) {
  auto parts = x.chunk(2, -1);
  return {parts[left ? 0 : 1], parts[left ? 1 : 0]};  // the gate first
}

Tensor swiglu(const Tensor& x, bool left) {
  const auto [gate, other] = halves(x, left);
  return at::silu(gate) * other;
}

void dynamic_quant_rows(Tensor& out, Tensor& scale, const Tensor& x, const std::optional<Tensor>& smooth) {
  const int64_t n = x.size(-1), count = x.numel() / n;
  const auto factors = smooth ? wide(*smooth).contiguous() : Tensor();
  const auto scales = at::empty({count}, at::kFloat);
  rows::with_type(x.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.const_data_ptr<T>();
    auto* to = out.mutable_data_ptr<int8_t>();
    auto* scale_of = scales.mutable_data_ptr<float>();
    const float* smooth_by = smooth ? factors.const_data_ptr<float>() : nullptr;
    rows::in_parallel(count, n, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++)
        scale_of[i] = rows::loops<T>().dynamic_quant(to + i * n, from + i * n, smooth_by, 127, n);
    });
  });
  scale.copy_(scales.view(scale.sizes()));
}

}  // namespace

Tensor unpacked(const Tensor& t, int64_t dim) {
  const auto rows = t.transpose(dim, -1);
  const auto shifts = at::arange(0, 32, 4, at::kInt);
  const auto numbers = rows.unsqueeze(-1).bitwise_right_shift(shifts).bitwise_and(15).flatten(-2);
  return at::where(numbers > 7, numbers - 16, numbers).to(at::kChar).transpose(dim, -1);
}

Tensor packed(const Tensor& numbers) {
  const auto shifts = at::arange(0, 32, 4, at::kLong);
  const auto places = numbers.to(at::kLong).bitwise_and(15).unflatten(-1, {-1, 8});
  return places.bitwise_left_shift(shifts).sum(-1).to(at::kInt);  // wraps to the sign
}

Tensor integers(const Tensor& t, int64_t k) {
  if (t.scalar_type() != at::kInt) return t;
  return unpacked(t, t.size(-2) == k ? -1 : -2);
}

Tensor scale_of(const Tensor& t) {
  if (t.scalar_type() != at::kLong) return wide(t);
  return t.bitwise_and(0xFFFFFFFF).to(at::kInt).view(at::kFloat);
}

std::optional<Tensor> offset_of(const std::optional<Tensor>& offset, const Tensor& scale) {
  if (scale.scalar_type() != at::kLong) return offset ? std::optional(wide(*offset)) : std::nullopt;
  const auto bits = scale.bitwise_right_shift(37).bitwise_and(0x1FF);
  return wide(at::where(bits > 255, bits - 512, bits));
}

Tensor along(const Tensor& values, const Tensor& x, int64_t axis) {
  if (values.dim() != 1 || values.numel() == 1) return wide(values);
  std::vector<int64_t> shape(x.dim(), 1);
  shape[at::maybe_wrap_dim(axis, x.dim())] = -1;
  return wide(values).view(shape);
}

void round_into(const Tensor& out, const Tensor& x) {
  const auto [least, most] = limits(out, x);
  const auto rounded = x.round().clamp(least, most);
  out.copy_(is_packed(out, x) ? packed(rounded) : rounded);
}

void trans_quant_param(Tensor& out, const Tensor& scale, const std::optional<Tensor>& offset, bool nearest) {
  auto bits = wide(scale).contiguous().view(at::kInt).to(at::kLong).bitwise_and(0xFFFFFFFF);
  // The hardware reads 19 bits of a float: cut off, or rounded to even.
  if (nearest) bits = bits + 0xFFF + bits.bitwise_right_shift(13).bitwise_and(1);
  bits = bits.bitwise_and(0xFFFFE000).bitwise_or(int64_t{1} << 46);
  if (offset) {
    const auto number = wide(*offset).round().clamp(-256, 255).to(at::kLong).bitwise_and(0x1FF);
    bits = bits.bitwise_or(number.bitwise_left_shift(37));
  }
  out.copy_(bits);
}

std::vector<Rows> groups_of(const Tensor& list, int64_t kind, int64_t rows) {
  const auto numbers = list.to(at::kLong).contiguous();
  const auto* data = numbers.const_data_ptr<int64_t>();
  const int64_t count = kind == 2 ? numbers.numel() / 2 : numbers.numel();
  std::vector<Rows> groups;
  int64_t begin = 0;
  for (int64_t i = 0; i < count; i++) {
    const int64_t end = kind == 0 ? data[i] : begin + std::max<int64_t>(data[kind == 2 ? 2 * i + 1 : i], 0);
    groups.push_back({kind == 2 ? data[2 * i] : i, begin, std::clamp(end, begin, rows)});
    begin = groups.back().end;
  }
  return groups;
}

Tensor by_groups(const Tensor& x, const std::optional<Tensor>& factors, const std::optional<Tensor>& groups,
                 int64_t kind) {
  if (!factors) return x;
  auto wide_factors = wide(*factors);
  if (!groups) return x * wide_factors;
  if (wide_factors.dim() == 1) wide_factors = wide_factors.unsqueeze(-1);  // one number for a group
  const auto rows = x.reshape({-1, x.size(-1)}).clone();
  for (const auto& [group, begin, end] : groups_of(*groups, kind, rows.size(0)))
    rows.narrow(0, begin, end - begin).mul_(wide_factors.select(0, group));
  return rows.view(x.sizes());
}

void quantize(Tensor& out, const Tensor& x, const Tensor& scales, const std::optional<Tensor>& zero_points,
              int64_t axis, bool divide) {
  const auto scale = along(scales, x, axis);
  auto result = divide ? wide(x) / scale : wide(x) * scale;
  if (zero_points) result = result + along(*zero_points, x, axis);
  round_into(out, result);
}

void anti_quant(Tensor& out, const Tensor& x, const Tensor& scale, const std::optional<Tensor>& offset) {
  auto numbers = wide(x.scalar_type() == at::kInt ? unpacked(x, -1) : x);
  if (offset) numbers = numbers + wide(*offset);
  out.copy_(numbers * wide(scale));
}

void dynamic_quant(Tensor& out, Tensor& scale, const std::optional<Tensor>& offset, const Tensor& x,
                   const std::optional<Tensor>& smooth, const std::optional<Tensor>& groups, const std::string& mode,
                   double maximum) {
  const bool by_rows = !offset && !groups && mode != "perchannel" && mode != "pertensor";
  const bool fits = out.sizes() == x.sizes() && scale.numel() * x.size(-1) == x.numel();
  if (by_rows && fits && out.scalar_type() == at::kChar && out.is_contiguous() && rows::fit(x) && x.numel() > 0 &&
      (!smooth || smooth->numel() == x.size(-1)))
    return dynamic_quant_rows(out, scale, x, smooth);
  const bool by_channels = mode == "perchannel";  // which the rows of a plane are smoothed for
  const auto numbers = by_groups(wide(x), smooth && by_channels ? smooth->unsqueeze(-1) : smooth, groups, 0);
  const bool floating = mx::is_floating_byte(out.scalar_type());
  const auto [least, most] =
      floating ? Limits{0, maximum > 0 ? maximum : mx::most_of(out.scalar_type())} : limits(out, x);
  std::vector<int64_t> dims{mode == "perchannel" ? -2 : -1};
  if (mode == "pertensor") {
    dims.resize(x.dim());
    std::iota(dims.begin(), dims.end(), 0);
  }
  if (x.numel() == 0) {
    if (offset) offset->zero_();
    return void(scale.zero_());
  }
  Tensor factor, shift;
  if (offset) {
    const auto largest = numbers.amax(dims, true);
    factor = (largest - numbers.amin(dims, true)) / (most - least);
    shift = most - largest / or_one(factor);
    offset->copy_(shift.view(offset->sizes()));
  } else {
    factor = numbers.abs().amax(dims, true) / most;
  }
  const auto scaled = numbers / or_one(factor);
  floating ? mx::write_bytes(out, scaled) : round_into(out, offset ? scaled + shift : scaled);
  scale.copy_(factor.view(scale.sizes()));
}

void group_quant(Tensor& out, const Tensor& x, const Tensor& scale, const Tensor& group_index,
                 const std::optional<Tensor>& offset) {
  auto numbers = by_groups(wide(x), scale, group_index, 0);
  if (offset) numbers = numbers + wide(*offset);
  round_into(out, numbers);
}

void gelu_quant(Tensor& out, const std::optional<Tensor>& out_scale, const Tensor& x,
                const std::optional<Tensor>& scale, const std::optional<Tensor>& offset, const std::string& approximate,
                const std::string& mode) {
  auto y = at::gelu(wide(x), approximate);
  if (mode == "dynamic") {
    TORCH_CHECK(out_scale, "out_scale is missing");
    auto factor = *out_scale;
    return dynamic_quant(out, factor, std::nullopt, y, scale, std::nullopt);
  }
  if (scale) y = y * wide(*scale);
  round_into(out, offset ? y + wide(*offset) : y);
}

void swiglu_quant(Tensor& out, Tensor& scale, const Tensor& x, const std::optional<Tensor>& smooth,
                  const std::optional<Tensor>& offsets, const std::optional<Tensor>& groups, bool left,
                  const std::string& mode, int64_t kind) {
  auto y = by_groups(swiglu(wide(x), left), smooth, groups, kind);
  if (mode == "dynamic") {
    auto factor = at::empty(scale.sizes(), at::kFloat);
    dynamic_quant(out, factor, std::nullopt, y, std::nullopt, std::nullopt);
    return void(scale.copy_(factor.reciprocal()));  // 127 / largest, unlike the other operators' scales
  }
  if (offsets) {
    auto shift = by_groups(at::ones_like(y), offsets, groups, kind);
    y = y + shift;
  }
  round_into(out, y);
  scale.zero_();
}

void dequant_swiglu_quant(Tensor& out, Tensor& scale, const Tensor& x, const std::optional<Tensor>& weight_scale,
                          const std::optional<Tensor>& activation_scale, const std::optional<Tensor>& bias,
                          const std::optional<Tensor>& quant_scale, const std::optional<Tensor>& quant_offset,
                          const std::optional<Tensor>& groups, const GatedUnit& gate, const std::string& mode) {
  auto numbers = wide(bias ? x + *bias : x);
  numbers = by_groups(numbers, weight_scale, groups, 1);
  if (activation_scale) numbers = numbers * wide(*activation_scale).view({-1, 1});
  auto y = by_groups(gated(numbers, gate), quant_scale, groups, 1);
  if (groups) {  // rows behind the last group hold nothing
    const auto spans = groups_of(*groups, 1, y.size(0));
    const int64_t end = spans.empty() ? 0 : spans.back().end;
    y.narrow(0, end, y.size(0) - end).zero_();
  }
  if (mode == "dynamic") return dynamic_quant(out, scale, std::nullopt, y, std::nullopt, std::nullopt);
  round_into(out, quant_offset ? y + wide(*quant_offset) : y);
  scale.zero_();
}

void dequant_bias(Tensor& out, const Tensor& x, const Tensor& weight_scale,
                  const std::optional<Tensor>& activation_scale, const std::optional<Tensor>& bias) {
  const bool late = bias && bias->is_floating_point();
  auto result = wide(bias && !late ? x + *bias : x) * wide(weight_scale);
  if (activation_scale) result = result * wide(*activation_scale).unsqueeze(-1);
  out.copy_(late ? result + wide(*bias) : result);
}

void quant_scatter(Tensor& self, const Tensor& indices, const Tensor& updates, const Tensor& scales,
                   const std::optional<Tensor>& zero_points, int64_t axis, int64_t quant_axis) {
  auto numbers = at::empty(updates.sizes(), self.scalar_type());
  quantize(numbers, updates, scales, zero_points, quant_axis, true);
  const int64_t dim = at::maybe_wrap_dim(axis, self.dim());
  const auto places = indices.to(at::kLong).view({-1, 1}) + at::arange(updates.size(dim));
  std::vector<int64_t> shape(self.dim(), 1);
  shape[0] = places.size(0);
  shape[dim] = places.size(1);
  self.scatter_(dim, places.view(shape).expand_as(updates), numbers);
}

Tensor normed(const Tensor& x, const Tensor& gamma, const std::optional<Tensor>& beta, double eps) {
  std::vector<int64_t> dims(gamma.dim());
  std::iota(dims.begin(), dims.end(), x.dim() - gamma.dim());
  const auto result = x * x.square().mean(dims, true).add_(eps).rsqrt_() * wide(gamma);
  return beta ? result + wide(*beta) : result;
}

void add_rms_norm_quant(std::array<Tensor, 2> out, Tensor& sum, const Tensor& x1, const Tensor& x2, const Tensor& gamma,
                        std::array<Optional, 2> scales, std::array<Optional, 2> zero_points, const Optional& beta,
                        double eps, bool divide) {
  const auto x = wide(x1) + wide(x2);
  sum.copy_(x);
  const auto y = normed(x, gamma, beta, eps);
  for (int i = 0; i < 2; i++) {
    if (scales[i])
      quantize(out[i], y, *scales[i], zero_points[i], -1, divide);
    else
      out[i].zero_();
  }
}

void add_rms_norm_dynamic_quant(std::array<Tensor, 2> out, std::array<Tensor, 2> scales, Tensor& sum, const Tensor& x1,
                                const Tensor& x2, const Tensor& gamma, std::array<Optional, 2> smooth,
                                const Optional& beta, double eps, const std::vector<uint8_t>& mask) {
  const auto x = wide(x1) + wide(x2);
  sum.copy_(x);
  const auto y = normed(x, gamma, beta, eps);
  for (size_t i = 0; i < 2; i++)
    if (i < mask.size() ? mask[i] != 0 : i == 0 || smooth[1])  // without a mask the scales tell
      dynamic_quant(out[i], scales[i], std::nullopt, y, smooth[i], std::nullopt);
}

void rms_norm_quant(Tensor& out, const Tensor& x, const Tensor& gamma, const Tensor& scale, const Optional& offset,
                    const Optional& beta, double eps, bool divide) {
  quantize(out, normed(wide(x), gamma, beta, eps), scale, offset, -1, divide);
}

}  // namespace softnpu::kernels
