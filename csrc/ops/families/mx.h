// Quantisation to MX blocks and to 8 bits: numbers of types in arguments such as dst_type, what is refused, and the
// tensors that come out.
#pragma once

#include <ATen/core/Tensor.h>

#include "aclnn/stored.h"
#include "ops/results.h"

namespace npu::ops {

using at::Tensor;

// The ABI's type behind a number: torch's own below 256, torch_npu.float8_e8m0fnu and the like from there. Throws.
aclDataType type_behind(int64_t number);
inline TypeNumber type_number(int64_t number) { return {type_behind(number)}; }
inline Stored stored(const Tensor& t, int64_t number) { return {t, type_behind(number)}; }
// Pairs of numbers must lie side by side along the last dimension; bytes may lie anywhere.
inline Stored stored_input(const Tensor& t, int64_t number) {
  const auto type = type_behind(number);
  return {in_pairs(type) ? t.contiguous() : t, type};
}
inline Stored scales(const Tensor& t) { return {t, ACL_FLOAT8_E8M0}; }
// `value`, where an older operator serves as well because `holds`.
template <class T>
T unless_newer(const char* op, const char* argument, bool holds, T value) {
  TORCH_CHECK(holds, op, ": this version of CANN does not take ", argument, "; leave it at its default");
  return value;
}

// How the scale of an MX block is made.
struct MxScaling {
  std::string_view round_mode;
  int64_t algorithm = 0;
  double dst_type_max = 0;
  bool e1m2_by_maximum = false;  // whether float4_e1m2 takes algorithm 2
};
struct GroupChoice {
  int64_t dst_type, quant_mode, block_size;
  bool round_scale;
  double dst_type_max;
};
struct GatedChoice {
  int64_t activate_dim, axis, swiglu_mode, group_mode;
};

// `last` is the length of the last dimension of what is quantised.
void check_mx(const char* op, const Tensor& input, const c10::SymInt& last, int64_t dst_type, const MxScaling& scaling);
void check_dynamic_mx(const char* op, const Tensor& input, int64_t axis, int64_t dst_type, int64_t block_size,
                      const MxScaling& scaling, double max_low_bound);
void check_planes(const char* op, const Tensor& input, int64_t most);  // 2 to `most` dimensions
void check_levels(const char* op, const Tensor& input, const std::optional<Tensor>& smooth_scale,
                  std::string_view round_mode);
void check_group_list(const char* op, const Tensor& ends, int64_t kind);
void check_grouped_mx(const char* op, const Tensor& x, const Tensor& ends, int64_t dst_type, int64_t block_size,
                      const MxScaling& scaling);
void check_norm_mx(const char* op, const Tensor& x, const Tensor& gamma, int64_t dst_type, const MxScaling& scaling);
void check_swiglu_mx(const char* op, const Tensor& x, const std::optional<Tensor>& group_index,
                     const GatedChoice& choice, double clamp_limit, int64_t dst_type, const MxScaling& scaling);
void check_swiglu_group(const char* op, const Tensor& x, const std::optional<Tensor>& weight,
                        const std::optional<Tensor>& group_index, const GroupChoice& choice);
void check_dequantized(const char* op, const Tensor& x, const Tensor& scale, int64_t axis, int64_t dst_type,
                       int64_t src_type);
void check_cast(const char* op, const Tensor& input, int64_t from, int64_t to);
// The type that the numbers of `t` have, unless the caller says another.
inline int64_t number_of(at::ScalarType dtype, std::optional<int64_t> said) {
  return said.value_or(static_cast<int64_t>(dtype));
}
inline int64_t number_in(const Tensor& t, std::optional<int64_t> said) { return number_of(t.scalar_type(), said); }
// To 8 bits with a scale of float32; int8 where `with_int8`.
void check_byte_type(const char* op, const char* argument, int64_t number, std::string_view round_mode, bool with_int8);
void check_block_quant(const char* op, const Tensor& x, double min_scale, int64_t dst_type, double dst_type_max);
void check_quant_max(const char* op, const Tensor& scale, const std::optional<Tensor>& group_list);

namespace results {

// Quantised numbers in a tensor of `sizes`: float4 in pairs.
Result quantized(Dims sizes, int64_t type);
// Scales of blocks along `axis`, in pairs, which are the last dimension.
Result mx_scales(Dims sizes, int64_t axis, int64_t block_size);
// The same for groups along `axis`, each of which begins with a pair.
Result mx_group_scales(Dims sizes, int64_t axis, const c10::SymInt& groups);
Result mx_gated_scales(const Dims& sizes, int64_t axis, const std::optional<Tensor>& group_index);
// float32 scales of blocks of rows and columns, the last dimensions; `groups` begin with a block each.
Result block_scales(const Tensor& x, int64_t rows, int64_t columns, const std::optional<c10::SymInt>& groups);
// The numbers of `x`, which are of type `from`, as type `to`.
Result converted(const Tensor& x, int64_t from, int64_t to);
// Of a normalisation, where the backward pass will ask for it.
Result rstd_for_gradient(const Tensor& x, const Tensor& gamma);
inline Dims gated(const Tensor& x, int64_t dim) { return with_dim(x, dim, x.sym_size(dim) / 2); }

}  // namespace results
}  // namespace npu::ops
