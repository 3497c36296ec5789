// Products of quantised numbers: types that arguments name by number, and what the rows of
// csrc/ops/tables/quant_products.yaml refuse. Sizes may be symbolic.
#pragma once

#include "ops/families/grouped.h"
#include "ops/families/mx.h"

namespace npu::ops {

// The type of the numbers in `t`: the one behind `number`, or its own.
aclDataType type_in(const Tensor& t, std::optional<int64_t> number);
// `t` as that type. Nothing where there is no tensor.
Stored typed(const Tensor& t, std::optional<int64_t> number);
inline Stored typed(const std::optional<Tensor>& t, std::optional<int64_t> number) {
  return t ? typed(*t, number) : Stored{Tensor(), ACL_FLOAT};
}

// `list` as that type; `turned`: matrices whose pairs of numbers lie along their rows.
StoredList typed_list(const std::optional<at::TensorList>& list, std::optional<int64_t> number, bool turned = false);

// A matrix with the scale of its numbers.
struct Quantised {
  const char* name;
  const Tensor& numbers;
  std::optional<int64_t> number;  // of the type
  std::optional<Tensor> scale;
  std::optional<int64_t> scale_number;
};

// npu_quant_matmul: x1 x2, each number times its scale. int8 and int4, whose scales are those of rows, columns or
// blocks, or float8, hifloat8 and float4, whose scales may be MX pairs along the sum.
struct QuantProduct {
  Quantised x1, x2;
  int64_t groups;

  bool is_integral() const;
  void check(const std::optional<Tensor>& offset, const std::optional<Tensor>& bias) const;
  results::Dims sizes() const;
  at::ScalarType type(std::optional<int64_t> output_dtype) const;
  void launch(const std::optional<Tensor>& offset, const std::optional<Tensor>& bias, const Tensor& out) const;
};

// npu_grouped_matmul of float8, hifloat8 and float4 numbers: rows of one x by stacked weights. False for other numbers.
struct GroupedProduct {
  at::TensorList x, weight;
  std::optional<at::TensorList> scale, pertoken;
  std::optional<int64_t> x_number, weight_number, scale_number, pertoken_number;

  bool check(const Grouping& grouping, const std::optional<at::TensorList>& bias, std::optional<int64_t> output_dtype,
             bool others) const;
};

// input += x1 x2, with a scale for each matrix or each column of x2, or with MX scales along the sum. The sum is in
// groups that `group_list` says where there is one.
void check_add_quant(const char* op, const Tensor& input, const Quantised& x1, const Quantised& x2,
                     const std::optional<Tensor>& group_list, int64_t list_type);
void check_dual_level(const Tensor& x1, const Tensor& x2, const Tensor& x1_level0, const Tensor& x2_level0,
                      const Tensor& x1_level1, const Tensor& x2_level1, const std::optional<Tensor>& bias);
void check_kronecker(const Tensor& x, const Tensor& p1, const Tensor& p2, std::optional<double> clip_ratio,
                     std::optional<int64_t> dst_dtype, std::optional<double> dst_type_max);
inline bool in_float4(std::optional<int64_t> dst_dtype) { return dst_dtype && *dst_dtype == 296; }
void check_transpose_quant(const Quantised& x1, const Quantised& x2, int64_t dtype, bool turned,
                           std::optional<int64_t> split);
// int8 by int8, or int4 by int4, with a scale for each row, and one for each column or for all.
void check_matmul_gelu(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                       const std::optional<Tensor>& bias);
void check_lora(const char* op, const Tensor& input, const Tensor& x, const Tensor& weight_b, const Tensor& indices,
                const std::optional<Tensor>& weight_a, int64_t layer, int64_t offset, int64_t slice);
inline int64_t slice_of(const Tensor& input, int64_t slice) { return slice == -1 ? input.size(1) : slice; }

namespace results {

// Of the type behind `number`, in bytes where torch has none.
Result of_type(Dims sizes, int64_t number);
Result kronecker_numbers(const Tensor& x, bool float4);
Result kronecker_scales(const Tensor& x, bool float4);

}  // namespace results
}  // namespace npu::ops
