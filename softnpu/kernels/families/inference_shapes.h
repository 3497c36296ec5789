// What the shapes of attention for inference say: its layouts, and where each sequence lies.
#pragma once

#include "kernels/families/inference.h"

namespace softnpu::kernels::infer {

struct Layout {
  std::string_view name, in, out;
};

struct Place {
  int64_t begin, length;
};

struct Shapes {
  Layout layout;
  bool ragged;                     // sequences in a row, without padding
  int64_t batch, q_rows, kv_rows;  // q_rows, kv_rows: with padding
  int64_t kv_heads, prefix;
  std::vector<Place> queries, keys;

  bool all_rows(const Inputs& in) const;  // whether every row of the query belongs to a sequence
  bool single(const Inputs& in) const { return !ragged && q_rows == 1 && !in.query_rope; }
};

// (batch, heads, sequence, size) of a tensor that has the layout's rank; a batch of one for sequences in a row.
Tensor apart(const Tensor& t, std::string_view layout, int64_t heads);
// (blocks, heads, tokens of a block, size) of a paged cache; the size is in two dimensions if it is stored so.
Tensor paged(const Tensor& cache, int64_t heads);

Shapes shapes(const Inputs& in);  // throws what require::that throws

}  // namespace softnpu::kernels::infer
