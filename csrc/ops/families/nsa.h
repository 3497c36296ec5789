// What the rows of native sparse attention say of their lengths and layouts: refusals, and the tensors that are made.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/OptionalArrayRef.h>

#include "ops/results.h"

namespace npu::ops {

using at::Tensor;

// Sequences in a row, whose ends must be given.
void check_ends(const char* op, std::initializer_list<std::pair<const char*, bool>> given);
void check_windows(const char* op, const Tensor& input, int64_t rank, int64_t block, int64_t stride);
void check_heads_in_a_row(const char* op, const Tensor& query, const Tensor& key, const Tensor& value, int64_t heads);
void check_step(const char* op, const Tensor& query, const Tensor& value, std::string_view layout, int64_t heads,
                int64_t kv_heads, std::initializer_list<const char*> layouts);

// A token for every window of each sequence.
results::Result compressed(const Tensor& input, const at::OptionalIntArrayRef& ends, int64_t block, int64_t stride);
// (tokens, heads, last) of a query that is (tokens, heads, size).
results::Result by_heads(const Tensor& query, const c10::SymInt& last, at::ScalarType type);
// Attention of one token of each sequence, in the layout of the query, and indices for each head of the keys.
results::Result step_result(const Tensor& query, const Tensor& value, std::string_view layout, int64_t heads,
                            int64_t kv_heads);
results::Result step_indices(const Tensor& query, std::string_view layout, int64_t kv_heads, int64_t count);

}  // namespace npu::ops
