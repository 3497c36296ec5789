#include "ops/families/sparse_attention.h"

#include <c10/util/Exception.h>

#include "ops/checks/custom.h"

namespace npu::ops {

namespace {

void check_rank(const char* op, const char* name, const Tensor& t, std::string_view layout) {
  const int64_t rank = layout == "TND" ? 3 : 4;
  TORCH_CHECK(t.dim() == rank, op, ": ", name, " has ", t.dim(), " dimensions, expected ", rank, " of the layout ",
              layout);
}

}  // namespace

void check_sparse(const SparseLayouts& in) {
  check_one_of(in.op, "the layout of query", in.layout, {"BSND", "TND"});
  check_one_of(in.op, in.keys, in.kv_layout, {"BSND", "TND", "PA_BSND"});
  TORCH_CHECK(in.kv_layout == "PA_BSND" || in.kv_layout == in.layout, in.op, ": ", in.keys, " is ", in.kv_layout,
              ", expected PA_BSND or the layout of query, ", in.layout);
  check_rank(in.op, "query", in.query, in.layout);
  check_rank(in.op, "key", in.key, in.kv_layout);
  TORCH_CHECK(in.key.sym_size(-2) > 0 && in.query.sym_size(-2) % in.key.sym_size(-2) == 0, in.op, ": query has ",
              in.query.sym_size(-2), " heads, expected a multiple of those of key, ", in.key.sym_size(-2));
  TORCH_CHECK(in.layout != "TND" || in.q_lengths, in.op,
              ": the layout TND needs the ends of the query's sequences, give their actual lengths");
  TORCH_CHECK(in.kv_layout == "BSND" || in.kv_lengths, in.op, ": the layout ", in.kv_layout,
              " needs the actual lengths of the keys' sequences");
  TORCH_CHECK((in.kv_layout == "PA_BSND") == in.block_table, in.op, ": block_table belongs to the layout PA_BSND, ",
              in.keys, " is ", in.kv_layout);
}

void check_sparse_mode(const char* op, int64_t sparse_mode) {
  TORCH_CHECK(sparse_mode == 0 || sparse_mode == 3, op, ": sparse_mode is ", sparse_mode, ", expected 0 or 3");
}

void check_attention_mode(const char* op, int64_t attention_mode) {
  TORCH_CHECK(attention_mode == 0 || attention_mode == 2, op, ": attention_mode is ", attention_mode,
              ", expected 2 for absorbed latent attention, or 0");
}

void check_values(const char* op, bool return_value, std::string_view layout_key) {
  TORCH_CHECK(return_value && layout_key != "PA_BSND", op,
              ": a gradient needs return_value=True and keys that are not in a cache");
}

void check_statistics(const char* op, bool returned, std::string_view layout_kv) {
  TORCH_CHECK(returned && layout_kv != "PA_BSND", op,
              ": a gradient needs return_softmax_lse=True and keys that are not in a cache");
}

void check_blocks(const char* op, const Tensor& query, const Tensor& key, const Tensor& value, c10::IntArrayRef shape,
                  std::string_view layout, std::string_view kv_layout, bool q_lengths, bool kv_lengths) {
  check_one_of(op, "q_input_layout", layout, {"TND", "BNSD"});
  TORCH_CHECK(layout == kv_layout, op, ": kv_input_layout is ", kv_layout, ", expected that of the query, ", layout);
  check_rank(op, "query", query, layout);
  check_rank(op, "key", key, layout);
  check_rank(op, "value", value, layout);
  TORCH_CHECK(query.scalar_type() == key.scalar_type() && key.scalar_type() == value.scalar_type(), op,
              ": query, key and value have the types ", query.scalar_type(), ", ", key.scalar_type(), " and ",
              value.scalar_type(), ", expected one");
  TORCH_CHECK(shape.size() >= 2 && shape[0] > 0 && shape[1] > 0 && shape[1] % 128 == 0, op, ": block_shape is ", shape,
              ", expected two positive sizes, the second a multiple of 128");
  TORCH_CHECK(layout != "TND" || q_lengths, op, ": the layout TND needs actual_seq_lengths");
  TORCH_CHECK(layout != "TND" || kv_lengths, op, ": the layout TND needs actual_seq_lengths_kv");
}

void check_sums(const char* op, std::optional<int64_t> softmax_lse_flag) {
  TORCH_CHECK(softmax_lse_flag.value_or(0) == 1, op, ": a gradient needs softmax_lse_flag=1");
}

void check_precision(const char* op, const Tensor& query, int64_t inner_precise) {
  TORCH_CHECK(inner_precise == 0 || inner_precise == 1, op, ": inner_precise is ", inner_precise, ", expected 0 or 1");
  TORCH_CHECK(inner_precise == 0 || query.scalar_type() != at::kBFloat16, op,
              ": inner_precise is 1, expected 0 for bfloat16");
}

void check_packed(const char* op, int64_t key_mode, int64_t value_mode, int64_t scale_mode, int64_t rope,
                  const Tensor& query) {
  TORCH_CHECK(key_mode == 2 && value_mode == 2, op, ": key_quant_mode and value_quant_mode are ", key_mode, " and ",
              value_mode, ", expected 2, a scale for each tile");
  TORCH_CHECK(scale_mode == 1, op, ": quant_scale_repo_mode is ", scale_mode,
              ", expected 1, scales beside the numbers");
  TORCH_CHECK(rope >= 0 && query.sym_size(-1) >= rope, op, ": rope_head_dim is ", rope, ", query has heads of ",
              query.sym_size(-1));
}

void check_count(const char* op, int64_t sparse_count) {
  TORCH_CHECK(sparse_count > 0, op, ": sparse_count is ", sparse_count, ", expected a positive number");
}

results::Result chosen(const Tensor& query, const Tensor& key, int64_t count, at::ScalarType dtype) {
  auto sizes = results::dims(query);
  sizes[sizes.size() - 2] = key.sym_size(-2);
  sizes.back() = count;
  return results::sized(std::move(sizes), dtype);
}

results::Result row_statistics(bool wanted, const Tensor& query, const Tensor& key) {
  if (!wanted) return results::none(at::kFloat);
  const auto heads = key.sym_size(-2), group = query.sym_size(-2) / heads;
  return query.dim() == 3 ? results::sized({heads, query.sym_size(0), group}, at::kFloat)
                          : results::sized({query.sym_size(0), heads, query.sym_size(1), group}, at::kFloat);
}

results::Result index_statistics(const Tensor& query, const Tensor& key) {
  return query.dim() == 3 ? results::sized({key.sym_size(1), query.sym_size(0)}, at::kFloat)
                          : results::sized({query.sym_size(0), key.sym_size(2), query.sym_size(1)}, at::kFloat);
}

const Tensor& without_sinks(const char* op, const std::optional<Tensor>& sinks, const Tensor& argument) {
  TORCH_CHECK(!sinks, op, ": this version of CANN has no operator that takes sinks, leave them out");
  return argument;
}

}  // namespace npu::ops
