// What the rows of sparse attention say of their layouts: refusals, and the tensors that are made.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/results.h"

namespace npu::ops {

using at::Tensor;

// BSND or TND for queries; the same or PA_BSND, with a block table, for keys. `keys` names the argument of their
// layout.
struct SparseLayouts {
  const char* op;
  const Tensor& query;
  std::string_view layout;
  bool q_lengths;
  const Tensor& key;
  const char* keys;
  std::string_view kv_layout;
  bool kv_lengths, block_table;
};
void check_sparse(const SparseLayouts& in);
void check_sparse_mode(const char* op, int64_t sparse_mode);
void check_attention_mode(const char* op, int64_t attention_mode);
void check_values(const char* op, bool return_value, std::string_view layout_key);
void check_statistics(const char* op, bool returned, std::string_view layout_kv);
void check_blocks(const char* op, const Tensor& query, const Tensor& key, const Tensor& value, c10::IntArrayRef shape,
                  std::string_view layout, std::string_view kv_layout, bool q_lengths, bool kv_lengths);
// Sums of exponentials, which the gradient needs.
void check_sums(const char* op, std::optional<int64_t> softmax_lse_flag);
void check_precision(const char* op, const Tensor& query, int64_t inner_precise);
void check_packed(const char* op, int64_t key_mode, int64_t value_mode, int64_t scale_mode, int64_t rope,
                  const Tensor& query);
void check_count(const char* op, int64_t sparse_count);

// (..., heads of the keys, count), for each token of the query.
results::Result chosen(const Tensor& query, const Tensor& key, int64_t count, at::ScalarType dtype);
// (sequences, heads, length, group), or (heads, all tokens, group); nothing if it is not wanted.
results::Result row_statistics(bool wanted, const Tensor& query, const Tensor& key);
// (sequences, heads, length), or (heads, all tokens).
results::Result index_statistics(const Tensor& query, const Tensor& key);

// An argument of the version of an operator that has no sinks.
const Tensor& without_sinks(const char* op, const std::optional<Tensor>& sinks, const Tensor& argument);

}  // namespace npu::ops
