#include "acl_types.h"
#include "kernels/engine/require.h"
#include "kernels/families/quant_collectives.h"
#include "runtime/address.h"
#include "runtime/error.h"
#include "runtime/groups.h"

namespace softnpu::kernels {

namespace {

bool quantised(const Tensor& t) {
  const auto type = t.scalar_type();
  return type == at::kChar || type == at::ScalarType::Float8_e4m3fn || type == at::ScalarType::Float8_e5m2 ||
         type == at::ScalarType::Bits8;
}

int64_t up(int64_t count, int64_t size) { return (count + size - 1) / size; }

}  // namespace

Collective gather(const std::string& name, const Call& call, uint64_t each) {
  const Group group = group_at(name, call.workspace);
  if (call.workspace_bytes != each * (1 + group.ranks))
    fail(ACLNN_ERR_PARAM_INVALID, "the gathered tensor does not have the rows of each of %u ranks", group.ranks);
  return {Collective::Kind::all_gather,
          group.communicator,
          call.workspace,
          static_cast<const char*>(call.workspace) + each,
          each,
          HCCL_DATA_TYPE_INT8};
}

Collective rows_to_all(const std::string& name, const Call& call, int64_t ranks, const Tensor& rows,
                       const Optional& scale, at::IntArrayRef send_counts, at::IntArrayRef recv_counts) {
  const Group group = group_at(name, call.workspace, ranks);
  if (send_counts.empty() || recv_counts.empty())
    fail(ACLNN_ERR_PARAM_INVALID, "the rows do not divide among %u ranks", group.ranks);
  const uint64_t bytes = row_bytes(rows, scale);
  return rows_to_all(group, send_counts, recv_counts, call.workspace,
                     static_cast<const char*>(call.workspace) + rows.size(0) * bytes, static_cast<int64_t>(bytes));
}

std::optional<at::ScalarType> dynamic_type(int64_t quant_mode, int64_t number) {
  if (quant_mode != 7) return std::nullopt;
  return number == ACL_FLOAT8_E5M2 ? at::ScalarType::Float8_e5m2 : at::ScalarType::Float8_e4m3fn;
}

namespace require {

void scaled_operands(const Tensor& x1, const Tensor& x2, const Optional& x1_scale, const Optional& x2_scale,
                     const Optional& bias) {
  rank(x1, "x1", 2, 3), rank(x2, "x2", 2, 2);
  const int64_t k = x1.size(-1), n = x2.size(1), m = k ? x1.numel() / k : 0;
  that(x2.size(0) == k, "x1 has other columns than x2 rows");
  that((quantised(x1) && quantised(x2)) || (!x1_scale && !x2_scale), "scales belong to int8, float8 and hifloat8");
  that((x1.scalar_type() == at::kChar) == (x2.scalar_type() == at::kChar), "int8 belongs to int8");
  that(quantised(x1) || (x1.is_floating_point() && x1.scalar_type() == x2.scalar_type()),
       "x1 and x2 are not of one floating type");
  numbers(bias, "bias", n);
  that(is_mx(x1_scale) == is_mx(x2_scale), "x1_scale and x2_scale are not both of float8_e8m0, or neither");
  if (is_mx(x1_scale)) {
    that(x1.scalar_type() != at::kChar && x1.scalar_type() != at::ScalarType::Bits8 &&
             x2.scalar_type() != at::ScalarType::Bits8,
         "scales of float8_e8m0 belong to float8");
    const int64_t pairs = up(k, 64);
    that(x1.dim() == 2, "scales of float8_e8m0 belong to matrices");
    shape(x1_scale, "x1_scale", {m, pairs, 2});
    that(x2_scale->sizes() == at::IntArrayRef({pairs, n, 2}) || x2_scale->sizes() == at::IntArrayRef({n, pairs, 2}),
         "x2_scale has no pair for each 64 rows of a column");
    return;
  }
  const auto blocked = [](const Optional& scale, int64_t rows, int64_t columns) {
    return scale && scale->sizes() == at::IntArrayRef({up(rows, 128), up(columns, 128)});
  };
  for (const auto* scale : {&x1_scale, &x2_scale})
    that(!*scale || (*scale)->scalar_type() == at::kLong ||
             ((*scale)->is_floating_point() && (*scale)->element_size() > 1),
         "a scale is not of a floating type");
  if (blocked(x1_scale, m, k) && blocked(x2_scale, k, n)) return;
  that(!x1_scale || x1_scale->numel() == 1 || x1_scale->numel() == m, "x1_scale has neither one number nor one a row");
  that(!x2_scale || x2_scale->numel() == 1 || x2_scale->numel() == n,
       "x2_scale has neither one number nor one a column");
}

int64_t gathering(Call& call, const Tensor& x1, const Optional& x1_scale, const Tensor& x2, const Tensor& y,
                  const Optional& gathered) {
  rank(y, "y", 2, 2);
  that(x1.dim() == 2 && x1.size(0) > 0 && y.size(0) % x1.size(0) == 0, "y does not have the rows of x1 of each rank");
  const int64_t ranks = y.size(0) / x1.size(0);
  shape(y, "y", {ranks * x1.size(0), x2.size(1)});
  that(y.is_floating_point() && y.element_size() > 1, "y is not of a floating type");
  if (gathered && gathered->numel()) {
    shape(gathered, "gather_out", {ranks * x1.size(0), x1.size(1)});
    that(gathered->scalar_type() == x1.scalar_type(), "gather_out has another type than x1");
  }
  scratch(call, gathered_bytes(x1, x1_scale) * (1 + ranks));
  return ranks;
}

void all_to_all_rows(Call& call, const Tensor& x1, const Tensor& x2, const Optional& x1_scale, const Tensor& out,
                     const Optional& permuted) {
  rank(x1, "x1", 2, 2), rank(x2, "x2", 2, 2);
  that(x1.size(1) > 0 && x2.size(0) % x1.size(1) == 0, "x2 does not have the columns of x1 of each rank as rows");
  const int64_t ranks = x2.size(0) / x1.size(1);
  that(ranks > 0 && x1.size(0) % ranks == 0, "the rows of x1 do not divide among the ranks");
  shape(out, "output", {x1.size(0) / ranks, x2.size(1)});
  shape(permuted, "alltoall_out", {x1.size(0) / ranks, x1.size(1) * ranks});
  that(!permuted || permuted->scalar_type() == x1.scalar_type(), "alltoall_out has another type than x1");
  that(out.is_floating_point() && out.element_size() > 1, "output is not of a floating type");
  scratch(call, 2 * x1.size(0) * row_bytes(x1, x1_scale));
}

void all_to_all_columns(Call& call, const Tensor& x1, const Tensor& x2, const Tensor& out) {
  rank(x1, "x1", 2, 2), rank(x2, "x2", 2, 2), rank(out, "output", 2, 2);
  that(x1.size(0) > 0 && out.size(0) % x1.size(0) == 0 && out.numel() == x1.size(0) * x2.size(1),
       "output does not have the rows of each rank and its part of the columns");
  that(out.is_floating_point() && out.element_size() > 1, "output is not of a floating type");
  dense(out, "output"), scratch(call, out.nbytes());
}

void fits_beside(const Optional& y, const Optional& x, const Optional& weight, const Optional& x_scale,
                 const Optional& weight_scale, bool turned) {
  that(x.has_value() == weight.has_value() && x.has_value() == y.has_value(), "mm_x, mm_weight and mm_y come together");
  if (!x) return;
  rank(*weight, "mm_weight", 2, 2), rank(*x, "mm_x", 2, 2);
  const auto matrix = turned ? weight->t() : *weight;
  scaled_operands(*x, matrix, x_scale, weight_scale, std::nullopt);
  shape(y, "mm_y", {x->size(0), matrix.size(1)});
}

void all_to_all_quantised(const Tensor& x1, const Tensor& x2, const Optional& x1_scale, const Optional& x2_scale,
                          const Optional& bias, int64_t x1_mode, int64_t x2_mode, int64_t number) {
  rank(x1, "x1", 2, 2), rank(x2, "x2", 2, 2);
  numbers(bias, "bias", x2.size(1));
  that(quantised(x2) && x2.scalar_type() != at::kChar, "x2 is not of float8");
  if (x1_mode == 7 && x2_mode == 2) {
    that(x1.is_floating_point() && x1.element_size() > 1, "x1 is not of a floating type");
    that(number == ACL_FLOAT8_E5M2 || number == ACL_FLOAT8_E4M3FN, "x1_quant_dtype is not of float8");
    numbers(x2_scale, "x2_scale", x2.size(1));
    return that(x2_scale.has_value() && !is_mx(x2_scale), "x2_scale is NULL or not floating");
  }
  that(x1_mode == 6 && x2_mode == 6, "these quant modes are not implemented");
  that(is_mx(x1_scale) && is_mx(x2_scale) && quantised(x1) && x1.scalar_type() != at::kChar &&
           x1.scalar_type() != at::ScalarType::Bits8 && x2.scalar_type() != at::ScalarType::Bits8,
       "quant mode 6 needs float8 with scales of float8_e8m0");
  that(x1.size(1) % 64 == 0, "the columns of x1 are not a multiple of 64");
  const int64_t pairs = x2.size(0) / 64, n = x2.size(1);
  shape(x1_scale, "x1_scale", {x1.size(0), x1.size(1) / 64, 2});
  that(x2_scale->sizes() == at::IntArrayRef({pairs, n, 2}) || x2_scale->sizes() == at::IntArrayRef({n, pairs, 2}),
       "x2_scale has no pair for each 64 rows of a column");
}

void quant_modes(int64_t x, int64_t weight, const Tensor& scale) {
  that((x == 1 && weight == 1) || (x == 6 && weight == 6), "these quant modes are not implemented");
  that(is_mx(scale) == (x == 6), "the scales do not fit the quant modes");
}

void axes(at::IntArrayRef list, int64_t first, int64_t second) {
  that(list.empty() || list == at::IntArrayRef({first, second}), "these all2all_axes are not implemented");
}

void grouped_rows(const Tensor& x, const Tensor& weight, const Optional& x_scale, const Optional& weight_scale,
                  at::IntArrayRef counts, at::IntArrayRef others, int64_t ranks, const Tensor& y, int64_t rows) {
  rank(x, "gmm_x", 2, 2), rank(weight, "gmm_weight", 3, 3);
  that(ranks > 0 && static_cast<int64_t>(counts.size()) == ranks * weight.size(0) && counts.size() == others.size(),
       "send_counts and recv_counts have no number for each expert of each rank");
  int64_t sum = 0, other = 0;
  for (const int64_t each : counts) that(each >= 0 && each < int64_t{1} << 40, "a count is negative"), sum += each;
  for (const int64_t each : others) that(each >= 0 && each < int64_t{1} << 40, "a count is negative"), other += each;
  that(sum == x.size(0), "send_counts do not add up to the rows of gmm_x");
  that(other == rows, "recv_counts do not add up to the rows of the result");
  that(weight.size(1) == x.size(1), "gmm_x has other columns than gmm_weight rows");
  shape(y, "y", {rows, weight.size(2)});
  that(y.is_floating_point() && y.element_size() > 1, "y is not of a floating type");
  that((quantised(x) && quantised(weight)) || (x.is_floating_point() && x.scalar_type() == weight.scalar_type()),
       "gmm_x and gmm_weight are not of one type");
  that(is_mx(x_scale) == is_mx(weight_scale), "the scales are not both of float8_e8m0, or neither");
  if (is_mx(x_scale)) {
    that(x.scalar_type() != at::kChar && x.scalar_type() != at::ScalarType::Bits8 && quantised(x) &&
             weight.scalar_type() != at::ScalarType::Bits8,
         "scales of float8_e8m0 belong to float8");
    const int64_t pairs = up(x.size(1), 64);
    shape(x_scale, "gmm_x_scale", {x.size(0), pairs, 2});
    shape(weight_scale, "gmm_weight_scale", {weight.size(0), pairs, weight.size(2), 2});
    return;
  }
  numbers(x_scale, "gmm_x_scale", 1), numbers(weight_scale, "gmm_weight_scale", 1);
}

}  // namespace require
}  // namespace softnpu::kernels
