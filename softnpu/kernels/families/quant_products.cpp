#include "kernels/families/quant_products.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "kernels/engine/require.h"
#include "kernels/families/grouped.h"

namespace softnpu::kernels {

namespace {

constexpr int64_t kBlock = 32, kPair = 2 * kBlock, kOuter = 512;

int64_t up(int64_t count, int64_t size) { return (count + size - 1) / size; }

// A weight with MX pairs [k / 64, n, 2] along its first dimension.
Tensor columns_of(const Tensor& x2, const Tensor& scale) {
  return mx::dequantized(x2.transpose(-1, -2), scale.transpose(-2, -3), kBlock).transpose(-1, -2);
}

Tensor spread(const Tensor& level0, int64_t k) {
  return level0.to(at::kFloat).repeat_interleave(kOuter, -1).narrow(-1, 0, k);
}

Tensor both_levels(const DualLevel& x) {
  const auto inner = mx::dequantized(x.numbers, x.level1, kBlock);
  return inner * spread(x.level0, inner.size(-1));
}

}  // namespace

Tensor numbers_of(const Tensor& t) {
  if (t.scalar_type() == at::ScalarType::Bits8) return mx::hif_decoded(t);
  return t.to(at::kFloat);
}

bool is_mx(const Optional& scale) { return scale && scale->scalar_type() == at::ScalarType::Float8_e8m0fnu; }

Tensor quant_product(const Tensor& x1, const Tensor& x2, const Optional& x1_scale, const Optional& x2_scale) {
  if (is_mx(x2_scale)) return at::matmul(mx::dequantized(x1, *x1_scale, kBlock), columns_of(x2, *x2_scale));
  auto result = at::matmul(numbers_of(x1), numbers_of(x2));
  if (x2_scale) result = result * scale_of(*x2_scale);
  if (x1_scale) result = result * scale_of(*x1_scale);
  return result;
}

void quant_matmul_add(Tensor& self, const Tensor& x1, const Tensor& x2, const Optional& x1_scale,
                      const Tensor& x2_scale) {
  self.copy_(self.to(at::kFloat) + quant_product(x1, x2, x1_scale, x2_scale));
}

void grouped_quant_matmul_add(Tensor& self, const Tensor& x1, const Tensor& x2, const Optional& x1_scale,
                              const Tensor& x2_scale, const Tensor& group_list, int64_t kind) {
  int64_t place = 0;  // a group's scales begin with a pair of their own
  for (const auto& [group, begin, end] : groups_of(group_list, kind, x2.size(0))) {
    const int64_t count = end - begin, pairs = up(count, kPair);
    if (count) {
      auto sum = self.select(0, group);
      const auto left = x1.narrow(1, begin, count), right = x2.narrow(0, begin, count);
      if (is_mx(x2_scale))
        quant_matmul_add(sum, left, right, x1_scale->narrow(1, place, pairs), x2_scale.narrow(0, place, pairs));
      else
        quant_matmul_add(sum, left, right, x1_scale ? Optional(x1_scale->reshape({-1})[group]) : std::nullopt,
                         x2_scale.select(0, group));
    }
    place += pairs;
  }
}

void dual_level_matmul(Tensor& out, const DualLevel& x1, const DualLevel& x2, const Optional& bias) {
  auto result = at::matmul(both_levels(x1), both_levels(x2).t());
  out.copy_(bias ? result + bias->to(at::kFloat) : result);
}

void flat_quant(Tensor& out, Tensor& scale, const Tensor& x, const Tensor& p1, const Tensor& p2, double clip,
                double maximum) {
  auto turned = x.to(at::kFloat);
  if (p2.numel()) turned = at::matmul(turned, p2.to(at::kFloat));
  turned = at::matmul(p1.to(at::kFloat), turned);
  if (out.scalar_type() != at::kInt)
    return mx_quantize(out, scale, turned.flatten(1), -1, kBlock, "rint", {maximum > 0 ? 2 : 0, maximum});
  const auto factors = turned.flatten(1).abs().amax(1) * static_cast<float>(clip) / 7;
  const auto divided = turned / factors.view({-1, 1, 1});
  round_into(out, at::where(factors.view({-1, 1, 1}) == 0, at::zeros_like(divided), divided));
  scale.copy_(factors);
}

void transpose_quant_matmul(Tensor& out, const Tensor& x1, const Tensor& x2, const Optional& x1_scale,
                            const Optional& x2_scale, bool turned) {
  Tensor result;
  if (is_mx(x2_scale)) {
    const auto right = turned ? mx::dequantized(x2, *x2_scale, kBlock).transpose(1, 2) : columns_of(x2, *x2_scale);
    result = at::matmul(mx::dequantized(x1, *x1_scale, kBlock).transpose(0, 1), right);
  } else {
    result = at::matmul(numbers_of(x1).transpose(0, 1), numbers_of(turned ? x2.transpose(1, 2) : x2));
    if (x2_scale) result = result * scale_of(*x2_scale);
    if (x1_scale) result = result * scale_of(*x1_scale).view({-1, 1});
  }
  cast(out, result.transpose(0, 1).contiguous());
}

void quant_matmul_gelu(Tensor& out, const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                       const Optional& bias, const std::string& approximate) {
  auto result = at::empty(out.sizes(), at::kFloat);
  quant_matmul(result, x1, x2, x1_scale, x2_scale, std::nullopt, bias, false, false, 0);
  out.copy_(at::gelu(result, approximate == "gelu_tanh" ? "tanh" : "none"));
}

void add_lora(Tensor& out, const Tensor& self, const Tensor& x, const Tensor& weight_b, const Tensor& indices,
              const Optional& weight_a, int64_t layer, double scale, int64_t offset, int64_t width) {
  const auto chosen = [&](const Tensor& weight) {  // [rows of x, its rows, its columns]
    const auto each = weight.select(1, layer).to(at::kFloat);
    auto none = each.sizes().vec();
    none[0] = 1;
    return at::cat({each, at::zeros(none, each.options())}).index_select(0, indices.to(at::kLong));
  };
  auto between = x.to(at::kFloat).unsqueeze(-1);
  if (weight_a) between = at::bmm(chosen(*weight_a), between);
  const auto added = at::bmm(chosen(weight_b), between).squeeze(-1) * scale;
  auto sum = self.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  sum.narrow(1, offset, width).add_(added);
  out.copy_(sum);
}

namespace require {

namespace {

bool in_bytes(const Tensor& t) {
  const auto type = t.scalar_type();
  return type == at::ScalarType::Float8_e4m3fn || type == at::ScalarType::Float8_e5m2 || type == at::ScalarType::Bits8;
}

void numbers_and_scales(const Tensor& x1, const Tensor& x2, const Optional& x1_scale, const Optional& x2_scale) {
  that(in_bytes(x1) && in_bytes(x2), "x1 and x2 are not of float8 or hifloat8");
  that(is_mx(x1_scale) == is_mx(x2_scale), "x1_scale and x2_scale are not both of float8_e8m0, or neither");
  that(!is_mx(x1_scale) || (x1.scalar_type() != at::ScalarType::Bits8 && x2.scalar_type() != at::ScalarType::Bits8),
       "hifloat8 has no scales of float8_e8m0");
  for (const auto* scale : {&x1_scale, &x2_scale})
    that(!*scale || is_mx(*scale) || (*scale)->scalar_type() == at::kLong ||
             ((*scale)->is_floating_point() && (*scale)->element_size() > 1),
         "a scale is not of a floating type");
}

}  // namespace

void quant_pair(const Tensor& x1, const Tensor& x2, const Optional& x1_scale, const Tensor& x2_scale,
                std::optional<int64_t> groups) {
  rank(x1, "x1", 2, 2), rank(x2, "x2", 2, 2);
  numbers_and_scales(x1, x2, x1_scale, x2_scale);
  const int64_t m = x1.size(0), k = x1.size(1), n = x2.size(1);
  that(x2.size(0) == k, "x1 has other columns than x2 rows");
  if (is_mx(x2_scale)) {
    const int64_t pairs = groups ? k / kPair + *groups : up(k, kPair);
    shape(x1_scale, "x1_scale", {m, pairs, 2}), shape(x2_scale, "x2_scale", {pairs, n, 2});
    return;
  }
  numbers(x1_scale, "x1_scale", groups.value_or(1));
  if (!groups) return numbers(x2_scale, "x2_scale", 1);
  rank(x2_scale, "x2_scale", 1, 2);
  that(x2_scale.size(0) == *groups && (x2_scale.dim() == 1 || x2_scale.size(1) == 1 || x2_scale.size(1) == n),
       "x2_scale has no row of 1 or n numbers for each group");
}

void matmul_scales(const Tensor& x1, const Tensor& x2, const Optional& x1_scale, const Tensor& x2_scale) {
  if (x1.scalar_type() == at::kChar || x1.scalar_type() == at::kInt) return;
  const auto in_pairs = [](const Tensor& t) { return t.scalar_type() == at::ScalarType::Float4_e2m1fn_x2; };
  if (!in_pairs(x1) && !in_pairs(x2)) numbers_and_scales(x1, x2, x1_scale, x2_scale);
  that((in_bytes(x1) || in_pairs(x1)) && (in_bytes(x2) || in_pairs(x2)), "x1 and x2 are not of float8 or float4");
  that(is_mx(x1_scale) == is_mx(x2_scale), "x1_scale and x2_scale are not both of float8_e8m0, or neither");
  if (!is_mx(x2_scale)) return that(!in_pairs(x1) && !in_pairs(x2), "float4 needs scales of float8_e8m0");
  const int64_t pairs = up(x1.size(-1) * (in_pairs(x1) ? 2 : 1), kPair);
  auto rows = x1.sizes().vec(), columns = x2.sizes().vec();
  rows.back() = pairs, rows.push_back(2);
  columns[columns.size() - 2] = pairs, columns.push_back(2);
  shape(x1_scale, "x1_scale", rows), shape(x2_scale, "x2_scale", columns);
}

void dual_level(const Tensor& x1, const Tensor& x2, const Tensor& x1_level0, const Tensor& x2_level0,
                const Tensor& x1_level1, const Tensor& x2_level1) {
  for (const auto* t : {&x1, &x2})
    that(t->dim() == 2 && t->scalar_type() == at::ScalarType::Float4_e2m1fn_x2, "x1 and x2 are not float4 matrices");
  for (const auto* t : {&x1_level1, &x2_level1}) that(is_mx(*t), "scales of level 1 are not of float8_e8m0");
  const int64_t m = x1.size(0), n = x2.size(0), k = 2 * x1.size(1);
  that(x2.size(1) == x1.size(1), "x1 and x2 have other columns");
  shape(x1_level0, "x1_level0_scale", {m, up(k, kOuter)}), shape(x2_level0, "x2_level0_scale", {up(k, kOuter), n});
  shape(x1_level1, "x1_level1_scale", {m, up(k, kPair), 2}), shape(x2_level1, "x2_level1_scale", {n, up(k, kPair), 2});
}

void kronecker(const Tensor& x, const Tensor& p1, const Tensor& p2, const Tensor& out, const Tensor& scale) {
  rank(x, "x", 3, 3);
  that(x.is_floating_point() && x.element_size() > 1, "x is not of a floating type");
  const int64_t count = x.size(0), m = x.size(1), n = x.size(2);
  shape(p1, "kronecker_p1", {m, m});
  if (out.scalar_type() == at::kInt) {
    shape(p2, "kronecker_p2", {n, n});
    that(n % 8 == 0, "the last dimension of x is not a multiple of 8");
    shape(out, "out", {count, m, n / 8}), shape(scale, "scale", {count});
    return;
  }
  if (p2.numel()) shape(p2, "kronecker_p2", {n, n});
  that(out.scalar_type() == at::ScalarType::Float4_e2m1fn_x2, "out is neither int32 nor float4_e2m1");
  mx_numbers(out, "out", {count, m * n}), mx_scales(scale, "scale", {count, m * n}, -1, kBlock);
}

void transposed_quant(const Tensor& x1, const Tensor& x2, const Optional& x1_scale, const Optional& x2_scale,
                      at::IntArrayRef perm1, at::IntArrayRef perm2, at::IntArrayRef perm_y, const Tensor& out) {
  rank(x1, "x1", 3, 3), rank(x2, "x2", 3, 3);
  const bool turned = perm2 == at::IntArrayRef({0, 2, 1});
  that(perm1 == at::IntArrayRef({1, 0, 2}) && perm_y == at::IntArrayRef({1, 0, 2}) &&
           (turned || perm2 == at::IntArrayRef({0, 1, 2})),
       "these permutations are not implemented");
  numbers_and_scales(x1, x2, x1_scale, x2_scale);
  const int64_t m = x1.size(0), batch = x1.size(1), k = x1.size(2), n = x2.size(turned ? 1 : 2);
  that(x2.size(0) == batch && x2.size(turned ? 2 : 1) == k, "x1 and x2 do not fit");
  shape(out, "out", {m, batch, n});
  if (is_mx(x2_scale)) {
    shape(x1_scale, "x1_scale", {m, batch, up(k, kPair), 2});
    const int64_t pairs = up(k, kPair);
    shape(x2_scale, "x2_scale", {batch, turned ? n : pairs, turned ? pairs : n, 2});
    return;
  }
  that(!x1_scale || x1_scale->numel() == m || x1_scale->numel() == 1, "x1_scale has neither m numbers nor one");
  shape(x2_scale, "x2_scale", {n});
}

void matmul_gelu(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                 const Optional& bias, const std::string& approximate, const Tensor& out) {
  rank(x1, "x1", 2, 6), rank(x2, "x2", 2, 6);
  that(x1.scalar_type() == x2.scalar_type() && (x1.scalar_type() == at::kChar || x1.scalar_type() == at::kInt),
       "x1 and x2 are not both of int8 or int4");
  that(approximate == "gelu_erf" || approximate == "gelu_tanh", "approximate is not gelu_erf or gelu_tanh");
  that(out.is_floating_point() && out.dim() >= 2, "out is not of a floating type");
  that(x1_scale.numel() == out.size(-2) && (x2_scale.numel() == 1 || x2_scale.numel() == out.size(-1)),
       "x1_scale has no number for each row, or x2_scale none for each column");
  that(!bias || bias->size(-1) == out.size(-1), "bias has other columns than out");
}

void lora(const Tensor& self, const Tensor& x, const Tensor& weight_b, const Tensor& indices, const Optional& weight_a,
          int64_t layer, int64_t offset, int64_t width) {
  rank(self, "self", 2, 2), rank(x, "x", 2, 2), rank(weight_b, "weight_b", 4, 4);
  that(self.is_floating_point() && x.is_floating_point() && weight_b.is_floating_point(), "a tensor is not floating");
  shape(indices, "indices", {self.size(0)});
  that(x.size(0) == self.size(0), "x has other rows than self");
  that(layer >= 0 && layer < weight_b.size(1), "layer_idx is not a layer of weight_b");
  that(offset >= 0 && width >= 0 && offset <= self.size(1) - width, "the slice is not in self");
  that(weight_b.size(2) == width, "weight_b has other rows than the slice columns");
  if (weight_a)
    shape(weight_a, "weight_a", {weight_b.size(0), weight_b.size(1), weight_b.size(3), x.size(1)});
  else
    that(x.size(1) == weight_b.size(3), "x has other columns than weight_b");
}

}  // namespace require
}  // namespace softnpu::kernels
