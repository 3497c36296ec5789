#include "ops/families/quant.h"

#include <ATen/ExpandUtils.h>

#include "aclnn/dtype.h"
#include "aclnn/op.h"
#include "ops/calls.h"
#include "ops/families/mx.h"
#include "ops/tensor.h"

namespace npu::ops {

using results::Dims;
using results::Result;

namespace {

constexpr int64_t kHifloat8 = 290;

// Numbers of types that torch lacks, or had later than the official plugin.
const char* plugin_type(int64_t number) {
  switch (number) {
    case 285:
      return "torch_npu.int4";
    case kHifloat8:
      return "torch_npu.hifloat8";
    case 291:
      return "torch_npu.float8_e5m2";
    case 292:
      return "torch_npu.float8_e4m3fn";
    case 293:
      return "torch_npu.float8_e8m0fnu";
    case 296:
      return "torch_npu.float4_e2m1fn_x2";
    case 297:
      return "torch_npu.float4_e1m2fn_x2";
    default:
      return nullptr;
  }
}

std::string name(int64_t number) {
  if (const char* text = plugin_type(number)) return text;
  if (number < 0 || number >= static_cast<int64_t>(at::ScalarType::NumOptions)) return std::to_string(number);
  return c10::toString(static_cast<at::ScalarType>(number));
}

std::string names(std::initializer_list<at::ScalarType> types) {
  std::string text;
  for (auto type : types) {
    if (!text.empty()) text += ", ";
    text += type == at::kQUInt4x2 ? "quint4x2 (int4)" : c10::toString(type);
  }
  return text;
}

bool is_floating(std::optional<int64_t> number) {
  switch (number.value_or(-1)) {
    case static_cast<int64_t>(at::ScalarType::Float8_e4m3fn):
    case static_cast<int64_t>(at::ScalarType::Float8_e5m2):
    case kHifloat8:
    case 291:
    case 292:
      return true;
    default:
      return false;
  }
}

at::ScalarType plain(int64_t number) {
  switch (number) {
    case static_cast<int64_t>(at::kQInt8):
      return at::kChar;
    case static_cast<int64_t>(at::kQUInt8):
      return at::kByte;
    case static_cast<int64_t>(at::kQInt32):
      return at::kInt;
    case 285:
      return at::kQUInt4x2;
    default:
      return number < 0 || number >= static_cast<int64_t>(at::ScalarType::NumOptions)
                 ? at::ScalarType::Undefined
                 : static_cast<at::ScalarType>(number);
  }
}

}  // namespace

at::ScalarType type_of(const char* op, const char* argument, std::optional<int64_t> number, at::ScalarType otherwise,
                       std::initializer_list<at::ScalarType> accepted) {
  if (!number) return otherwise;
  const auto type = plain(*number);
  TORCH_CHECK(std::find(accepted.begin(), accepted.end(), type) != accepted.end(), op, ": ", argument, " is ",
              name(*number), ", expected one of ", names(accepted));
  return type;
}

int64_t acl_number(at::ScalarType type) { return static_cast<int64_t>(acl_type(type)); }

Result in_type(const char* op, Dims sizes, at::ScalarType type) {
  if (type != at::kQUInt4x2) return {std::move(sizes), type};
  TORCH_CHECK(!sizes.empty() && sizes.back() % 8 == 0, op,
              ": the last dimension must have a multiple of 8 elements for int4");
  sizes.back() = sizes.back() / 8;
  return {std::move(sizes), at::kInt};
}

Result dynamic_quantised(const char* op, const Tensor& input, std::optional<int64_t> number) {
  if (is_floating(number)) return results::quantized(results::dims(input), *number);
  return in_type(op, input, quantised(op, "dst_type", number));
}

TypeNumber dynamic_type(std::optional<int64_t> number) {
  if (is_floating(number)) return type_number(*number);
  return {acl_type(carrier(number ? plain(*number) : at::kChar))};
}

void refuse(const char* op, std::initializer_list<std::pair<const char*, bool>> arguments) {
  std::string given;
  for (const auto& [argument, is_given] : arguments)
    if (is_given) given += (given.empty() ? "" : ", ") + std::string(argument);
  TORCH_CHECK_NOT_IMPLEMENTED(given.empty(), op, " does not support ", given);
}

void check_type(const char* op, const char* argument, const Tensor& t, std::initializer_list<at::ScalarType> accepted) {
  TORCH_CHECK(std::find(accepted.begin(), accepted.end(), t.scalar_type()) != accepted.end(), op, ": ", argument,
              " is ", t.scalar_type(), ", expected one of ", names(accepted));
}

void check_quantised_into(const char* op, const Tensor& input, const Tensor& result, at::ScalarType type) {
  TORCH_CHECK(result.sym_sizes() == input.sym_sizes() && result.scalar_type() == type, op, ": result is ",
              result.scalar_type(), " of the sizes ", result.sym_sizes(), ", expected ", type, " of the sizes ",
              input.sym_sizes());
}

void check_mode(const char* op, const char* argument, int64_t value) {
  TORCH_CHECK(value == 0 || value == 1, op, ": ", argument, " is ", value, ", expected 0 or 1");
}

void check_static(const char* op, bool is_static, const std::optional<Tensor>& scale) {
  TORCH_CHECK(!is_static || scale, op, ": a static quantisation needs a scale");
}

void check_dynamic_quant(const char* op, const Tensor& input, const std::optional<Tensor>& smooth_scales,
                         const std::optional<Tensor>& group_index, c10::string_view mode, double dst_type_max,
                         std::optional<int64_t> dst_type) {
  TORCH_CHECK(input.dim() >= 2, op, ": input has ", input.dim(), " dimensions, expected at least 2");
  check_one_of(op, "quant_mode", mode, {"pertoken", "pertensor", "perchannel"});
  TORCH_CHECK(!group_index || smooth_scales, op, ": group_index divides smooth_scales, which is missing");
  TORCH_CHECK(!group_index || mode == "pertoken", op, ": group_index needs quant_mode \"pertoken\"");
  TORCH_CHECK(!smooth_scales || mode != "perchannel" ||
                  (smooth_scales->dim() == 1 && smooth_scales->sym_size(0) == input.sym_size(-2)),
              op, ": smooth_scales must have one number for each of the ", input.sym_size(-2),
              " places of the last dimension but one, with quant_mode \"perchannel\"");
  TORCH_CHECK(dst_type_max == 0 || (dst_type && *dst_type == kHifloat8 && dst_type_max > 0 && dst_type_max <= 32768),
              op, ": dst_type_max is ", dst_type_max, ", expected 0, or for torch_npu.hifloat8 a number up to 32768");
}

void check_dequant_swiglu_quant(const Tensor& x, const std::optional<Tensor>& weight_scale,
                                const std::optional<Tensor>& bias, const std::optional<Tensor>& quant_scale,
                                int64_t quant_mode, int64_t swiglu_mode) {
  const char* op = "npu_dequant_swiglu_quant";
  TORCH_CHECK(swiglu_mode >= 0 && swiglu_mode <= 2, op, ": swiglu_mode is ", swiglu_mode, ", expected 0, 1 or 2");
  check_type(op, "x", x, {at::kInt, at::kHalf, at::kBFloat16, at::kFloat});
  TORCH_CHECK(x.scalar_type() != at::kInt || weight_scale, op, ": x of int32 needs weight_scale");
  if (bias) check_type(op, "bias", *bias, {at::kInt});
  check_static(op, quant_mode == 0, quant_scale);
}

void check_quant_scatter(const char* op, const Tensor& input, const Tensor& indices, const Tensor& updates,
                         int64_t axis, c10::string_view reduce, std::optional<int64_t> dst_type,
                         const std::optional<c10::string_view>& round_mode) {
  check_type(op, "input", input, {at::kChar});
  type_of(op, "dst_type", dst_type, at::kChar, {at::kChar});
  check_one_of(op, "reduce", reduce, {"update"});
  check_one_of(op, "round_mode", round_mode.value_or("rint"), {"rint"});
  TORCH_CHECK(input.dim() == updates.dim(), op, ": input has ", input.dim(), " dimensions, updates ", updates.dim());
  TORCH_CHECK(indices.dim() == 1 && indices.sym_size(0) == updates.sym_size(0), op,
              ": indices must have one place for each of the ", updates.sym_size(0), " updates");
  TORCH_CHECK(at::maybe_wrap_dim(axis, input.dim()) != 0, op, ": axis must not be the first one");
}

const Tensor& only_if(bool condition, const char* op, const char* what, const Tensor& t) {
  TORCH_CHECK_NOT_IMPLEMENTED(condition, op, " needs a newer CANN for ", what);
  return t;
}

Dims product_sizes(const char* op, const Tensor& x1, const Tensor& x2) {
  TORCH_CHECK(x1.dim() >= 2 && x2.dim() >= 2, op, ": x1 has ", x1.dim(), " dimensions and x2 ", x2.dim(),
              ", expected at least 2");
  const auto k = x1.scalar_type() == at::kInt ? x1.sym_size(-1) * 8 : x1.sym_size(-1);
  auto n = x2.sym_size(-1);
  auto rows = x2.sym_size(-2);
  if (x2.scalar_type() == at::kInt) {
    if (rows == k)
      n = n * 8;
    else
      rows = rows * 8;
  }
  TORCH_CHECK(rows == k, op, ": x1 has ", k, " columns, x2 has ", rows, " rows");
  Dims sizes = results::dims(
      at::infer_size_symdimvector(x1.sym_sizes().slice(0, x1.dim() - 2), x2.sym_sizes().slice(0, x2.dim() - 2)));
  sizes.push_back(x1.sym_size(-2));
  sizes.push_back(n);
  return sizes;
}

Dims scale_sizes(const Tensor& input, c10::string_view mode) {
  if (mode == "pertensor") return {1};
  return results::without_dim(input, mode == "perchannel" ? -2 : -1);
}

Dims trans_quant_sizes(const Tensor& scale, const std::optional<Tensor>& offset) {
  const char* op = "npu_trans_quant_param";
  TORCH_CHECK(scale.dim() == 1 || scale.dim() == 2, op, ": scale has ", scale.dim(), " dimensions, expected 1 or 2");
  if (!offset) return results::dims(scale);
  TORCH_CHECK(offset->dim() == scale.dim(), op, ": offset has ", offset->dim(), " dimensions, scale ", scale.dim());
  return results::broadcast(scale, *offset);
}

Dims conv2d_sizes(const Tensor& input, const Tensor& weight, at::IntArrayRef strides, at::IntArrayRef pads,
                  at::IntArrayRef dilations) {
  const char* op = "npu_quant_conv2d";
  TORCH_CHECK(input.dim() == 4 && weight.dim() == 4, op, ": input and weight must have 4 dimensions");
  TORCH_CHECK(strides.size() == 2 && pads.size() == 2 && dilations.size() == 2, op,
              ": strides, pads and dilations must have 2 elements");
  Dims sizes{input.sym_size(0), weight.sym_size(0)};
  for (int i = 0; i < 2; i++) {
    TORCH_CHECK(strides[i] > 0 && dilations[i] > 0 && pads[i] >= 0, op,
                ": strides and dilations must be positive, pads not negative");
    sizes.push_back(
        (input.sym_size(2 + i) + 2 * pads[i] - (weight.sym_size(2 + i) - 1) * dilations[i] - 1) / strides[i] + 1);
  }
  return sizes;
}

void check_quant_matmul(const Tensor& x1, const Tensor& x2, const Tensor& scale, const std::optional<Tensor>& offset,
                        const std::optional<Tensor>& pertoken_scale) {
  const char* op = "npu_quant_matmul";
  check_type(op, "x1", x1, {at::kChar, at::kInt});
  check_type(op, "x2", x2, {at::kChar, at::kInt});
  check_type(op, "scale", scale, {at::kFloat, at::kHalf, at::kBFloat16, at::kLong});
  TORCH_CHECK_NOT_IMPLEMENTED(x1.scalar_type() == x2.scalar_type(), op,
                              " does not support x1 of int8 with x2 of int4: use npu_weight_quant_batchmatmul or "
                              "npu_grouped_matmul");
  TORCH_CHECK_NOT_IMPLEMENTED(!offset || scale.dim() < 2 || scale.sym_size(-2) == 1, op,
                              " does not support offset with scales of groups");
  TORCH_CHECK(scale.dim() < 2 || scale.sym_size(-2) == 1 || pertoken_scale, op,
              ": scales of groups need pertoken_scale");
  TORCH_CHECK(!pertoken_scale || pertoken_scale->dim() > 1 || x1.dim() < 2 || pertoken_scale->sym_numel() == 1 ||
                  pertoken_scale->sym_numel() == x1.sym_size(-2),
              op, ": pertoken_scale has ", pertoken_scale->sym_numel(), " numbers, expected one for each of ",
              x1.sym_size(-2), " rows of x1");
}

void check_matmul_dequant(const char* op, const Tensor& x, const Tensor& weight, const Tensor& weight_scale,
                          const std::optional<c10::string_view>& mode, int64_t dim) {
  check_one_of(op, "quant_mode", mode.value_or("pertoken"), {"pertoken", "pertensor"});
  check_type(op, "quantized_weight", weight, {at::kChar});
  TORCH_CHECK(x.dim() == 2 && weight.dim() == dim && weight_scale.dim() == dim - 1, op, ": x must have 2 dimensions, ",
              "quantized_weight ", dim, " and weight_scale ", dim - 1);
  TORCH_CHECK(x.sym_size(1) == weight.sym_size(-1), op, ": x has ", x.sym_size(1), " columns, quantized_weight ",
              weight.sym_size(-1));
}

at::ScalarType matmul_type(std::optional<int64_t> output_dtype) {
  return type_of("npu_quant_matmul", "output_dtype", output_dtype, at::kChar,
                 {at::kChar, at::kHalf, at::kBFloat16, at::kInt});
}

Tensor matmul_scale(const Tensor& scale, const std::optional<Tensor>& offset,
                    const std::optional<Tensor>& pertoken_scale, at::ScalarType out) {
  if (scale.scalar_type() != at::kFloat || pertoken_scale || out == at::kBFloat16 || out == at::kInt) return scale;
  return call::npu_trans_quant_param(scale, offset, 0);
}

std::optional<Tensor> result_scale(const std::optional<Tensor>& scale, const std::optional<Tensor>& offset) {
  if (!scale || scale->scalar_type() != at::kFloat) return scale;
  const auto made = results::make(*scale, results::sized(trans_quant_sizes(*scale, offset), at::kLong));
  NPU_EXEC(aclnnTransQuantParamV2, *scale, offset, made);
  return made;
}

int64_t group_numbers(const char* op, const at::OptionalIntArrayRef& sizes) {
  if (!sizes || sizes->empty()) return 0;
  TORCH_CHECK(sizes->size() == 3, op, ": group_sizes has ", sizes->size(), " elements, expected 3");
  int64_t packed = 0;
  for (int64_t size : *sizes) {
    TORCH_CHECK(size >= 0 && size <= 65535, op, ": group_sizes has ", size, ", expected 0 to 65535");
    packed = packed << 16 | size;
  }
  return packed;
}

std::array<bool, 2> dynamic_quant_mask(const std::optional<Tensor>& smooth1, const std::optional<Tensor>& smooth2,
                                       const std::optional<std::array<bool, 2>>& mask) {
  if (!mask) return {true, smooth1.has_value() && smooth2.has_value()};
  TORCH_CHECK((*mask)[0] || (*mask)[1], "npu_add_rms_norm_dynamic_quant: output_mask asks for no result");
  return *mask;
}

}  // namespace npu::ops
