#include "kernels/families/quant_collectives.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <numeric>

#include "kernels/families/grouped.h"
#include "runtime/address.h"

namespace softnpu::kernels {

namespace {

constexpr int64_t kSide = 128;

int64_t up(int64_t count, int64_t size) { return (count + size - 1) / size; }

bool by_blocks(const Optional& scale, int64_t rows, int64_t columns) {
  return scale && !is_mx(scale) && scale->dim() == 2 && scale->numel() > 1 &&
         !(scale->size(0) == rows && scale->size(1) == columns);
}

Tensor blocks(const Tensor& scale, int64_t rows, int64_t columns) {
  return scale_of(scale)
      .repeat_interleave(kSide, 0)
      .narrow(0, 0, rows)
      .repeat_interleave(kSide, 1)
      .narrow(1, 0, columns);
}

// MX pairs [k / 64, n, 2], or [n, k / 64, 2] of a transposed matrix.
Tensor mx_columns(const Tensor& x2, const Tensor& scale) {
  const int64_t pairs = up(x2.size(0), 64);
  const bool fits = scale.size(0) == pairs && scale.size(1) == x2.size(1);
  const bool turned = !fits || (scale.size(0) == scale.size(1) && x2.stride(0) == 1 && x2.stride(1) != 1);
  return mx::dequantized(x2.t(), turned ? scale : scale.transpose(0, 1), 32).t();
}

Tensor bytes_of(const Tensor& t) { return t.contiguous().view(at::kByte); }

Tensor row_record(const Tensor& rows, const Optional& scale) {
  const auto first = bytes_of(rows).flatten(1);
  return is_mx(scale) ? at::cat({first, bytes_of(*scale).flatten(1)}, 1) : first;
}

Tensor of_type(const Tensor& bytes, const Tensor& like, at::IntArrayRef sizes) {
  return bytes.contiguous().view(like.scalar_type()).view(sizes);
}

}  // namespace

Tensor scaled_product(const Tensor& x1, const Tensor& x2, const Optional& x1_scale, const Optional& x2_scale,
                      const Optional& bias, Bias where) {
  const auto rows = x1.flatten(0, -2);
  const int64_t m = rows.size(0), k = rows.size(1), n = x2.size(1);
  auto sizes = x1.sizes().vec();
  sizes.back() = n;
  const auto finish = [&](const Tensor& result) {
    return (bias && where == Bias::behind ? result + bias->to(at::kFloat) : result).view(sizes);
  };
  if (is_mx(x2_scale)) {
    const auto result = at::matmul(mx::dequantized(rows, *x1_scale, 32), mx_columns(x2, *x2_scale));
    return (bias ? result + bias->to(at::kFloat) : result).view(sizes);
  }
  if (by_blocks(x1_scale, m, 1) || by_blocks(x2_scale, 1, n))
    return finish(at::matmul(numbers_of(rows) * blocks(*x1_scale, m, k), numbers_of(x2) * blocks(*x2_scale, k, n)));
  const bool whole = !rows.is_floating_point() && rows.scalar_type() != at::ScalarType::Bits8;
  auto result =
      whole ? at::matmul(rows.to(at::kDouble), x2.to(at::kDouble)) : at::matmul(numbers_of(rows), numbers_of(x2));
  if (bias && where == Bias::inside) result = result + bias->to(result.scalar_type());
  result = result.to(at::kFloat);
  if (x2_scale) result = result * scale_of(*x2_scale).reshape({1, -1});
  if (x1_scale) result = result * scale_of(*x1_scale).reshape({-1, 1});
  return finish(result);
}

namespace {

// A scale of rows is gathered as they are; that of a whole matrix is the own one.
Optional of_rows(const Optional& scale) { return scale && scale->numel() > 1 ? scale : std::nullopt; }

}  // namespace

uint64_t gathered_bytes(const Tensor& x1, const Optional& scale) {
  const auto x1_scale = of_rows(scale);
  return (x1.nbytes() + (x1_scale ? x1_scale->nbytes() : 0) + 7) / 8 * 8;
}

void send_operand(const Call& call, const Tensor& x1, const Optional& scale) {
  const auto x1_scale = of_rows(scale);
  scratch(call, {static_cast<int64_t>(x1.nbytes())}, at::kByte).copy_(bytes_of(x1).flatten());
  if (x1_scale)
    scratch(call, {static_cast<int64_t>(x1_scale->nbytes())}, at::kByte, static_cast<int64_t>(x1.nbytes()))
        .copy_(bytes_of(*x1_scale).flatten());
}

void gathered_product(const Call& call, const Tensor& y, const Optional& gathered, const Tensor& x1, const Tensor& x2,
                      const Optional& x1_scale, const Optional& x2_scale, const Optional& bias) {
  const int64_t m = x1.size(0), each = static_cast<int64_t>(gathered_bytes(x1, x1_scale)), ranks = y.size(0) / m;
  const auto bytes = static_cast<int64_t>(x1.nbytes());
  for (int64_t r = 0; r < ranks; r++) {
    const int64_t at = each * (1 + r);
    const auto rows = of_type(scratch(call, {bytes}, at::kByte, at), x1, x1.sizes());
    Optional scale = x1_scale;
    if (of_rows(x1_scale))
      scale = of_type(scratch(call, {static_cast<int64_t>(x1_scale->nbytes())}, at::kByte, at + bytes).clone(),
                      *x1_scale, x1_scale->sizes());
    if (gathered && gathered->numel()) gathered->narrow(0, r * m, m).copy_(rows);
    y.narrow(0, r * m, m).copy_(scaled_product(rows, x2, scale, x2_scale, bias, Bias::inside));
  }
}

uint64_t row_bytes(const Tensor& rows, const Optional& scale) {
  const uint64_t own = rows.size(1) * rows.element_size();
  return own + (is_mx(scale) ? scale->size(1) * scale->size(2) : 0);
}

void send_rows(const Call& call, const Tensor& rows, const Optional& scale) {
  scratch(call, {rows.size(0), static_cast<int64_t>(row_bytes(rows, scale))}, at::kByte).copy_(row_record(rows, scale));
}

std::pair<Tensor, Optional> received_rows(const Call& call, const Tensor& rows, const Optional& scale, int64_t count) {
  const auto bytes = static_cast<int64_t>(row_bytes(rows, scale)), own = rows.size(1) * rows.element_size();
  const auto all = scratch(call, {count, bytes}, at::kByte, rows.size(0) * bytes);
  const auto first = of_type(all.narrow(1, 0, own), rows, {count, rows.size(1)});
  if (!is_mx(scale)) return {first, scale};
  return {first, of_type(all.narrow(1, own, bytes - own), *scale, {count, scale->size(1), 2})};
}

Tensor side_by_side(const Tensor& rows, int64_t ranks) {
  const auto bytes = rows.view(at::kByte);  // types of bits cannot be permuted by ATen
  auto sizes = bytes.sizes().vec();
  sizes[0] = bytes.size(0) / ranks;
  sizes.insert(sizes.begin(), ranks);
  const auto turned = bytes.view(sizes).transpose(0, 1).contiguous();
  return turned.flatten(1, 2).view(rows.scalar_type());
}

std::pair<Tensor, Tensor> row_quantised(const Tensor& x, at::ScalarType type) {
  const auto wide = x.to(at::kFloat);
  const double most = (type == at::ScalarType::Float8_e5m2 ? mx::kE5M2 : mx::kE4M3).most();
  const auto scale = wide.abs().amax(1) / most;
  auto out = at::empty(x.sizes(), at::TensorOptions(type));
  cast(out, at::where(scale.unsqueeze(1) == 0, at::zeros_like(wide), wide / scale.unsqueeze(1)));
  return {out, scale};
}

void all_to_all_product(const Call& call, Tensor& out, const Optional& permuted, const Tensor& x1, const Tensor& x2,
                        const Optional& bias, const Optional& x1_scale, const Optional& x2_scale,
                        std::optional<at::ScalarType> dynamic) {
  const int64_t ranks = x2.size(0) / x1.size(1);
  const auto [received, scale] = received_rows(call, x1, x1_scale, x1.size(0));
  const auto rows = side_by_side(received, ranks);
  if (permuted) permuted->copy_(rows);
  if (dynamic) {
    const auto [numbers, factors] = row_quantised(rows, *dynamic);
    return void(out.copy_(scaled_product(numbers, x2, factors, x2_scale, bias, Bias::inside)));
  }
  const auto scales = scale ? Optional(side_by_side(*scale, ranks)) : std::nullopt;
  out.copy_(scaled_product(rows, x2, scales, x2_scale, bias, Bias::behind));
}

void product_by_columns(const Call& call, const Tensor& product, const Tensor& out) {
  const int64_t ranks = out.size(0) / product.size(0);
  scratch(call, {ranks, product.size(0), out.size(1)}, out.scalar_type())
      .copy_(product.view({product.size(0), ranks, out.size(1)}).transpose(0, 1));
}

std::vector<int64_t> by_rank(at::IntArrayRef counts, int64_t ranks) {
  const int64_t experts = static_cast<int64_t>(counts.size()) / ranks;
  std::vector<int64_t> turned;
  for (int64_t r = 0; r < ranks; r++)
    for (int64_t e = 0; e < experts; e++) turned.push_back(counts[e * ranks + r]);
  return turned;
}

void reduced_product(Tensor& out, const Tensor& x1, const Tensor& x2, const Optional& x1_scale,
                     const Optional& x2_scale, const Optional& bias, const Optional& x3) {
  const auto where = bias && !bias->is_floating_point() ? Bias::inside : Bias::behind;
  const auto result = scaled_product(x1, x2, x1_scale, x2_scale, bias, where);
  out.copy_(x3 ? result + x3->to(at::kFloat) : result);
}

void reduced_weight_product(Tensor& out, const Tensor& x1, const Tensor& x2, const Tensor& scale,
                            const Optional& offset, const Optional& bias, const Optional& x3, int64_t group) {
  auto result = at::empty(out.sizes(), at::kFloat);
  weight_quant_matmul(result, x1, x2, scale, offset, std::nullopt, std::nullopt, bias, group);
  out.copy_(x3 ? result + x3->to(at::kFloat) : result);
}

void beside(const Optional& y, const Optional& x, const Optional& weight, const Optional& x_scale,
            const Optional& weight_scale, bool turned) {
  if (x)
    y->copy_(scaled_product(*x, turned ? weight->t() : *weight, x_scale, weight_scale, std::nullopt, Bias::behind));
}

namespace {

// Rows by expert, each by its matrix, as float32.
Tensor products(const Tensor& rows, const Tensor& weight, const Optional& scale, const Optional& weight_scale,
                at::IntArrayRef totals) {
  std::vector<Tensor> parts{at::empty({0, weight.size(2)}, at::kFloat)};
  int64_t at = 0;
  for (int64_t e = 0; e < weight.size(0); at += totals[e++])
    if (totals[e])
      parts.push_back(scaled_product(
          rows.narrow(0, at, totals[e]), weight[e], is_mx(scale) ? Optional(scale->narrow(0, at, totals[e])) : scale,
          is_mx(weight_scale) ? Optional((*weight_scale)[e]) : weight_scale, std::nullopt, Bias::behind));
  return at::cat(parts);
}

// The rows behind each other by the other of two orders, of counts [outer, inner].
Tensor order(at::IntArrayRef counts, int64_t inner) {
  const int64_t outer = static_cast<int64_t>(counts.size()) / inner;
  const auto key = at::arange(inner, at::kLong).repeat({outer}).repeat_interleave(at::tensor(counts, at::kLong));
  return at::argsort(key, /*stable=*/true);
}

Tensor taken(const Tensor& t, const Tensor& places) {
  return t.view(at::kByte).index_select(0, places).view(t.scalar_type());
}

}  // namespace

void grouped_from_all(const Call& call, Tensor& y, const Optional& permuted, const Tensor& x, const Tensor& weight,
                      const Optional& x_scale, const Optional& weight_scale, at::IntArrayRef recv_counts,
                      int64_t ranks) {
  const int64_t experts = weight.size(0);
  const auto [received, scale] = received_rows(call, x, x_scale, y.size(0));
  const auto places = order(recv_counts, experts);
  const auto rows = taken(received, places);
  if (permuted) permuted->copy_(rows);
  const auto totals = at::tensor(recv_counts, at::kLong).view({ranks, experts}).sum(0);
  y.copy_(products(rows, weight, is_mx(scale) ? Optional(taken(*scale, places)) : scale, weight_scale,
                   {totals.const_data_ptr<int64_t>(), static_cast<size_t>(experts)}));
}

void grouped_to_all(const Call& call, const Tensor& y, const Tensor& x, const Tensor& weight, const Optional& x_scale,
                    const Optional& weight_scale, at::IntArrayRef send_counts, int64_t ranks) {
  const int64_t experts = weight.size(0);
  const auto totals = at::tensor(send_counts, at::kLong).view({experts, ranks}).sum(1);
  const auto result =
      products(x, weight, x_scale, weight_scale, {totals.const_data_ptr<int64_t>(), static_cast<size_t>(experts)});
  scratch(call, {x.size(0), weight.size(2)}, y.scalar_type()).copy_(result.index_select(0, order(send_counts, ranks)));
}

}  // namespace softnpu::kernels
