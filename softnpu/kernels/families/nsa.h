// Native sparse attention: windows of tokens compressed into one, attention to those, the blocks of tokens that it
// finds important, and attention to these blocks.
#pragma once

#include "kernels/families/sparse_attention.h"

namespace softnpu::kernels::nsa {

// Windows of `block` tokens, `stride` apart, of each sequence (TND); a weight for each token of a window and head.
struct Windows {
  const Tensor &input, &weight;
  int64_t block, stride;
  IntArrayRef ends;
};
void check_compress(const Windows& in, const Tensor& out);
void compress(Tensor& out, const Windows& in);
void compress_backward(Tensor& d_input, Tensor& d_weight, const Tensor& grad, const Windows& in);
// The last window of each sequence in a paged cache, if its end is one, into `cache` at the sequence's slot.
void check_compress_last(const Tensor& cache, const Windows& in, const Tensor& slots, const Optional& block_table,
                         int64_t page);
void compress_last(Tensor& cache, const Windows& in, const Tensor& slots, const Optional& block_table);

// Of windows, their distance, and the blocks that are selected.
void check_sizes(int64_t block, int64_t stride, int64_t select);

struct Compressed {
  const Tensor &query, &key, &value;
  Optional mask, chosen;  // keys that a row does not see, and blocks that it attends to in any case
  IntArrayRef q_ends, k_ends, block_ends;
  double scale;
  int64_t block, stride, select;
};
// Statistics lie as (heads, length, 8) for each sequence.
void check_compressed(const Compressed& in, int64_t heads, const Tensor& out, const Tensor& indices, const Tensor& max,
                      const Tensor& sum);
void compressed_attention(Tensor& out, Tensor& indices, Tensor& max, Tensor& sum, const Compressed& in);

struct Selected {
  const Tensor &query, &key, &value, &indices;
  IntArrayRef q_ends, k_ends;
  double scale;
  int64_t block;
};
void check_selected(const Selected& in, int64_t heads, int64_t count, const Tensor& out, const Tensor& max,
                    const Tensor& sum);
void selected_attention(Tensor& out, Tensor& max, Tensor& sum, const Selected& in);
void selected_backward(Tensor& d_query, Tensor& d_key, Tensor& d_value, const Tensor& dy, const Tensor& out,
                       const Tensor& max, const Tensor& sum, const Selected& in);

// One token of each sequence, over paged caches of keys and values. BSH, BSND, TND.
struct Step {
  const Tensor &query, &key, &value;
  Optional block_table;
  IntArrayRef lengths;
  const std::string& layout;
  int64_t heads, kv_heads, page;
  double scale;
};
void check_step(const Step& in, const Tensor& out, const Tensor& indices);
void selected_step(Tensor& out, const Step& in, const Tensor& indices, int64_t block);
// The first block and the last two are always among the important ones.
void compressed_step(Tensor& out, Tensor& indices, const Step& in, int64_t block, int64_t stride, int64_t select);

}  // namespace softnpu::kernels::nsa
