#include "ops/families/mx.h"

#include <ATen/WrapDimUtils.h>

#include "ops/checks/custom.h"

namespace npu::ops {

namespace {

constexpr int64_t kOwnTypes = 256;  // torch_npu's numbers of types begin here
constexpr int64_t kBlock = 32;

// Bytes for what torch has no type for, and for float4.
at::ScalarType kept_in(aclDataType type) {
  if (in_pairs(type) || type == ACL_HIFLOAT8) return at::kByte;
  for (int number = 0; number < static_cast<int>(at::ScalarType::NumOptions); number++) {
    const auto dtype = static_cast<at::ScalarType>(number);
    if (has_acl_type(dtype) && acl_type(dtype) == type) return dtype;
  }
  TORCH_CHECK(false, kOwnTypes + type, " is the number of a type that the npu does not compute in");
}

bool is_float(aclDataType type) { return type == ACL_FLOAT || type == ACL_FLOAT16 || type == ACL_BF16; }

c10::SymInt blocks(const c10::SymInt& length, const c10::SymInt& size) { return (length + size - 1) / size; }

}  // namespace

aclDataType type_behind(int64_t number) {
  if (number >= kOwnTypes) return static_cast<aclDataType>(number - kOwnTypes);
  TORCH_CHECK(number >= 0 && number < static_cast<int64_t>(at::ScalarType::NumOptions) &&
                  has_acl_type(static_cast<at::ScalarType>(number)),
              number, " is no number of a type of torch or torch_npu");
  return acl_type(static_cast<at::ScalarType>(number));
}

void check_mx(const char* op, const Tensor& input, const c10::SymInt& last, int64_t dst_type,
              const MxScaling& scaling) {
  const auto type = type_behind(dst_type);
  TORCH_CHECK(in_pairs(type) || type == ACL_FLOAT8_E4M3FN || type == ACL_FLOAT8_E5M2, op, ": dst_type is ", dst_type,
              ", expected torch.float8_e4m3fn, torch.float8_e5m2, torch_npu.float4_e2m1fn_x2 or "
              "torch_npu.float4_e1m2fn_x2");
  const auto kind = input.scalar_type();
  TORCH_CHECK(kind == at::kHalf || kind == at::kBFloat16 || kind == at::kFloat, op, ": the input is of type ", kind,
              ", expected float16, bfloat16 or float32");
  TORCH_CHECK(input.dim() > 0, op, ": the input has no dimensions");
  const auto& [mode, algorithm, most, e1m2_by_maximum] = scaling;
  if (in_pairs(type)) {
    TORCH_CHECK(last % 2 == 0, op, ": the last dimension has length ", last, ", expected an even one for float4");
    check_one_of(op, "round_mode", mode, {"rint", "round", "floor"});
    const bool by_maximum = type == ACL_FLOAT4_E2M1 || e1m2_by_maximum;
    TORCH_CHECK(algorithm == 0 || (algorithm == 2 && by_maximum), op, ": scale_alg is ", algorithm, ", expected ",
                by_maximum ? "0 or 2" : "0", " for this dst_type");
  } else {
    TORCH_CHECK(mode == "rint", op, ": round_mode is \"", mode, "\", expected \"rint\" for float8");
    TORCH_CHECK(algorithm == 0 || algorithm == 1, op, ": scale_alg is ", algorithm, ", expected 0 or 1 for float8");
  }
  const double least = type == ACL_FLOAT4_E1M2 ? 1.75 : 6;
  TORCH_CHECK(most == 0 || (algorithm == 2 && most >= least && most <= 2 * least), op, ": dst_type_max is ", most,
              ", expected 0, or with scale_alg 2 a number from ", least, " to ", 2 * least);
}

void check_dynamic_mx(const char* op, const Tensor& input, int64_t axis, int64_t dst_type, int64_t block_size,
                      const MxScaling& scaling, double max_low_bound) {
  check_mx(op, input, input.dim() ? input.sym_size(-1) : 0, dst_type, scaling);
  at::maybe_wrap_dim(axis, input.dim());
  TORCH_CHECK(block_size > 0 && block_size % kBlock == 0 && block_size <= 1024, op, ": block_size is ", block_size,
              ", expected a multiple of 32 up to 1024");
  TORCH_CHECK(scaling.algorithm != 2 || block_size == kBlock, op, ": block_size is ", block_size,
              ", expected 32 with scale_alg 2");
  TORCH_CHECK(max_low_bound == 0 || (max_low_bound > 0 && scaling.algorithm == 1), op, ": max_low_bound is ",
              max_low_bound, ", expected 0, or with scale_alg 1 a positive number");
}

void check_planes(const char* op, const Tensor& input, int64_t most) {
  TORCH_CHECK(input.dim() >= 2 && input.dim() <= most, op, ": input has ", input.dim(), " dimensions, expected 2 to ",
              most);
}

void check_levels(const char* op, const Tensor& input, const std::optional<Tensor>& smooth_scale,
                  std::string_view round_mode) {
  TORCH_CHECK(!smooth_scale, op, ": smooth_scale is not supported; leave it at None");
  check_mx(op, input, input.dim() ? input.sym_size(-1) : 0, kOwnTypes + ACL_FLOAT4_E2M1, {round_mode});
}

void check_group_list(const char* op, const Tensor& ends, int64_t kind) {
  TORCH_CHECK(ends.dim() == 1 && ends.scalar_type() == at::kInt, op, ": the ends of the groups are a tensor of type ",
              ends.scalar_type(), " with ", ends.dim(), " dimensions, expected int32 with one dimension");
  TORCH_CHECK(kind == 0, op, ": group_list_type is ", kind, ", expected 0: the ends of the groups");
}

void check_grouped_mx(const char* op, const Tensor& x, const Tensor& ends, int64_t dst_type, int64_t block_size,
                      const MxScaling& scaling) {
  TORCH_CHECK(x.dim() == 2, op, ": x has ", x.dim(), " dimensions, expected 2");
  check_mx(op, x, x.sym_size(-1), dst_type, scaling);
  check_group_list(op, ends, 0);
  TORCH_CHECK(block_size == kBlock, op, ": blocksize is ", block_size, ", expected 32");
}

void check_norm_mx(const char* op, const Tensor& x, const Tensor& gamma, int64_t dst_type, const MxScaling& scaling) {
  TORCH_CHECK(scaling.algorithm != 2, op, ": scale_alg is 2, expected 0 or 1");
  check_mx(op, x, x.dim() ? x.sym_size(-1) : 0, dst_type, scaling);
  TORCH_CHECK(gamma.dim() == 1 && gamma.sym_size(0) == x.sym_size(-1), op, ": gamma has shape ", gamma.sym_sizes(),
              ", expected one number for each in the last dimension of x, ", x.sym_size(-1));
}

void check_swiglu_mx(const char* op, const Tensor& x, const std::optional<Tensor>& group_index,
                     const GatedChoice& choice, double clamp_limit, int64_t dst_type, const MxScaling& scaling) {
  TORCH_CHECK(x.dim() >= 2, op, ": x has ", x.dim(), " dimensions, expected at least 2");
  const auto& [activate_dim, axis, mode, group_mode] = choice;
  check_halves(op, x, activate_dim);
  const int64_t last = x.dim() - 1, split = at::maybe_wrap_dim(activate_dim, x.dim()),
                along = at::maybe_wrap_dim(axis, x.dim());
  TORCH_CHECK(split >= last - 1, op, ": activate_dim is ", activate_dim, ", expected one of the last two");
  TORCH_CHECK(along >= last - 1, op, ": axis is ", axis, ", expected one of the last two");
  TORCH_CHECK(mode >= 0 && mode <= 3, op, ": swiglu_mode is ", mode, ", expected 0 to 3");
  TORCH_CHECK(mode == 0 || split == last, op, ": swiglu_mode is ", mode,
              ", expected 0 unless activate_dim is the last");
  TORCH_CHECK(mode < 2 || along == last, op, ": swiglu_mode is ", mode, ", expected 0 or 1 unless axis is the last");
  TORCH_CHECK(clamp_limit > 0, op, ": clamp_limit is ", clamp_limit, ", expected a positive number");
  TORCH_CHECK(group_mode == 0 || group_mode == 1, op, ": group_mode is ", group_mode, ", expected 0 or 1");
  TORCH_CHECK(scaling.algorithm != 2, op, ": scale_alg is 2, expected 0 or 1");
  const auto length = x.sym_size(-1);
  check_mx(op, x, split == last ? length / 2 : length, dst_type, scaling);
  if (!group_index) return;
  TORCH_CHECK(group_index->dim() == 1 && group_index->scalar_type() == at::kLong, op, ": group_index is of type ",
              group_index->scalar_type(), " with ", group_index->dim(),
              " dimensions, expected int64 with one dimension");
  TORCH_CHECK((split == last && along == last) || x.dim() == 2, op, ": x has ", x.dim(),
              " dimensions, expected 2 with group_index and another axis than the last");
}

void check_swiglu_group(const char* op, const Tensor& x, const std::optional<Tensor>& weight,
                        const std::optional<Tensor>& group_index, const GroupChoice& choice) {
  check_halves(op, x, -1);
  TORCH_CHECK(x.is_floating_point(), op, ": x is of type ", x.scalar_type(), ", expected a floating one");
  TORCH_CHECK(choice.quant_mode == 3, op, ": quant_mode is ", choice.quant_mode,
              ", expected 3: hifloat8 with a scale for each group");
  const auto type = type_behind(choice.dst_type);
  TORCH_CHECK(type == ACL_HIFLOAT8 || type == ACL_FLOAT8_E5M2, op, ": dst_type is ", choice.dst_type,
              ", expected its default or torch_npu.hifloat8, which is the result in quant_mode 3");
  TORCH_CHECK(choice.block_size == 0 && !choice.round_scale, op,
              ": block_size and round_scale are not supported; leave them at their defaults");
  TORCH_CHECK(choice.dst_type_max > 0 && choice.dst_type_max <= 32768, op, ": dst_type_max is ", choice.dst_type_max,
              ", expected a positive number up to 32768");
  TORCH_CHECK(!weight || weight->sym_numel() * x.sym_size(-1) == x.sym_numel(), op, ": weight has shape ",
              weight->sym_sizes(), ", expected one number for each row of x");
  TORCH_CHECK(!group_index || (group_index->dim() == 1 && group_index->scalar_type() == at::kLong), op,
              ": group_index is of type ", group_index->scalar_type(), ", expected int64 with one dimension");
}

void check_dequantized(const char* op, const Tensor& x, const Tensor& scale, int64_t axis, int64_t dst_type,
                       int64_t src_type) {
  TORCH_CHECK(x.dim() > 0 && at::maybe_wrap_dim(axis, x.dim()) == x.dim() - 1, op, ": axis is ", axis,
              ", expected the last one");
  const auto from = type_behind(src_type), to = type_behind(dst_type);
  TORCH_CHECK(is_float(to), op, ": dst_type is ", dst_type,
              ", expected torch.float16, torch.bfloat16 or torch.float32");
  TORCH_CHECK(in_pairs(from) || from == ACL_FLOAT8_E4M3FN || from == ACL_FLOAT8_E5M2, op, ": src_type is ", src_type,
              ", expected the type of an MX block");
  TORCH_CHECK(x.scalar_type() == kept_in(from), op, ": x is of type ", x.scalar_type(), ", expected ", kept_in(from),
              " for src_type ", src_type);
  TORCH_CHECK(scale.scalar_type() == at::kByte || scale.scalar_type() == at::ScalarType::Float8_e8m0fnu, op,
              ": mxscale is of type ", scale.scalar_type(), ", expected uint8 or float8_e8m0fnu");
  TORCH_CHECK(scale.dim() == x.dim() + 1, op, ": mxscale has ", scale.dim(), " dimensions, expected ", x.dim() + 1);
}

void check_cast(const char* op, const Tensor& input, int64_t from, int64_t to) {
  const auto kind = type_behind(from);
  TORCH_CHECK(input.scalar_type() == kept_in(kind) || acl_type(input.scalar_type()) == kind, op, ": input is of type ",
              input.scalar_type(), ", expected ", kept_in(kind), " for input_dtype ", from);
  if (!in_pairs(type_behind(to)) || in_pairs(kind)) return;
  TORCH_CHECK(input.dim() > 0 && input.sym_size(-1) % 2 == 0, op,
              ": the last dimension of input is odd, expected an even one for float4");
}

void check_byte_type(const char* op, const char* argument, int64_t number, std::string_view round_mode,
                     bool with_int8) {
  const auto type = type_behind(number);
  TORCH_CHECK(
      type == ACL_FLOAT8_E4M3FN || type == ACL_FLOAT8_E5M2 || type == ACL_HIFLOAT8 || (with_int8 && type == ACL_INT8),
      op, ": ", argument, " is ", number, ", expected ", with_int8 ? "torch.int8, " : "",
      "torch.float8_e4m3fn, torch.float8_e5m2 or torch_npu.hifloat8");
  const char* mode = type == ACL_HIFLOAT8 ? "round" : "rint";
  TORCH_CHECK(round_mode == mode, op, ": round_mode is \"", round_mode, "\", expected \"", mode, "\" for this type");
}

void check_block_quant(const char* op, const Tensor& x, double min_scale, int64_t dst_type, double dst_type_max) {
  TORCH_CHECK(x.is_floating_point(), op, ": x is of type ", x.scalar_type(), ", expected a floating one");
  TORCH_CHECK(min_scale >= 0, op, ": min_scale is ", min_scale, ", expected 0 or more");
  TORCH_CHECK(dst_type_max == 0 || (type_behind(dst_type) == ACL_HIFLOAT8 && dst_type_max > 0 && dst_type_max <= 32768),
              op, ": dst_type_max is ", dst_type_max, ", expected 0, or for hifloat8 a number up to 32768");
}

void check_quant_max(const char* op, const Tensor& scale, const std::optional<Tensor>& group_list) {
  TORCH_CHECK(!group_list || group_list->sym_size(0) <= 1, op, ": group_list has ", group_list->sym_size(0),
              " groups, expected one; call it for each group");
  TORCH_CHECK(scale.sym_numel() == 1, op, ": scale has ", scale.sym_numel(), " numbers, expected one");
}

namespace results {

Result quantized(Dims sizes, int64_t type) {
  if (in_pairs(type_behind(type))) sizes.back() = sizes.back() / 2;
  return {std::move(sizes), kept_in(type_behind(type))};
}

Result mx_scales(Dims sizes, int64_t axis, int64_t block_size) {
  auto& length = sizes[at::maybe_wrap_dim(axis, static_cast<int64_t>(sizes.size()))];
  length = blocks(length, 2 * block_size);
  sizes.push_back(2);
  return {std::move(sizes), at::kByte};
}

Result mx_group_scales(Dims sizes, int64_t axis, const c10::SymInt& groups) {
  auto& length = sizes[at::maybe_wrap_dim(axis, static_cast<int64_t>(sizes.size()))];
  length = length / (2 * kBlock) + groups;
  sizes.push_back(2);
  return {std::move(sizes), at::kByte};
}

Result block_scales(const Tensor& x, int64_t rows, int64_t columns, const std::optional<c10::SymInt>& groups) {
  TORCH_CHECK(x.dim() == 2 || x.dim() == 3, "x has ", x.dim(), " dimensions, expected 2 or 3");
  TORCH_CHECK(rows > 0 && columns > 0, "row_block_size is ", rows, " and col_block_size ", columns,
              ", expected positive numbers");
  Dims sizes = dims(x);
  auto& length = sizes[x.dim() - 2];
  length = groups ? length / rows + *groups : blocks(length, rows);
  sizes.back() = blocks(sizes.back(), columns);
  return {std::move(sizes), at::kFloat};
}

Result mx_gated_scales(const Dims& sizes, int64_t axis, const std::optional<Tensor>& group_index) {
  const auto rank = static_cast<int64_t>(sizes.size());
  if (!group_index || at::maybe_wrap_dim(axis, rank) == rank - 1) return mx_scales(sizes, axis, kBlock);
  return mx_group_scales(sizes, axis, group_index->sym_size(0));
}

Result converted(const Tensor& x, int64_t from, int64_t to) {
  Dims sizes = dims(x);
  if (in_pairs(type_behind(from))) sizes.back() = sizes.back() * 2;
  return quantized(std::move(sizes), to);
}

Result rstd_for_gradient(const Tensor& x, const Tensor& gamma) {
  return x.requires_grad() ? sized(kept(x, gamma.dim()), at::kFloat) : none(at::kFloat);
}

}  // namespace results
}  // namespace npu::ops
