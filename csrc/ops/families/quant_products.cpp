#include "ops/families/quant_products.h"

#include "aclnn/op.h"

namespace npu::ops {

namespace {

bool in_bytes(aclDataType type) { return type == ACL_FLOAT8_E4M3FN || type == ACL_FLOAT8_E5M2 || type == ACL_HIFLOAT8; }

void check_numbers(const char* op, const Quantised& x, int64_t dim) {
  TORCH_CHECK(x.numbers.dim() == dim, op, ": ", x.name, " has ", x.numbers.dim(), " dimensions, expected ", dim);
  const auto type = type_in(x.numbers, x.number);
  TORCH_CHECK(in_bytes(type), op, ": ", x.name, " is ", x.numbers.scalar_type(),
              ", expected float8_e4m3fn or float8_e5m2, or bytes with ", x.name, "_dtype=torch_npu.hifloat8");
}

bool is_mx(const Quantised& x) { return x.scale && type_in(*x.scale, x.scale_number) == ACL_FLOAT8_E8M0; }

void check_sizes(const char* op, const char* name, const char* of, const Tensor& t, const results::Dims& sizes) {
  const auto wanted = c10::SymIntArrayRef(sizes.data(), sizes.size());
  TORCH_CHECK(t.sym_sizes() == wanted, op, ": ", name, of, " has the sizes ", t.sym_sizes(), ", expected ", wanted);
}

void check_floating(const char* op, const Quantised& x) {
  TORCH_CHECK(!x.scale || x.scale->is_floating_point() || x.scale->scalar_type() == at::kLong, op, ": ", x.name,
              "_scale is ", x.scale->scalar_type(), ", expected float32, or bytes with ", x.name,
              "_scale_dtype=torch_npu.float8_e8m0fnu");
}

// MX scales go with MX scales.
bool check_scales(const char* op, const Quantised& x1, const Quantised& x2) {
  if (!is_mx(x1) && !is_mx(x2)) {
    check_floating(op, x1), check_floating(op, x2);
    return false;
  }
  TORCH_CHECK(is_mx(x1) && is_mx(x2), op, ": x1_scale and x2_scale must both be of float8_e8m0fnu, or neither");
  for (const auto* x : {&x1, &x2})
    TORCH_CHECK(type_in(x->numbers, x->number) != ACL_HIFLOAT8, op, ": ", x->name,
                " is hifloat8, expected float8_e4m3fn or float8_e5m2 with scales of float8_e8m0fnu");
  return true;
}

c10::SymInt up(const c10::SymInt& count, int64_t size) { return (count + size - 1) / size; }

}  // namespace

aclDataType type_in(const Tensor& t, std::optional<int64_t> number) {
  return number ? type_behind(*number) : acl_type(t.scalar_type());
}

Stored typed(const Tensor& t, std::optional<int64_t> number) {
  if (!t.defined()) return {t, ACL_FLOAT};
  const auto type = type_in(t, number);
  return {in_pairs(type) ? t.contiguous() : t, type};
}

namespace {

constexpr char kProduct[] = "npu_quant_matmul";
constexpr int64_t kPacked = 285;  // the official plugin's number

// Along the sum: pairs of float4 lie along it.
c10::SymInt length(const Quantised& x, int64_t dim) {
  return x.numbers.sym_size(dim) * (in_pairs(type_in(x.numbers, x.number)) ? 2 : 1);
}

}  // namespace

StoredList typed_list(const std::optional<at::TensorList>& list, std::optional<int64_t> number, bool turned) {
  if (!given(list)) return {{}, std::nullopt, true};
  const auto type = number ? std::optional(type_behind(*number)) : std::nullopt;
  StoredList stored{list->vec(), type};
  for (auto& t : stored.tensors)
    if (in_pairs(type_in(t, number))) t = turned ? t.transpose(-1, -2).contiguous().transpose(-1, -2) : t.contiguous();
  return stored;
}

bool GroupedProduct::check(const Grouping& grouping, const std::optional<at::TensorList>& bias,
                           std::optional<int64_t> output_dtype, bool others) const {
  const char* op = "npu_grouped_matmul";
  if (x.empty() || weight.empty()) return false;
  const auto own = [](const Tensor& t) { return t.is_floating_point() && t.element_size() > 1; };
  const auto whole = [](const Tensor& t) { return t.scalar_type() == at::kChar || t.scalar_type() == at::kInt; };
  if (!x_number && !weight_number && (own(x[0]) || whole(x[0])) && (own(weight[0]) || whole(weight[0]))) {
    refuse(op, {{"scale_dtype", scale_number.has_value()}, {"per_token_scale_dtype", pertoken_number.has_value()}});
    return false;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(!others, op,
                              " does not support offset, antiquant_scale and antiquant_offset with numbers "
                              "that are not integers: give the scales of weights as scale");
  TORCH_CHECK(x.size() == 1 && weight.size() == 1 && x[0].dim() == 2 && weight[0].dim() == 3, op,
              ": float8 and float4 take one x of two dimensions and one weight of three");
  TORCH_CHECK(grouping.type == 0 && grouping.split_item >= 2 && grouping.by_tensor, op,
              ": float8 and float4 take group_type 0, split_item 2 or 3, and a group_list");
  TORCH_CHECK(given(scale) && scale->size() == 1, op, ": float8 and float4 need one scale");
  TORCH_CHECK(!given(pertoken) || pertoken->size() == 1, op, ": per_token_scale has ", pertoken->size(),
              " tensors, expected 1");
  const Quantised rows{"x", x[0], x_number, given(pertoken) ? std::optional((*pertoken)[0]) : std::nullopt,
                       pertoken_number};
  const Quantised columns{"weight", weight[0], weight_number, (*scale)[0], scale_number};
  for (const auto* each : {&rows, &columns}) {
    const auto type = type_in(each->numbers, each->number);
    TORCH_CHECK(in_bytes(type) || type == ACL_FLOAT4_E2M1, op, ": ", each->name, " is ", each->numbers.scalar_type(),
                ", expected float8_e4m3fn or float8_e5m2, or bytes with ", each->name,
                "_dtype=torch_npu.float4_e2m1fn_x2 or torch_npu.hifloat8");
    TORCH_CHECK(type != ACL_FLOAT4_E2M1 || is_mx(*each), op, ": ", each->name,
                " is float4, whose scales must be of torch_npu.float8_e8m0fnu");
  }
  const auto m = x[0].sym_size(0), k = length(rows, -1), groups = weight[0].sym_size(0), n = weight[0].sym_size(2);
  TORCH_CHECK(length(columns, -2) == k, op, ": x has ", k, " columns, weight has ", length(columns, -2), " rows",
              in_pairs(type_in(weight[0], weight_number))
                  ? " of numbers whose pairs lie along them, as in a transposed view"
                  : "");
  TORCH_CHECK(output_dtype, op, ": output_dtype is missing, expected torch.float16, torch.bfloat16 or torch.float32");
  type_of(op, "output_dtype", output_dtype, at::kBFloat16, {at::kHalf, at::kBFloat16, at::kFloat});
  if (given(bias)) check_sizes(op, "bias", "", (*bias)[0], {groups, n});
  if (check_scales(op, rows, columns)) {
    check_sizes(op, "per_token_scale", "", *rows.scale, {m, up(k, 64), 2});
    check_sizes(op, "scale", "", *columns.scale, {groups, up(k, 64), n, 2});
  } else {
    TORCH_CHECK(columns.scale->dim() == 2 && columns.scale->sym_size(0) == groups &&
                    (columns.scale->sym_size(1) == n || columns.scale->sym_size(1) == 1),
                op, ": scale has the sizes ", columns.scale->sym_sizes(), ", expected [", groups, ", ", n, "] or [",
                groups, ", 1]");
    if (rows.scale) check_sizes(op, "per_token_scale", "", *rows.scale, {m});
  }
  return true;
}

bool QuantProduct::is_integral() const {
  const auto own = x1.numbers.scalar_type();
  if (!x1.number || *x1.number == kPacked) return own == at::kChar || own == at::kInt;
  const auto type = type_behind(*x1.number);
  return type == ACL_INT8 || type == ACL_INT32 || type == ACL_INT4;
}

void QuantProduct::check(const std::optional<Tensor>& offset, const std::optional<Tensor>& bias) const {
  if (is_integral()) {
    for (const auto* x : {&x1, &x2})
      for (const auto& [t, number] :
           {std::pair{std::optional(x->numbers), x->number}, std::pair{x->scale, x->scale_number}})
        TORCH_CHECK(!t || !number || *number == kPacked || type_behind(*number) == acl_type(t->scalar_type()), kProduct,
                    ": ", x->name, " or its scale is ", t->scalar_type(), ", and not of the type that its dtype says");
    check_quant_matmul(x1.numbers, x2.numbers, *x2.scale, offset, x1.scale);
    return;
  }
  for (const auto* x : {&x1, &x2}) {
    TORCH_CHECK(x->numbers.dim() >= 2, kProduct, ": ", x->name, " has ", x->numbers.dim(),
                " dimensions, expected 2 or more");
    const auto type = type_in(x->numbers, x->number);
    TORCH_CHECK(in_bytes(type) || type == ACL_FLOAT4_E2M1, kProduct, ": ", x->name, " is ", x->numbers.scalar_type(),
                ", expected int8, float8_e4m3fn or float8_e5m2, or bytes with ", x->name,
                "_dtype=torch_npu.float4_e2m1fn_x2 or torch_npu.hifloat8");
    TORCH_CHECK(type != ACL_FLOAT4_E2M1 || is_mx(*x), kProduct, ": ", x->name,
                " is float4, whose scales must be of torch_npu.float8_e8m0fnu");
  }
  const auto k = length(x1, -1), n = x2.numbers.sym_size(-1);
  TORCH_CHECK(length(x2, -2) == k, kProduct, ": x1 has ", k, " columns, x2 has ", length(x2, -2), " rows",
              in_pairs(type_in(x2.numbers, x2.number))
                  ? " of numbers whose pairs lie along them, as in a transposed view"
                  : "");
  TORCH_CHECK_NOT_IMPLEMENTED(!offset, kProduct, " does not support offset with numbers that are not integers");
  TORCH_CHECK(!bias || bias->sym_size(-1) == n, kProduct, ": bias has ", bias->sym_size(-1), " columns, expected ", n);
  if (!check_scales(kProduct, x1, x2)) {
    TORCH_CHECK(x2.scale->dim() > 1 || x2.scale->sym_numel() == 1 || x2.scale->sym_numel() == n, kProduct,
                ": scale has ", x2.scale->sym_numel(), " numbers, expected 1 or ", n);
    const auto m = x1.numbers.sym_size(-2);
    TORCH_CHECK(!x1.scale || x1.scale->dim() > 1 || x1.scale->sym_numel() == 1 || x1.scale->sym_numel() == m, kProduct,
                ": pertoken_scale has ", x1.scale->sym_numel(), " numbers, expected 1 or ", m);
    return;
  }
  auto rows = results::dims(x1.numbers), columns = results::dims(x2.numbers);
  rows.back() = up(k, 64), rows.push_back(2);
  columns[columns.size() - 2] = up(k, 64), columns.push_back(2);
  check_sizes(kProduct, "pertoken_scale", "", *x1.scale, rows), check_sizes(kProduct, "scale", "", *x2.scale, columns);
}

results::Dims QuantProduct::sizes() const {
  if (is_integral()) return product_sizes(kProduct, x1.numbers, x2.numbers);
  const auto before = [](const Tensor& t) { return t.sym_sizes().slice(0, t.dim() - 2); };
  results::Dims sizes = results::dims(at::infer_size_symdimvector(before(x1.numbers), before(x2.numbers)));
  sizes.push_back(x1.numbers.sym_size(-2));
  sizes.push_back(x2.numbers.sym_size(-1));
  return sizes;
}

at::ScalarType QuantProduct::type(std::optional<int64_t> output_dtype) const {
  if (is_integral()) return matmul_type(output_dtype);
  TORCH_CHECK(output_dtype, kProduct,
              ": output_dtype is missing, expected torch.float16, torch.bfloat16 or torch.float32");
  return type_of(kProduct, "output_dtype", output_dtype, at::kBFloat16, {at::kHalf, at::kBFloat16, at::kFloat});
}

void QuantProduct::launch(const std::optional<Tensor>& offset, const std::optional<Tensor>& bias,
                          const Tensor& out) const {
  const auto none = results::make(out, results::none(out));
  const auto scale = is_mx(x2) ? *x2.scale : matmul_scale(*x2.scale, offset, x1.scale, out.scalar_type());
  if (is_integral()) {
    NPU_EXEC(aclnnQuantMatmulV5, x1.numbers, x2.numbers, x1.scale, scale, nullptr, none, offset, none, bias, false,
             false, groups, out);
    return;
  }
  Stored columns{x2.numbers, type_in(x2.numbers, x2.number)};
  if (in_pairs(columns.type)) columns.tensor = x2.numbers.transpose(-1, -2).contiguous().transpose(-1, -2);
  NPU_EXEC(aclnnQuantMatmulV5, typed(x1.numbers, x1.number), columns, typed(x1.scale, x1.scale_number),
           typed(scale, is_mx(x2) ? x2.scale_number : std::nullopt), nullptr, none, nullptr, none, bias, false, false,
           groups, out);
}

void check_add_quant(const char* op, const Tensor& input, const Quantised& x1, const Quantised& x2,
                     const std::optional<Tensor>& group_list, int64_t list_type) {
  check_numbers(op, x1, 2), check_numbers(op, x2, 2);
  const auto m = x1.numbers.sym_size(0), k = x1.numbers.sym_size(1), n = x2.numbers.sym_size(1);
  TORCH_CHECK(x2.numbers.sym_size(0) == k, op, ": x1 has ", k, " columns, x2 ", x2.numbers.sym_size(0), " rows");
  TORCH_CHECK(input.is_floating_point(), op, ": input is ", input.scalar_type(), ", expected float32");
  const bool mx = check_scales(op, x1, x2);
  TORCH_CHECK(list_type == 0 || list_type == 1, op, ": group_list_type is ", list_type, ", expected 0 or 1");
  auto pairs = up(k, 64);
  if (group_list) {
    TORCH_CHECK(group_list->dim() == 1 && group_list->scalar_type() == at::kLong, op,
                ": group_list must be int64 in one dimension");
    const auto groups = group_list->sym_size(0);
    check_sizes(op, "input", "", input, {groups, m, n});
    pairs = k / 64 + groups;
    if (!mx) {
      const auto& each = *x2.scale;
      TORCH_CHECK(each.dim() > 0 && each.dim() < 3 && each.sym_size(0) == groups &&
                      (each.dim() == 1 || each.sym_size(1) == 1 || each.sym_size(1) == n),
                  op, ": x2_scale has the sizes ", each.sym_sizes(), ", expected one row for each of ", groups,
                  " groups, of 1 or ", n, " numbers");
      TORCH_CHECK(!x1.scale || x1.scale->sym_numel() == groups, op, ": x1_scale has ", x1.scale->sym_numel(),
                  " numbers, expected one for each of ", groups, " groups");
    }
  } else {
    check_sizes(op, "input", "", input, {m, n});
    if (!mx)
      for (const auto* x : {&x1, &x2})
        TORCH_CHECK(!x->scale || x->scale->sym_numel() == 1, op, ": ", x->name, "_scale has ", x->scale->sym_numel(),
                    " numbers, expected 1");
  }
  if (!mx) return;
  check_sizes(op, "x1", "_scale", *x1.scale, {m, pairs, 2});
  check_sizes(op, "x2", "_scale", *x2.scale, {pairs, n, 2});
}

void check_dual_level(const Tensor& x1, const Tensor& x2, const Tensor& x1_level0, const Tensor& x2_level0,
                      const Tensor& x1_level1, const Tensor& x2_level1, const std::optional<Tensor>& bias) {
  const char* op = "npu_dual_level_quant_matmul";
  TORCH_CHECK(x1.dim() == 2 && x2.dim() == 2, op, ": x1 and x2 must have 2 dimensions");
  for (const auto* t : {&x1, &x2, &x1_level1, &x2_level1})
    TORCH_CHECK(t->element_size() == 1 && t->scalar_type() != at::kBool, op,
                ": x1, x2 and the scales of level 1 must be bytes");
  const auto m = x1.sym_size(0), n = x2.sym_size(0), k = x1.sym_size(1) * 2;
  TORCH_CHECK(x2.sym_size(1) * 2 == k, op, ": x1 has ", k, " columns, x2 ", x2.sym_size(1) * 2);
  TORCH_CHECK(x1_level0.is_floating_point() && x2_level0.is_floating_point(), op,
              ": the scales of level 0 must be float32");
  check_sizes(op, "x1", "_level0_scale", x1_level0, {m, up(k, 512)});
  check_sizes(op, "x2", "_level0_scale", x2_level0, {up(k, 512), n});
  check_sizes(op, "x1", "_level1_scale", x1_level1, {m, up(k, 64), 2});
  check_sizes(op, "x2", "_level1_scale", x2_level1, {n, up(k, 64), 2});
  if (bias) check_sizes(op, "bias", "", *bias, {n});
}

void check_kronecker(const Tensor& x, const Tensor& p1, const Tensor& p2, std::optional<double> clip_ratio,
                     std::optional<int64_t> dst_dtype, std::optional<double> dst_type_max) {
  const char* op = "npu_kronecker_quant";
  TORCH_CHECK(x.dim() == 3 && x.is_floating_point(), op, ": x must be floating with 3 dimensions");
  check_sizes(op, "kronecker_p1", "", p1, {x.sym_size(1), x.sym_size(1)});
  const bool float4 = in_float4(dst_dtype);
  if (!float4 || p2.sym_numel() != 0) check_sizes(op, "kronecker_p2", "", p2, {x.sym_size(2), x.sym_size(2)});
  if (!float4) type_of(op, "dst_dtype", dst_dtype, at::kInt, {at::kInt});
  const double ratio = clip_ratio.value_or(1), most = dst_type_max.value_or(0);
  TORCH_CHECK(ratio > 0 && ratio <= 1, op, ": clip_ratio is ", ratio, ", expected more than 0 and up to 1");
  TORCH_CHECK(most == 0 || (float4 && most >= 6 && most <= 12), op, ": dst_type_max is ", most,
              ", expected 0, or for float4_e2m1 a number from 6 to 12");
  TORCH_CHECK(x.sym_size(2) % (float4 ? 2 : 8) == 0, op, ": the last dimension of x has length ", x.sym_size(2),
              ", expected a multiple of ", float4 ? 2 : 8);
}

void check_transpose_quant(const Quantised& x1, const Quantised& x2, int64_t dtype, bool turned,
                           std::optional<int64_t> split) {
  const char* op = "npu_transpose_quant_batchmatmul";
  check_numbers(op, x1, 3), check_numbers(op, x2, 3);
  const auto type = type_behind(dtype);
  TORCH_CHECK(type == ACL_FLOAT16 || type == ACL_BF16 || type == ACL_HIFLOAT8, op, ": dtype is ", dtype,
              ", expected torch.float16, torch.bfloat16 or torch_npu.hifloat8");
  TORCH_CHECK(split.value_or(1) == 1, op, ": batch_split_factor is ", *split, ", expected 1");
  const auto m = x1.numbers.sym_size(0), batch = x1.numbers.sym_size(1), k = x1.numbers.sym_size(2);
  const auto n = x2.numbers.sym_size(turned ? 1 : 2), rows = x2.numbers.sym_size(turned ? 2 : 1);
  TORCH_CHECK(x2.numbers.sym_size(0) == batch && rows == k, op, ": x1 has ", batch, " matrices of ", k, " columns, x2 ",
              x2.numbers.sym_size(0), " of ", rows, " rows");
  TORCH_CHECK(x2.scale, op, ": x2_scale is missing");
  if (check_scales(op, x1, x2)) {
    TORCH_CHECK(k % 64 == 0, op, ": x1 has ", k, " columns, expected a multiple of 64 with scales of float8_e8m0fnu");
    check_sizes(op, "x1", "_scale", *x1.scale, {m, batch, k / 64, 2});
    if (turned)
      check_sizes(op, "x2", "_scale", *x2.scale, {batch, n, k / 64, 2});
    else
      check_sizes(op, "x2", "_scale", *x2.scale, {batch, k / 64, n, 2});
    return;
  }
  TORCH_CHECK(!x1.scale || (x1.scale->dim() == 1 && (x1.scale->sym_size(0) == m || x1.scale->sym_size(0) == 1)), op,
              ": x1_scale has the sizes ", x1.scale->sym_sizes(), ", expected [", m, "] or [1]");
  check_sizes(op, "x2", "_scale", *x2.scale, {n});
}

void check_matmul_gelu(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                       const std::optional<Tensor>& bias) {
  const char* op = "npu_quant_matmul_gelu";
  check_type(op, "x1", x1, {at::kChar, at::kInt});
  TORCH_CHECK(x1.scalar_type() == x2.scalar_type(), op, ": x1 is ", x1.scalar_type(), " and x2 ", x2.scalar_type(),
              ", expected one type");
  const auto sizes = product_sizes(op, x1, x2);
  const auto &m = sizes[sizes.size() - 2], &n = sizes.back();
  TORCH_CHECK(x1_scale.dim() == 1 && x1_scale.sym_size(0) == m, op, ": x1_scale has the sizes ", x1_scale.sym_sizes(),
              ", expected [", m, "]");
  TORCH_CHECK(x2_scale.dim() == 1 && (x2_scale.sym_size(0) == n || x2_scale.sym_size(0) == 1), op,
              ": x2_scale has the sizes ", x2_scale.sym_sizes(), ", expected [", n, "] or [1]");
  TORCH_CHECK(!bias || bias->sym_size(-1) == n, op, ": bias has ", bias->sym_size(-1), " columns, expected ", n);
}

void check_lora(const char* op, const Tensor& input, const Tensor& x, const Tensor& weight_b, const Tensor& indices,
                const std::optional<Tensor>& weight_a, int64_t layer, int64_t offset, int64_t slice) {
  TORCH_CHECK(input.dim() == 2 && x.dim() == 2, op, ": input and x must have 2 dimensions");
  TORCH_CHECK(weight_b.dim() == 4 && (!weight_a || weight_a->dim() == 4), op, ": weights must have 4 dimensions");
  TORCH_CHECK(indices.dim() == 1 && indices.sym_size(0) == input.sym_size(0) && x.sym_size(0) == input.sym_size(0), op,
              ": x and indices must have as many rows as input, which has ", input.sym_size(0));
  TORCH_CHECK(layer >= 0 && layer < weight_b.sym_size(1), op, ": layer_idx is ", layer, ", expected 0 to ",
              weight_b.sym_size(1) - 1);
  const auto rank = weight_b.sym_size(3), width = slice == -1 ? input.sym_size(1) : c10::SymInt(slice);
  TORCH_CHECK(offset >= 0 && width >= 0 && width + offset <= input.sym_size(1), op, ": columns ", offset, " to ",
              width + offset, " are asked for, input has ", input.sym_size(1));
  TORCH_CHECK(weight_b.sym_size(2) == width, op, ": weight_b has ", weight_b.sym_size(2), " rows, expected ", width);
  if (weight_a)
    check_sizes(op, "weight_a", "", *weight_a, {weight_b.sym_size(0), weight_b.sym_size(1), rank, x.sym_size(1)});
  else
    TORCH_CHECK(x.sym_size(1) == rank, op, ": x has ", x.sym_size(1), " columns, weight_b ", rank);
}

namespace results {

Result of_type(Dims sizes, int64_t number) { return quantized(std::move(sizes), number); }

Result kronecker_numbers(const Tensor& x, bool float4) {
  if (float4) return {{x.sym_size(0), x.sym_size(1) * x.sym_size(2) / 2}, at::kByte};
  return {{x.sym_size(0), x.sym_size(1), x.sym_size(2) / 8}, at::kInt};
}

Result kronecker_scales(const Tensor& x, bool float4) {
  if (float4) return {{x.sym_size(0), up(x.sym_size(1) * x.sym_size(2), 64), 2}, at::kByte};
  return {{x.sym_size(0)}, at::kFloat};
}

}  // namespace results
}  // namespace npu::ops
