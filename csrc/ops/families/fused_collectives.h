// Products fused with collectives: what the rows of csrc/ops/tables/fused_collectives.yaml refuse.
#pragma once

#include <numeric>

#include "ops/families/moe.h"

namespace npu::ops {

// Matrices [.., m, k] and [k, n] of one floating type.
inline void check_product(const char* op, const char* name, const Tensor& a, const Tensor& b, int64_t most) {
  check_rank(op, name, a, 2, most);
  check_rank(op, "x2", b, 2, 2);
  TORCH_CHECK(a.sym_size(-1) == b.sym_size(0), op, ": ", name, " has ", a.sym_size(-1), " columns, x2 ", b.sym_size(0),
              " rows");
  TORCH_CHECK(a.is_floating_point() && a.scalar_type() == b.scalar_type(), op, ": ", name, " is ", a.scalar_type(),
              " and x2 ", b.scalar_type(), ", expected one floating type");
}

inline void check_sum(const char* op, std::string_view reduce_op) {
  TORCH_CHECK(reduce_op == "sum", op, ": reduce_op is \"", reduce_op, "\", expected \"sum\"");
}

inline void check_absent(const char* op,
                         std::initializer_list<std::pair<const char*, bool>> arguments) {  // (name, is given)
  for (const auto& [name, given] : arguments) check_absent(op, name, given);
}

// Rows for each expert of each rank.
inline int64_t check_counts(const char* op, const char* name, at::IntArrayRef counts, const Tensor& weight,
                            int64_t ranks) {
  check_rank(op, "gmm_weight", weight, 3, 3);
  check_in(op, "ep_world_size", ranks, 1, INT64_MAX);
  TORCH_CHECK(weight.sym_size(0) * ranks == static_cast<int64_t>(counts.size()), op, ": ", name, " has ", counts.size(),
              " numbers, expected one for each of ", weight.sym_size(0), " experts of ", ranks, " ranks");
  int64_t rows = 0;
  for (const int64_t count : counts) {
    TORCH_CHECK(count >= 0, op, ": ", name, " has ", count, ", expected numbers of rows");
    rows += count;
  }
  return rows;
}

inline int64_t total(at::IntArrayRef counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

inline constexpr int64_t kStopOnFailure = 1;  // stream_mode

}  // namespace npu::ops
