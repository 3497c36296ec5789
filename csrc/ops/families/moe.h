// Mixture of experts: what the rows of csrc/ops/tables/moe.yaml ask for beyond the common rules. Sizes may be symbolic.
#pragma once

#include "ops/results.h"

namespace npu::ops {

using at::Tensor;

// Refusals, in words that name operator and argument.
void check_choices(const char* op, const Tensor& x, int64_t k);  // of experts, the last dimension
void check_gate(const char* op, const Tensor& x, int64_t k, int64_t k_group, int64_t group_count,
                int64_t group_select_mode, int64_t norm_type);
void check_rank(const char* op, const char* name, const Tensor& t, int64_t least, int64_t most);  // dimensions
void check_in(const char* op, const char* name, int64_t value, int64_t least, int64_t most);
void check_absent(const char* op, const char* name, bool given);
void check_routing(const char* op, const Tensor& x, const Tensor& expert_idx, int64_t drop_pad_mode, int64_t capacity,
                   int64_t expert_num);
// sorted_indices has `choices` numbers for each of `tokens`.
void check_pairs(const char* op, const Tensor& sorted_indices, const c10::SymInt& choices);
void check_routing_map(const char* op, const Tensor& tokens, const Tensor& routing_map,
                       const std::optional<Tensor>& probs);

void check_init_routing(const char* op, int64_t expert_tokens_num_type, int64_t quant_mode, int64_t row_idx_type,
                        int64_t drop_pad_mode, std::array<int64_t, 2> range);
// One scale for each token (quant_mode -1), one for all (0), one for each column, of each expert or of all (1).
void check_scale(const char* op, const Tensor& x, const std::optional<Tensor>& scale,
                 const std::optional<Tensor>& offset, int64_t quant_mode);
void check_finalize(const char* op, const Tensor& rows, const Tensor& places, const std::optional<Tensor>& bias,
                    const std::optional<Tensor>& scales, const std::optional<Tensor>& experts, int64_t drop_pad_mode,
                    int64_t k);
void check_restored(const char* op, at::IntArrayRef restore_shape, const std::optional<Tensor>& probs,
                    const std::optional<Tensor>& routing_map);

// ---- Results

using results::Dims;
using results::Result;

// Rows that npu_moe_token_permute makes: as many as asked for, or all but as many as asked for.
c10::SymInt permuted_rows(const Tensor& indices, std::optional<int64_t> num_out_tokens);
c10::SymInt choices_of(const Tensor& indices);  // of experts for a token
inline c10::SymInt choices_of(const std::optional<Tensor>& probs) {
  return probs ? probs->sym_size(1) : c10::SymInt(1);
}
// Rows that npu_moe_token_permute_with_routing_map makes: as many for each token, or with `padded` for each expert.
c10::SymInt mapped_rows(const Tensor& tokens, const Tensor& routing_map, std::optional<int64_t> num_out_tokens,
                        bool padded);
// Tokens in the order of their experts, and a number for each of these rows.
Dims expanded_rows(const Tensor& x, const Tensor& expert_idx, int64_t active_num, int64_t expert_num, int64_t capacity,
                   bool padded, bool with_width);
Dims counted_tokens(int64_t type, int64_t expert_num, at::IntArrayRef range);
c10::SymInt finalized_rows(const Tensor& places, const std::optional<Tensor>& scales, std::optional<int64_t> k);

// ---- Arguments

std::array<int64_t, 2> expert_range(at::IntArrayRef range, int64_t expert_num);  // all experts without one
// Returns `rows`; the older operator counts a token's rows by scales alone.
inline const Tensor& with_choices(bool known, const Tensor& rows) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      known, "npu_moe_finalize_routing: k without scales needs a CANN that has aclnnMoeFinalizeRoutingV4");
  return rows;
}
inline int64_t plain(const c10::SymInt& size) { return size.guard_int(__FILE__, __LINE__); }
inline at::IntArrayRef or_one(at::OptionalIntArrayRef shape) {
  static constexpr int64_t kOne = 1;
  return shape.has_value() ? *shape : at::IntArrayRef(kOne);
}
// Row and token of each pair, token by token, of what npu_moe_token_permute_with_routing_map calls sorted_indices.
Tensor order_of(const Tensor& sorted_indices, bool padded);
Tensor owners_of(const Tensor& sorted_indices, bool padded);
// A result that this call does not have is not there.
inline Tensor only_if(bool condition, const Tensor& t) { return condition ? t : Tensor(); }

}  // namespace npu::ops
