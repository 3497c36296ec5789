#include "kernels/families/grouped.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <numeric>

#include "kernels/engine/bounds.h"
#include "kernels/families/quant_products.h"

namespace softnpu::kernels {

namespace {

using Maybe = std::optional<Tensor>;

Tensor wide(const Tensor& t) { return t.to(at::kFloat); }
bool integral(const Tensor& t) { return t.scalar_type() == at::kChar || t.scalar_type() == at::kInt; }

// Sums of float64 products of small integers are exact.
Tensor product(const Tensor& a, const Tensor& b) { return at::matmul(a.to(at::kDouble), b.to(at::kDouble)); }
Tensor activations(const Tensor& x) { return x.scalar_type() == at::kInt ? unpacked(x, -1) : x; }

// Of a product in float64.
Tensor dequantised(Tensor result, const Tensor& scale, const Maybe& pertoken, const Maybe& bias) {
  const bool late = bias && bias->is_floating_point();
  if (bias && !late) result = result + bias->to(at::kDouble);
  result = wide(result) * scale_of(scale);
  if (pertoken) result = result * wide(*pertoken).reshape({-1, 1});
  return late ? result + wide(*bias) : result;
}

void put(const Tensor& out, const Tensor& result) {
  if (out.scalar_type() == at::kChar)
    round_into(out, result);
  else
    out.copy_(result);
}

// `scale` for every element of a matrix of these sizes, each number for a block. A length of zero follows from the
// sizes.
Tensor spread(const Tensor& scale, int64_t rows, int64_t columns, int64_t row_block, int64_t column_block) {
  const auto repeated = [&](const Tensor& t, int64_t dim, int64_t length, int64_t block) {
    const int64_t count = t.size(dim);
    TORCH_CHECK(count > 0, "a scale without elements");
    const int64_t each = block > 0 ? block : (length + count - 1) / count;
    auto longer = at::repeat_interleave(t, each, dim);
    TORCH_CHECK(longer.size(dim) >= length, "a scale of ", count, " blocks of ", each, " does not cover ", length);
    return longer.narrow(dim, 0, length);
  };
  return repeated(repeated(wide(scale), -2, rows, row_block), -1, columns, column_block);
}

// float32 of float8, hifloat8 and float4 numbers: with MX scales, scales of blocks, or a scale for each row and column.
Tensor float_product(const Tensor& a, const Tensor& b, const Maybe& pertoken, const Tensor& scale, int64_t group_size) {
  if (is_mx(scale)) return quant_product(a, b, pertoken, scale);
  if (pertoken && pertoken->dim() >= 2 && scale.dim() >= 2) {
    const int64_t rows = group_size >> 32 & 0xFFFF, columns = group_size >> 16 & 0xFFFF, sum = group_size & 0xFFFF;
    const int64_t k = a.size(-1);
    return at::matmul(numbers_of(a) * spread(*pertoken, a.size(-2), k, rows, pertoken->size(-1) == 1 ? 0 : sum),
                      numbers_of(b) * spread(scale, k, b.size(-1), sum, columns));
  }
  const auto result = at::matmul(numbers_of(a), numbers_of(b)) * scale_of(scale);
  return pertoken ? result * wide(*pertoken).reshape({-1, 1}) : result;
}

// Scales of groups of rows of a weight, or of its columns only.
Tensor by_rows(const Tensor& t, int64_t rows, int64_t group) {
  const auto values = scale_of(t);
  if (values.dim() < 2 || values.size(-2) <= 1) return values;
  return spread(values, rows, values.size(-1), group, 1);
}

// The weight that int8 or int4 numbers stand for.
Tensor antiquantised(const Tensor& weight, int64_t k, const Tensor& scale, const Maybe& offset, int64_t group) {
  auto numbers = wide(integers(weight, k));
  if (offset) numbers = numbers + by_rows(*offset, k, group);
  return numbers * by_rows(scale, k, group);
}

// int8 rows by an int4 weight: the hardware takes a row's upper and lower half one by one, and the lower one less
// eight. A bias of eight times the sum of the scaled weight makes up for that.
Tensor a8w4(const Tensor& x, const Tensor& weight, const Tensor& scale, const Maybe& bias, const Maybe& pertoken) {
  TORCH_CHECK(bias, "int8 by int4 needs a bias");
  auto result = at::matmul(wide(x) - 8, antiquantised(weight, x.size(-1), scale, std::nullopt, 0)) + wide(*bias);
  return pertoken ? result * wide(*pertoken).reshape({-1, 1}) : result;
}

Maybe part(const List& list, int64_t i, bool stacked) {
  if (list.empty()) return std::nullopt;
  return stacked ? list.at(0).select(0, i) : list.at(i);
}

Tensor needed(const Maybe& t, const char* name) {
  TORCH_CHECK(t, "integers need argument '", name, "'");
  return *t;
}

Tensor activated(const Tensor& x, int64_t type) {
  switch (type) {
    case 0:
      return x;
    case 1:
      return at::relu(x);
    case 2:
      return at::gelu(x, "tanh");
    case 4:
      return x * at::sigmoid(x * 1.702);
    case 5:
      return at::silu(x);
    default:
      TORCH_CHECK(false, "act_type ", type);
  }
}

// One group's product, not yet rounded.
Tensor group_product(const Tensor& x, int64_t i, bool stacked, const Grouped& g, const Maybe& pertoken) {
  const auto weight = *part(g.weight, i, stacked);
  const auto bias = part(g.bias, i, stacked), scale = part(g.scale, i, stacked);
  if (!integral(x) && x.element_size() == 1) {
    const auto result = float_product(x, weight, pertoken, needed(scale, "scale"), 0);
    return bias ? result + wide(*bias) : result;
  }
  const auto numbers = activations(x);
  if (integral(x)) {
    if (x.scalar_type() == at::kChar && weight.scalar_type() == at::kInt && scale)
      return a8w4(numbers, weight, *scale, bias, pertoken);
    const auto whole = integers(weight, numbers.size(-1));
    if (!scale) {
      const auto sum = product(numbers, whole);
      return bias ? sum + bias->to(at::kDouble) : sum;
    }
    if (scale->dim() == 2 && scale->size(0) > 1) {  // by groups of the sum
      auto result = at::matmul(wide(numbers), wide(whole) * by_rows(*scale, numbers.size(-1), 0));
      return pertoken ? result * wide(*pertoken).reshape({-1, 1}) : result;
    }
    auto result = dequantised(product(numbers, whole), *scale, pertoken, bias);
    const auto offset = offset_of(part(g.offset, i, stacked), *scale);
    return offset ? result + *offset : result;
  }
  auto matrix = integral(weight)
                    ? antiquantised(weight, x.size(-1), needed(part(g.antiquant_scale, i, stacked), "antiquant_scale"),
                                    part(g.antiquant_offset, i, stacked), 0)
                    : wide(weight);
  auto result = at::matmul(wide(numbers), matrix);
  if (scale) result = result * scale_of(*scale);
  if (pertoken) result = result * wide(*pertoken).reshape({-1, 1});
  return bias ? result + wide(*bias) : result;
}

Tensor ffn_activation(const Tensor& x, const std::string& name) {
  if (name == "relu") return at::relu(x);
  if (name == "gelu") return at::gelu(x);
  if (name == "fastgelu") return x * at::sigmoid(x * 1.702);
  if (name == "silu") return at::silu(x);
  const auto parts = x.chunk(2, -1);
  if (name == "geglu") return parts.at(0) * at::gelu(parts.at(1));
  if (name == "swiglu") return at::silu(parts.at(0)) * parts.at(1);
  TORCH_CHECK(name == "reglu", "activation ", name);
  return parts.at(0) * at::relu(parts.at(1));
}

Maybe row(const Maybe& t, int64_t expert) { return t && expert >= 0 ? Maybe(t->select(0, expert)) : t; }

Tensor layer(const Tensor& x, const Expert& e, int64_t expert) {
  const auto weight = expert >= 0 ? e.weight.select(0, expert) : e.weight;
  const auto bias = row(e.bias, expert);
  if (integral(x))
    return dequantised(product(x, weight), needed(row(e.scale, expert), "deq_scale"), std::nullopt, bias);
  const auto result = at::matmul(
      x, integral(weight) ? antiquantised(weight, x.size(-1), needed(row(e.antiquant_scale, expert), "antiquant_scale"),
                                          row(e.antiquant_offset, expert), 0)
                          : wide(weight));
  return bias ? result + wide(*bias) : result;
}

}  // namespace

void quant_matmul(Tensor& out, const Tensor& x1, const Tensor& x2, const Maybe& pertoken, const Tensor& scale,
                  const Maybe& offset, const Maybe& bias, bool transpose1, bool transpose2, int64_t group_size) {
  if (!integral(x1)) {
    const auto result = float_product(transpose1 ? x1.transpose(-1, -2) : x1, transpose2 ? x2.transpose(-1, -2) : x2,
                                      pertoken, scale, group_size);
    return void(out.copy_(bias ? result + wide(*bias) : result));
  }
  const auto a = activations(transpose1 ? x1.transpose(-1, -2) : x1);
  const int64_t m = a.size(-2), k = a.size(-1);
  const auto b = integers(transpose2 ? x2.transpose(-1, -2) : x2, k);
  if (pertoken && pertoken->dim() >= 2 && scale.dim() >= 2) {
    const int64_t rows = group_size >> 32 & 0xFFFF, columns = group_size >> 16 & 0xFFFF, sum = group_size & 0xFFFF;
    auto result = at::matmul(a.to(at::kDouble) * spread(*pertoken, m, k, rows, pertoken->size(-1) == 1 ? 0 : sum),
                             b.to(at::kDouble) * spread(scale, k, b.size(-1), sum, columns));
    return put(out, wide(bias ? result + bias->to(at::kDouble) : result));
  }
  auto sums = product(a, b);
  if (out.scalar_type() == at::kInt) return void(out.copy_(bias ? sums + bias->to(at::kDouble) : sums));
  auto result = dequantised(sums, scale, pertoken, bias);
  const auto shift = offset_of(offset, scale);
  put(out, shift && out.scalar_type() == at::kChar ? result + *shift : result);
}

void quant_matmul_reduce_sum(Tensor& out, const Tensor& x1, const Tensor& x2, const Maybe& x1_scale,
                             const Maybe& x2_scale) {
  auto result = wide(product(x1, x2));
  if (x1_scale) result = result * wide(*x1_scale).unsqueeze(-1);
  if (x2_scale) result = result * wide(*x2_scale);
  out.copy_(result.sum(0));
}

void weight_quant_matmul(Tensor& out, const Tensor& x, const Tensor& weight, const Tensor& scale, const Maybe& offset,
                         const Maybe& quant_scale, const Maybe& quant_offset, const Maybe& bias, int64_t group_size) {
  auto result = at::matmul(wide(x), antiquantised(weight, x.size(-1), scale, offset, group_size));
  if (bias) result = result + wide(*bias);
  if (quant_scale) {
    result = result * scale_of(*quant_scale);
    if (const auto shift = offset_of(quant_offset, *quant_scale)) result = result + *shift;
  }
  put(out, result);
}

void quant_matmul_dequant(Tensor& out, const Tensor& x, const Tensor& weight, const Tensor& weight_scale,
                          const Maybe& groups, const Maybe& bias, const Maybe& x_scale, const Maybe& smooth,
                          const std::string& mode) {
  auto numbers = smooth ? wide(x) * wide(*smooth) : wide(x);
  Tensor factor;
  if (x_scale)
    factor = wide(*x_scale).reshape({-1, 1});
  else
    factor = mode == "pertensor" ? numbers.abs().amax().view({1, 1}) / 127 : numbers.abs().amax(-1, true) / 127;
  factor = factor.expand({x.size(0), 1});
  const auto whole = (numbers / at::where(factor == 0, 1.0, factor)).round().clamp(-128, 127);
  const auto rows = [&](const Rows& r, const Tensor& w, const Tensor& scale, const Maybe& b) {
    const int64_t count = r.end - r.begin;
    out.narrow(0, r.begin, count)
        .copy_(
            dequantised(product(whole.narrow(0, r.begin, count), w.t()), scale, factor.narrow(0, r.begin, count), b));
  };
  if (!groups) return rows({0, 0, x.size(0)}, weight, weight_scale, bias);
  out.zero_();
  for (const auto& r : groups_of(*groups, 0, x.size(0)))
    rows(r, weight.select(0, r.group), weight_scale.select(0, r.group), row(bias, r.group));
}

void quant_convolution(Tensor& out, const Tensor& input, const Tensor& weight, const Maybe& bias, const Tensor& scale,
                       const Maybe& offset, IntArrayRef strides, IntArrayRef pads, IntArrayRef dilations,
                       int64_t groups) {
  const auto sums = at::conv2d(input.to(at::kDouble), weight.to(at::kDouble),
                               bias ? Maybe(bias->to(at::kDouble)) : std::nullopt, strides, pads, dilations, groups);
  auto result = wide(sums) * scale_of(scale).view({-1, 1, 1});
  const auto shift = offset_of(offset, scale);
  put(out, shift && out.scalar_type() == at::kChar ? result + shift->view({-1, 1, 1}) : result);
}

void check_groups(const Optional& group_list, int64_t kind, int64_t rows, int64_t count) {
  if (!group_list) return;
  if (kind == 0) return bounds::ascending(group_list->flatten(), "group_list", rows);
  if (kind == 1) return bounds::lengths_within(group_list->flatten(), "group_list", rows);
  TORCH_CHECK(group_list->dim() == 2 && group_list->size(1) == 2, "group_list must have pairs of group and size");
  bounds::within(group_list->select(1, 0), "group_list", 0, count - 1);
  bounds::lengths_within(group_list->select(1, 1), "group_list", rows);
}

int64_t rows_of(const List& x, int64_t group_type) {
  if (group_type == 2) return x.at(0).size(-1);
  return std::accumulate(x.begin(), x.end(), int64_t{0}, [](int64_t sum, const Tensor& t) { return sum + t.size(0); });
}

int64_t count_of(const List& weight) {
  return weight.size() == 1 && weight[0].dim() == 3 ? weight[0].size(0) : static_cast<int64_t>(weight.size());
}

Optional listed(IntArrayRef ends) { return ends.empty() ? Optional() : at::tensor(ends, at::kLong); }

void grouped_matmul(List& out, const Grouped& g, const Maybe& group_list, int64_t kind, int64_t group_type,
                    int64_t activation) {
  const bool stacked = g.weight.size() == 1 && g.weight[0].dim() == 3;
  const auto finish = [&](const Tensor& to, const Tensor& result) {
    if (to.numel() > 0) put(to, result.scalar_type() == at::kDouble ? result : activated(result, activation));
  };
  if (group_type == 2) {  // the sum is divided
    TORCH_CHECK(group_list, "group_list is missing");
    const auto &x = g.x.at(0), &weight = g.weight.at(0);
    for (const auto& [i, begin, end] : groups_of(*group_list, kind, x.size(1)))
      finish(out.at(0).select(0, i),
             at::matmul(wide(x.narrow(1, begin, end - begin)), wide(weight.narrow(0, begin, end - begin))));
    return;
  }
  const int64_t count = count_of(g.weight);
  if (g.x.size() == 1 && group_list) {  // rows are divided
    const auto& x = g.x[0];
    if (out.size() == 1) out[0].zero_();
    for (const auto& [i, begin, end] : groups_of(*group_list, kind, x.size(0))) {
      const int64_t rows = end - begin;
      const auto to = out.size() == 1 ? out[0].narrow(0, begin, rows) : out.at(i);
      if (rows == 0 || i >= count) continue;
      const auto of_rows = [&](const Tensor& t) { return (is_mx(t) ? t : t.flatten()).narrow(0, begin, rows); };
      const auto pertoken = g.per_token_scale.empty() ? Maybe() : Maybe(of_rows(g.per_token_scale[0]));
      finish(to, group_product(x.narrow(0, begin, rows), i, stacked, g, pertoken));
    }
    return;
  }
  int64_t begin = 0;
  for (size_t i = 0; i < g.x.size(); i++) {
    const auto result = group_product(g.x[i], i, stacked, g, part(g.per_token_scale, i, false));
    const bool joined = out.size() == 1 && g.x.size() > 1;
    finish(joined ? out[0].narrow(0, begin, result.size(0)) : out.at(i), result);
    begin += result.size(0);
  }
}

void grouped_matmul_add(Tensor& self, const Tensor& x, const Tensor& weight, const Tensor& group_list, int64_t kind) {
  const auto dense = self.contiguous();
  const auto blocks = dense.view({-1, x.size(1), weight.size(1)});
  for (const auto& [i, begin, end] : groups_of(group_list, kind, x.size(0))) {
    const auto block = blocks.select(0, i);
    const int64_t rows = end - begin;
    block.copy_(wide(block) + at::matmul(wide(x.narrow(0, begin, rows)).t(), wide(weight.narrow(0, begin, rows))));
  }
  if (!self.is_same(dense)) self.copy_(dense);
}

void grouped_matmul_swiglu_quant(Tensor& out, Tensor& out_scale, const Tensor& x, const Tensor& weight,
                                 const Maybe& bias, const Tensor& weight_scale, const Tensor& x_scale,
                                 const Tensor& group_list, int64_t kind) {
  const List none;
  const List xs{x}, weights{weight}, scales{weight_scale}, pertoken{x_scale};
  const List biases = bias ? List{*bias} : none;
  auto joined = at::zeros({x.size(0), out.size(1) * 2}, at::kFloat);
  List results{joined};
  grouped_matmul(results, {xs, weights, biases, scales, none, none, none, pertoken}, group_list, kind, 0, 0);
  const auto parts = joined.chunk(2, -1);
  dynamic_quant(out, out_scale, std::nullopt, at::silu(parts[0]) * parts[1], std::nullopt, std::nullopt);
}

void grouped_matmul_finalize_routing(Tensor& out, const Tensor& x, const Tensor& weight, const Maybe& scale,
                                     const Maybe& bias, const Maybe& pertoken, const Tensor& group_list,
                                     const Maybe& shared_input, const Maybe& logit, const Maybe& row_index,
                                     double shared_weight, int64_t shared_offset, int64_t kind) {
  const auto listed = [](const Maybe& t) { return t ? List{*t} : List(); };
  const List none, xs{x}, weights{weight}, scales = listed(scale), biases = listed(bias), tokens = listed(pertoken);
  auto joined = at::zeros({x.size(0), out.size(1)}, at::kFloat);
  List results{joined};
  grouped_matmul(results, {xs, weights, biases, scales, none, none, none, tokens}, group_list, kind, 0, 0);
  if (logit) joined.mul_(wide(*logit).reshape({-1, 1}));
  auto sums = at::zeros(out.sizes(), at::kFloat);
  if (shared_input) sums.narrow(0, shared_offset, shared_input->size(0)).add_(wide(*shared_input) * shared_weight);
  if (row_index)
    sums.index_add_(0, row_index->to(at::kLong).flatten(), joined);
  else
    sums.add_(joined);
  out.copy_(sums);
}

void ffn(Tensor& out, const Tensor& x, const Expert& first, const Expert& second, const Maybe& scale,
         const Maybe& offset, IntArrayRef tokens, bool ends, const std::string& activation) {
  const auto whole = [&](const Tensor& rows, int64_t expert) {
    auto hidden = ffn_activation(layer(integral(rows) ? rows : wide(rows), first, expert), activation);
    if (integral(rows)) {  // quantised again, for the second product
      if (const auto s = row(scale, expert)) hidden = hidden * wide(*s);
      if (const auto o = row(offset, expert)) hidden = hidden + wide(*o);
      hidden = hidden.round().clamp(-128, 127).to(at::kChar);
    }
    return layer(hidden, second, expert);
  };
  if (tokens.empty()) return void(out.copy_(whole(x, -1)));
  const auto rows = x.reshape({-1, x.size(-1)});
  auto results = at::zeros({rows.size(0), out.size(-1)}, at::kFloat);
  for (const auto& [i, begin, end] : groups_of(at::tensor(tokens, at::kLong), ends ? 0 : 1, rows.size(0)))
    if (end > begin) results.narrow(0, begin, end - begin).copy_(whole(rows.narrow(0, begin, end - begin), i));
  out.copy_(results.view(out.sizes()));
}

void transpose_batch_matmul(Tensor& out, const Tensor& x, const Tensor& weight, const Maybe& scale, IntArrayRef perm1,
                            IntArrayRef perm2, int64_t split) {
  auto result = at::matmul(wide(x.permute(perm1)), wide(weight.permute(perm2))).permute({1, 0, 2});  // [M, B, N]
  if (scale) {
    result = result.reshape({result.size(0), 1, -1}) * scale_of(*scale);
    if (const auto shift = offset_of(std::nullopt, *scale)) result = result + *shift;
  } else if (split > 1) {
    result = result.reshape({result.size(0), split, -1}).permute({1, 0, 2});
  }
  put(out, result);
}

void fused_matmul(Tensor& out, const Tensor& x, const Tensor& x2, const Maybe& bias, const Maybe& x3,
                  const std::string& type) {
  auto result = at::matmul(wide(x), wide(x2));
  if (bias) result = result + wide(*bias);
  if (type == "add") result = result + wide(x3.value());
  if (type == "mul") result = result * wide(x3.value());
  if (type == "gelu_erf") result = at::gelu(result);
  if (type == "gelu_tanh") result = at::gelu(result, "tanh");
  if (type == "relu") result = at::relu(result);
  out.copy_(result);
}

}  // namespace softnpu::kernels
