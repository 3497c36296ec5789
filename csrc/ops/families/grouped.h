// What rows of products in groups share: the lists of results, and the lists that may be absent.
#pragma once

#include "ops/families/quant.h"

namespace npu::ops {

// Sizes of an expert's matrix; int32 stands for int4 along the last dimension, or, as `k` tells, the one before it.
c10::SymInt columns_of(const char* op, const Tensor& weight, const c10::SymInt& k);

// What a grouped product is asked for, apart from its operands.
struct Grouping {
  int64_t split_item, type, list_type, activation;
  bool by_tensor;                          // groups are in a tensor
  std::optional<at::IntArrayRef> ends;     // groups are in a list of numbers
  std::optional<c10::SymInt> list_length;  // of the tensor
};
void check_grouped_matmul(at::TensorList x, at::TensorList weight, const Grouping& grouping);
void check_quantised_experts(at::TensorList x, at::TensorList weight, const std::optional<at::TensorList>& bias,
                             const std::optional<at::TensorList>& scale,
                             const std::optional<at::TensorList>& antiquant_scale);
std::vector<results::Result> grouped_results(at::TensorList x, at::TensorList weight, const Grouping& grouping,
                                             at::ScalarType dtype);
at::ScalarType grouped_type(at::TensorList x, std::optional<int64_t> output_dtype);

inline Grouping grouping(const std::optional<Tensor>& list, std::optional<int64_t> split_item,
                         std::optional<int64_t> group_type, std::optional<int64_t> list_type,
                         std::optional<int64_t> activation) {
  return {split_item.value_or(0),
          group_type.value_or(-1),
          list_type.value_or(0),
          activation.value_or(0),
          list.has_value(),
          std::nullopt,
          list && list->dim() > 0 ? std::optional(list->sym_size(0)) : std::nullopt};
}
inline Grouping grouping(const at::OptionalIntArrayRef& ends, std::optional<int64_t> split_item) {
  return {split_item.value_or(0),
          ends && !ends->empty() ? 0 : -1,
          0,
          0,
          false,
          ends && !ends->empty() ? std::optional<at::IntArrayRef>(*ends) : std::nullopt,
          std::nullopt};
}

// An empty list is an absent one.
inline std::optional<at::TensorList> listed(const std::optional<at::TensorList>& list) {
  return list && !list->empty() ? list : std::nullopt;
}
inline bool given(const std::optional<at::TensorList>& list) { return list && !list->empty(); }

void check_grouped_add(const char* op, const Tensor& input, const Tensor& x, const Tensor& weight,
                       const Tensor& group_list, bool transpose_x, bool transpose_weight, int64_t group_type,
                       std::optional<int64_t> list_type);
void check_experts(const char* op, const Tensor& x, const Tensor& weight, const Tensor& group_list, int64_t list_type,
                   const std::optional<Tensor>& bias);
void check_ffn(const Tensor& x, const Tensor& weight1, const Tensor& weight2, c10::string_view activation,
               const at::OptionalIntArrayRef& tokens, const at::OptionalIntArrayRef& ends,
               const std::optional<Tensor>& deq_scale1, const std::optional<Tensor>& deq_scale2,
               const std::optional<Tensor>& antiquant_scale1, const std::optional<Tensor>& antiquant_scale2);
inline at::IntArrayRef tokens_of(const at::OptionalIntArrayRef& tokens, const at::OptionalIntArrayRef& ends) {
  return tokens ? *tokens : ends ? *ends : at::IntArrayRef();
}

// npu_transpose_batchmatmul: a permutation or its default, and the result.
at::DimVector permutation(const char* argument, const at::OptionalIntArrayRef& perm, at::IntArrayRef otherwise,
                          std::initializer_list<std::array<int64_t, 3>> accepted);
results::Result transposed_product(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& scale,
                                   const at::OptionalIntArrayRef& perm_x1, const at::OptionalIntArrayRef& perm_x2,
                                   std::optional<int64_t> split);
results::Dims plain_product_sizes(const char* op, const Tensor& x1, const Tensor& x2);

// `sizes`, or others for as many elements.
results::Dims viewed(const char* op, results::Dims sizes, at::IntArrayRef others);

}  // namespace npu::ops

namespace npu::ops::results {
std::vector<Tensor> make(const Tensor& on, const std::vector<Result>& each);
}
