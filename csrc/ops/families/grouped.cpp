#include "ops/families/grouped.h"

#include <ATen/ExpandUtils.h>

namespace npu::ops {

using results::Dims;
using results::Result;

namespace {

constexpr const char* kGrouped = "npu_grouped_matmul";

c10::SymInt sum_length(const Tensor& x) { return x.scalar_type() == at::kInt ? x.sym_size(-1) * 8 : x.sym_size(-1); }

bool is_stacked(at::TensorList weight) { return weight.size() == 1 && weight[0].dim() == 3; }

}  // namespace

c10::SymInt columns_of(const char* op, const Tensor& weight, const c10::SymInt& k) {
  // Rows of float4 depend on a type that the caller names: GroupedProduct compares them.
  if (weight.element_size() == 1 && weight.scalar_type() != at::kChar) return weight.sym_size(-1);
  TORCH_CHECK(weight.dim() >= 2, op, ": weight has ", weight.dim(), " dimensions, expected 2 or 3");
  if (weight.scalar_type() != at::kInt) {
    TORCH_CHECK(weight.sym_size(-2) == k, op, ": x has ", k, " columns, weight has ", weight.sym_size(-2), " rows");
    return weight.sym_size(-1);
  }
  if (weight.sym_size(-2) == k) return weight.sym_size(-1) * 8;
  TORCH_CHECK(weight.sym_size(-2) * 8 == k, op, ": x has ", k, " columns, weight has ", weight.sym_size(-2),
              " rows of int4 in int32");
  return weight.sym_size(-1);
}

void check_grouped_matmul(at::TensorList x, at::TensorList weight, const Grouping& g) {
  TORCH_CHECK(!x.empty() && !weight.empty(), kGrouped, ": x and weight must not be empty lists");
  TORCH_CHECK(g.split_item >= 0 && g.split_item <= 3, kGrouped, ": split_item is ", g.split_item, ", expected 0 to 3");
  TORCH_CHECK(g.type == -1 || g.type == 0 || g.type == 2, kGrouped, ": group_type is ", g.type,
              ", expected -1, 0 or 2");
  TORCH_CHECK(g.list_type >= 0 && g.list_type <= 2, kGrouped, ": group_list_type is ", g.list_type,
              ", expected 0, 1 or 2");
  TORCH_CHECK(g.activation >= 0 && g.activation <= 5 && g.activation != 3, kGrouped, ": act_type is ", g.activation,
              ", expected 0, 1, 2, 4 or 5");
  const bool joined = g.split_item >= 2;
  if (g.type == 2) {
    TORCH_CHECK(x.size() == 1 && x[0].dim() == 2, kGrouped, ": group_type 2 takes one x of two dimensions");
    TORCH_CHECK(joined && weight.size() == 1 && g.by_tensor, kGrouped,
                ": group_type 2 takes one weight, a group_list, and split_item 2 or 3");
    return;
  }
  TORCH_CHECK(!g.by_tensor || joined, kGrouped,
              ": group_list as a tensor needs split_item 2 or 3; lengths of single results would have to be read back");
  TORCH_CHECK(g.type == -1 || x.size() > 1 || g.by_tensor || g.ends, kGrouped, ": group_list is missing");
  const size_t groups = is_stacked(weight) ? 0 : weight.size();
  TORCH_CHECK(groups == 0 || x.size() == groups || (x.size() == 1 && (g.by_tensor || g.ends)), kGrouped, ": ", x.size(),
              " groups of rows, but ", groups, " weights");
  TORCH_CHECK(!is_stacked(weight) || x.size() == 1, kGrouped, ": one weight of three dimensions takes one x");
  if (is_stacked(weight) && g.list_length)
    TORCH_CHECK(*g.list_length == weight[0].sym_size(0) || g.list_type == 2, kGrouped, ": group_list has ",
                *g.list_length, " groups, weight ", weight[0].sym_size(0));
}

void check_quantised_experts(at::TensorList x, at::TensorList weight, const std::optional<at::TensorList>& bias,
                             const std::optional<at::TensorList>& scale,
                             const std::optional<at::TensorList>& antiquant_scale) {
  const auto is_integer = [](const Tensor& t) { return t.scalar_type() == at::kChar || t.scalar_type() == at::kInt; };
  for (const auto& each : x)
    check_type(kGrouped, "x", each, {at::kHalf, at::kBFloat16, at::kFloat, at::kChar, at::kInt});
  for (const auto& each : weight)
    check_type(kGrouped, "weight", each, {at::kHalf, at::kBFloat16, at::kFloat, at::kChar, at::kInt});
  if (is_integer(x[0])) {
    TORCH_CHECK(is_integer(weight[0]), kGrouped, ": x of integers needs a weight of integers, not ",
                weight[0].scalar_type());
    TORCH_CHECK(x[0].scalar_type() != at::kChar || weight[0].scalar_type() != at::kInt || (given(scale) && given(bias)),
                kGrouped,
                ": x of int8 by int4 weights needs scale, and a bias of 8 times the sum of the scaled weight");
    TORCH_CHECK(x[0].scalar_type() != at::kInt || weight[0].scalar_type() == at::kInt, kGrouped,
                ": x of int4 needs weights of int4");
  } else {
    TORCH_CHECK(!is_integer(weight[0]) || given(antiquant_scale), kGrouped,
                ": a weight of integers needs antiquant_scale, or x of integers");
  }
}

std::vector<Result> grouped_results(at::TensorList x, at::TensorList weight, const Grouping& g, at::ScalarType dtype) {
  const bool joined = g.split_item >= 2;
  std::vector<Result> made;
  if (g.type == 2) return {{Dims{*g.list_length, x[0].sym_size(0), weight[0].sym_size(-1)}, dtype}};
  if (joined) {
    c10::SymInt rows = 0;
    for (const auto& each : x) rows = rows + each.sym_size(0);
    return {{Dims{rows, columns_of(kGrouped, weight[0], sum_length(x[0]))}, dtype}};
  }
  if (x.size() == 1 && g.ends) {
    int64_t before = 0;
    for (size_t i = 0; i < g.ends->size(); i++) {
      const int64_t end = (*g.ends)[i];
      TORCH_CHECK(end >= before, kGrouped, ": group_list must not fall");
      made.push_back(
          {Dims{end - before, columns_of(kGrouped, weight[is_stacked(weight) ? 0 : i], sum_length(x[0]))}, dtype});
      before = end;
    }
    return made;
  }
  for (size_t i = 0; i < x.size(); i++)
    made.push_back(
        {results::with_dim(x[i], -1, columns_of(kGrouped, weight[is_stacked(weight) ? 0 : i], sum_length(x[i]))),
         dtype});
  return made;
}

at::ScalarType grouped_type(at::TensorList x, std::optional<int64_t> output_dtype) {
  TORCH_CHECK(!x.empty(), kGrouped, ": x is an empty list");
  return type_of(kGrouped, "output_dtype", output_dtype, x[0].scalar_type(),
                 {at::kHalf, at::kBFloat16, at::kFloat, at::kInt, at::kChar});
}

void check_grouped_add(const char* op, const Tensor& input, const Tensor& x, const Tensor& weight,
                       const Tensor& group_list, bool transpose_x, bool transpose_weight, int64_t group_type,
                       std::optional<int64_t> list_type) {
  refuse(op, {{"transpose_x", !transpose_x}, {"transpose_weight", transpose_weight}, {"group_type", group_type != 2}});
  check_mode(op, "group_list_type", list_type.value_or(0));
  TORCH_CHECK(x.dim() == 2 && weight.dim() == 2 && group_list.dim() == 1, op,
              ": x and weight must have 2 dimensions, group_list 1");
  TORCH_CHECK(x.sym_size(0) == weight.sym_size(0), op, ": x has ", x.sym_size(0), " rows, weight ", weight.sym_size(0));
  TORCH_CHECK(input.sym_numel() == group_list.sym_size(0) * x.sym_size(1) * weight.sym_size(1), op, ": input has ",
              input.sym_numel(), " elements, expected a matrix of ", x.sym_size(1), " x ", weight.sym_size(1),
              " for each of ", group_list.sym_size(0), " groups");
}

void check_experts(const char* op, const Tensor& x, const Tensor& weight, const Tensor& group_list, int64_t list_type,
                   const std::optional<Tensor>& bias) {
  check_type(op, "x", x, {at::kChar});
  check_type(op, "weight", weight, {at::kChar, at::kInt});
  check_mode(op, "group_list_type", list_type);
  TORCH_CHECK(x.dim() == 2 && weight.dim() == 3 && group_list.dim() == 1, op,
              ": x must have 2 dimensions, weight 3 and group_list 1");
  TORCH_CHECK(group_list.sym_size(0) == weight.sym_size(0), op, ": group_list has ", group_list.sym_size(0),
              " groups, weight ", weight.sym_size(0));
  TORCH_CHECK(weight.scalar_type() != at::kInt || bias, op,
              ": int4 weights need a bias of 8 times the sum of the scaled weight");
}

void check_ffn(const Tensor& x, const Tensor& weight1, const Tensor& weight2, c10::string_view activation,
               const at::OptionalIntArrayRef& tokens, const at::OptionalIntArrayRef& ends,
               const std::optional<Tensor>& deq_scale1, const std::optional<Tensor>& deq_scale2,
               const std::optional<Tensor>& antiquant_scale1, const std::optional<Tensor>& antiquant_scale2) {
  const char* op = "npu_ffn";
  check_one_of(op, "activation", activation, {"fastgelu", "gelu", "relu", "silu", "geglu", "swiglu", "reglu"});
  TORCH_CHECK(!tokens || !ends, op, ": give expert_tokens or expert_tokens_index, not both");
  const int64_t dim = tokens || ends ? 3 : 2;
  TORCH_CHECK(x.dim() >= 2 && weight1.dim() == dim && weight2.dim() == dim, op,
              ": x must have at least 2 dimensions, weight1 and weight2 ", dim);
  TORCH_CHECK(x.sym_size(-1) == weight1.sym_size(-2), op, ": x has ", x.sym_size(-1), " columns, weight1 has ",
              weight1.sym_size(-2), " rows");
  const bool integer_x = x.scalar_type() == at::kChar, integer_weight = weight1.scalar_type() == at::kChar;
  TORCH_CHECK(!integer_x || (deq_scale1 && deq_scale2), op, ": x of int8 needs deq_scale1 and deq_scale2");
  TORCH_CHECK(integer_x || !integer_weight || (antiquant_scale1 && antiquant_scale2), op,
              ": weights of int8 need antiquant_scale1 and antiquant_scale2");
}

at::DimVector permutation(const char* argument, const at::OptionalIntArrayRef& perm, at::IntArrayRef otherwise,
                          std::initializer_list<std::array<int64_t, 3>> accepted) {
  const auto chosen = perm && !perm->empty() ? *perm : otherwise;
  for (const auto& each : accepted)
    if (chosen == at::IntArrayRef(each)) return at::DimVector(chosen.begin(), chosen.end());
  TORCH_CHECK(false, "npu_transpose_batchmatmul: ", argument, " is ", chosen, ", which is not supported");
}

Result transposed_product(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& scale,
                          const at::OptionalIntArrayRef& perm_x1, const at::OptionalIntArrayRef& perm_x2,
                          std::optional<int64_t> split) {
  const char* op = "npu_transpose_batchmatmul";
  TORCH_CHECK(input.dim() == 3 && weight.dim() == 3, op, ": input and weight must have 3 dimensions");
  const auto p1 = permutation("perm_x1", perm_x1, {0, 1, 2}, {{0, 1, 2}, {1, 0, 2}});
  const auto p2 = permutation("perm_x2", perm_x2, {0, 1, 2}, {{0, 1, 2}, {0, 2, 1}});
  const auto batch = input.sym_size(p1[0]), m = input.sym_size(p1[1]), n = weight.sym_size(p2[2]);
  TORCH_CHECK(batch == weight.sym_size(p2[0]) && input.sym_size(p1[2]) == weight.sym_size(p2[1]), op,
              ": input and weight do not fit");
  const int64_t parts = split.value_or(1);
  TORCH_CHECK(parts >= 1 && (parts == 1 || !scale), op, ": batch_split_factor is ", parts,
              ", expected at least 1, and 1 beside scale");
  if (scale) return {Dims{m, 1, batch * n}, at::kChar};
  if (parts == 1) return {Dims{m, batch, n}, input.scalar_type()};
  TORCH_CHECK(batch % parts == 0, op, ": batch_split_factor ", parts, " does not divide a batch of ", batch);
  return {Dims{parts, m, batch * n / parts}, input.scalar_type()};
}

Dims plain_product_sizes(const char* op, const Tensor& x1, const Tensor& x2) {
  TORCH_CHECK(x1.dim() >= 2 && x2.dim() >= 2, op, ": both operands must have at least 2 dimensions");
  TORCH_CHECK(x1.sym_size(-1) == x2.sym_size(-2), op, ": x1 has ", x1.sym_size(-1), " columns, x2 has ",
              x2.sym_size(-2), " rows");
  Dims sizes = results::dims(
      at::infer_size_symdimvector(x1.sym_sizes().slice(0, x1.dim() - 2), x2.sym_sizes().slice(0, x2.dim() - 2)));
  sizes.push_back(x1.sym_size(-2));
  sizes.push_back(x2.sym_size(-1));
  return sizes;
}

Dims viewed(const char* op, Dims sizes, at::IntArrayRef others) {
  if (others.empty()) return sizes;
  c10::SymInt have = 1, want = 1;
  for (const auto& size : sizes) have = have * size;
  for (int64_t size : others) want = want * size;
  TORCH_CHECK(have == want, op, ": output_sizes stands for ", want, " elements, the result has ", have);
  Dims chosen;
  for (int64_t size : others) chosen.push_back(size);
  return chosen;
}

namespace results {
std::vector<Tensor> make(const Tensor& on, const std::vector<Result>& each) {
  std::vector<Tensor> made;
  for (const auto& result : each) made.push_back(make(on, result));
  return made;
}
}  // namespace results

}  // namespace npu::ops
