// What rows of quantisation share: types that arguments name by number, int4 in an int32, sizes of quantised products.
#pragma once

#include "aclnn/stored.h"
#include "ops/checks/custom.h"
#include "ops/results.h"

namespace npu::ops {

// ---- Types. Where the schema has an `int`, torch's number of a type or one of the official plugin's own for types
// that torch lacks. Integers of a quantised type stand for it; kQUInt4x2 is int4, eight numbers in an int32.

at::ScalarType type_of(const char* op, const char* argument, std::optional<int64_t> number, at::ScalarType otherwise,
                       std::initializer_list<at::ScalarType> accepted);
inline std::optional<int64_t> number(const std::optional<at::ScalarType>& type) {
  return type ? std::optional<int64_t>(static_cast<int64_t>(*type)) : std::nullopt;
}
// int8, the default, or int4.
inline at::ScalarType quantised(const char* op, const char* argument, std::optional<int64_t> number) {
  return type_of(op, argument, number, at::kChar, {at::kChar, at::kQUInt4x2});
}
// Of a dynamic quantisation: these, float8_e4m3fn, float8_e5m2, or bytes that are hifloat8.
results::Result dynamic_quantised(const char* op, const Tensor& input, std::optional<int64_t> number);
TypeNumber dynamic_type(std::optional<int64_t> number);
inline at::ScalarType carrier(at::ScalarType type) { return type == at::kQUInt4x2 ? at::kInt : type; }
int64_t acl_number(at::ScalarType type);  // for `int` arguments of aclnn operators
// Numbers of these sizes, packed if they are int4.
results::Result in_type(const char* op, results::Dims sizes, at::ScalarType type);
inline results::Result in_type(const char* op, const Tensor& t, at::ScalarType type) {
  return in_type(op, results::dims(t), type);
}

// ---- Refusals

// Names those that are given: nothing here gives them a meaning.
void refuse(const char* op, std::initializer_list<std::pair<const char*, bool>> arguments);
void check_type(const char* op, const char* argument, const Tensor& t, std::initializer_list<at::ScalarType> accepted);
// `result` has the sizes of `input` and this type.
void check_quantised_into(const char* op, const Tensor& input, const Tensor& result, at::ScalarType type);
void check_mode(const char* op, const char* argument, int64_t value);  // 0 or 1
void check_static(const char* op, bool is_static, const std::optional<Tensor>& scale);
void check_dynamic_quant(const char* op, const Tensor& input, const std::optional<Tensor>& smooth_scales,
                         const std::optional<Tensor>& group_index, c10::string_view mode, double dst_type_max,
                         std::optional<int64_t> dst_type);
void check_dequant_swiglu_quant(const Tensor& x, const std::optional<Tensor>& weight_scale,
                                const std::optional<Tensor>& bias, const std::optional<Tensor>& quant_scale,
                                int64_t quant_mode, int64_t swiglu_mode);
void check_quant_scatter(const char* op, const Tensor& input, const Tensor& indices, const Tensor& updates,
                         int64_t axis, c10::string_view reduce, std::optional<int64_t> dst_type,
                         const std::optional<c10::string_view>& round_mode);
// Returns `t`; for an operator of the provider that is too old for what is asked.
const Tensor& only_if(bool condition, const char* op, const char* what, const Tensor& t);

// ---- Sizes

// Of x1 x2, where int32 stands for int4 along the last dimension of x1, and along the last or the one before it of x2.
results::Dims product_sizes(const char* op, const Tensor& x1, const Tensor& x2);
results::Dims scale_sizes(const Tensor& input, c10::string_view mode);  // of a dynamic quantisation
results::Dims trans_quant_sizes(const Tensor& scale, const std::optional<Tensor>& offset);
results::Dims conv2d_sizes(const Tensor& input, const Tensor& weight, at::IntArrayRef strides, at::IntArrayRef pads,
                           at::IntArrayRef dilations);

// ---- Arguments of aclnn operators

void check_quant_matmul(const Tensor& x1, const Tensor& x2, const Tensor& scale, const std::optional<Tensor>& offset,
                        const std::optional<Tensor>& pertoken_scale);
void check_matmul_dequant(const char* op, const Tensor& x, const Tensor& weight, const Tensor& weight_scale,
                          const std::optional<c10::string_view>& mode, int64_t dim);
at::ScalarType matmul_type(std::optional<int64_t> output_dtype);
// The scale in the form that a product wants: an int64 of npu_trans_quant_param where nothing else is scaled.
Tensor matmul_scale(const Tensor& scale, const std::optional<Tensor>& offset,
                    const std::optional<Tensor>& pertoken_scale, at::ScalarType out);
// A scale of a result in the same form.
std::optional<Tensor> result_scale(const std::optional<Tensor>& scale, const std::optional<Tensor>& offset);
int64_t group_numbers(const char* op, const at::OptionalIntArrayRef& sizes);  // three of 16 bits
// Which of two quantised results are asked for.
std::array<bool, 2> dynamic_quant_mask(const std::optional<Tensor>& smooth1, const std::optional<Tensor>& smooth2,
                                       const std::optional<std::array<bool, 2>>& mask);

}  // namespace npu::ops
