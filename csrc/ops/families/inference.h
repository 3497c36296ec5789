// What the rows of attention for inference say of their layouts: refusals, and the tensors that are made.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/OptionalArrayRef.h>

#include "ops/results.h"

namespace npu::ops {

using at::Tensor;

// Lengths as the device takes them; those of a traced graph have no numbers yet, and are not launched.
std::optional<c10::IntArrayRef> ints(const at::OptionalSymIntArrayRef& lengths);

void check_attention(const char* op, const Tensor& query, const Tensor& value, std::string_view layout, int64_t heads,
                     int64_t kv_heads, bool paged);
// Sequences in a row have no batch: their ends must be given, and lengths of keys for a paged cache.
void check_lengths(const char* op, std::string_view layout, bool queries, bool keys, bool paged);
void check_absent(const char* op, std::initializer_list<std::pair<const char*, bool>> given);
void check_ranks(const char* op, std::initializer_list<std::tuple<const char*, const Tensor&, int64_t>> tensors);
// head_nums heads each of query, key and value, of qkv_size[3] numbers, make up a row of qkv.
void check_heads(const char* op, const Tensor& qkv, c10::IntArrayRef qkv_size, c10::IntArrayRef head_nums);
void check_results(const char* op, at::TensorList out, size_t count);

// kv_heads 0 stands for as many as the query's.
results::Result attention_result(const Tensor& query, const Tensor& value, std::string_view layout, int64_t heads,
                                 int64_t kv_heads, bool paged, at::ScalarType type);
at::ScalarType attention_type(const Tensor& query, const std::optional<Tensor>& quant_scale,
                              const std::optional<Tensor>& query_rope = std::nullopt);
// The logarithm of each row's sum.
results::Result attention_sums(bool wanted, const Tensor& query, std::string_view layout, int64_t heads);

// Rows before they are quantised, where the operator gives them.
inline results::Result before_quant(const Tensor& qkv, bool wanted, int64_t size) {
  return wanted ? results::sized({qkv.sym_size(0), size}, qkv) : results::sized({}, qkv);
}

// Latent attention's prolog: (tokens ..., heads, size) of its results, and a scale of each token and head.
void check_prolog(const char* op, const Tensor& token_x, const Tensor& weight_uk, const Tensor& rope_sin);
void check_prolog_modes(const char* op, int64_t weight_mode, int64_t cache_mode);
results::Result prolog_query(const Tensor& token_x, const Tensor& weight_uk, bool quantised, at::ScalarType otherwise);
results::Result prolog_rope(const Tensor& token_x, const Tensor& weight_uk, const Tensor& rope_sin);
results::Result prolog_scale(const Tensor& token_x, const Tensor& weight_uk, bool quantised, int64_t otherwise);

// A result that this call does not have is not given to the device.
inline std::optional<Tensor> unless_empty(const Tensor& t) { return t.numel() ? std::optional(t) : std::nullopt; }

std::vector<Tensor> copies(at::TensorList list);

}  // namespace npu::ops
