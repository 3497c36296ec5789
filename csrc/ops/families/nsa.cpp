#include "ops/families/nsa.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "ops/checks/custom.h"

namespace npu::ops {

void check_ends(const char* op, std::initializer_list<std::pair<const char*, bool>> given) {
  for (const auto& [name, there] : given)
    TORCH_CHECK(there, op, ": ", name, " is absent, expected the ends of the sequences");
}

void check_windows(const char* op, const Tensor& input, int64_t rank, int64_t block, int64_t stride) {
  TORCH_CHECK(input.dim() == rank, op, ": input has ", input.dim(), " dimensions, expected ", rank);
  TORCH_CHECK(stride > 0 && block >= stride, op, ": compress_block_size and compress_stride are ", block, " and ",
              stride, ", expected a positive stride that is not larger than the block");
}

void check_heads_in_a_row(const char* op, const Tensor& query, const Tensor& key, const Tensor& value, int64_t heads) {
  TORCH_CHECK(query.dim() == 3 && key.dim() == 3 && value.dim() == 3, op, ": query, key and value have ", query.dim(),
              ", ", key.dim(), " and ", value.dim(), " dimensions, expected (tokens, heads, size)");
  TORCH_CHECK(query.sym_size(1) == heads, op, ": head_num is ", heads, ", query has ", query.sym_size(1), " heads");
}

void check_step(const char* op, const Tensor& query, const Tensor& value, std::string_view layout, int64_t heads,
                int64_t kv_heads, std::initializer_list<const char*> layouts) {
  check_one_of(op, "layout", layout, layouts);
  const int64_t rank = layout == "BSND" ? 4 : 3;
  TORCH_CHECK(query.dim() == rank, op, ": query has ", query.dim(), " dimensions, expected ", rank, " of the layout ",
              layout);
  TORCH_CHECK(value.dim() == 3 || value.dim() == 4, op, ": value has ", value.dim(), " dimensions, expected 3 or 4");
  TORCH_CHECK(heads > 0 && kv_heads > 0 && heads % kv_heads == 0, op, ": head_num ", heads,
              " is no multiple of key_value_head_num ", kv_heads);
}

results::Result compressed(const Tensor& input, const at::OptionalIntArrayRef& ends, int64_t block, int64_t stride) {
  int64_t rows = 0, begin = 0;
  for (const int64_t end : ends.value_or(c10::IntArrayRef())) {
    if (end - begin >= block) rows += (end - begin - block) / stride + 1;
    begin = end;
  }
  return results::sized(results::with_dim(input, 0, rows), input);
}

results::Result by_heads(const Tensor& query, const c10::SymInt& last, at::ScalarType type) {
  return results::sized(results::with_dim(query, 2, last), type);
}

results::Result step_result(const Tensor& query, const Tensor& value, std::string_view layout, int64_t heads,
                            int64_t kv_heads) {
  const auto size = value.dim() == 4 ? value.sym_size(3) : value.sym_size(2) / kv_heads;
  return results::sized(results::with_dim(query, -1, layout == "BSH" ? size * heads : size), query);
}

results::Result step_indices(const Tensor& query, std::string_view layout, int64_t kv_heads, int64_t count) {
  return layout == "BSND" ? results::sized({query.sym_size(0), query.sym_size(1), kv_heads, count}, at::kInt)
                          : results::sized({query.sym_size(0), kv_heads, count}, at::kInt);
}

}  // namespace npu::ops
