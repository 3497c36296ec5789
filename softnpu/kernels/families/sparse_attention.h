// Attention of each row to the keys that were chosen for it: by indices, by blocks, or by a quantised cache's indices.
// Scores are made for one row of positions at a time, in float32.
#pragma once

#include <algorithm>

#include "kernels/families/nn.h"

namespace softnpu::kernels::sparse {

// Where each sequence lies. BSND: padded; TND: in a row, whose ends are given; PA_BSND: in the blocks of a cache.
class Sequences {
 public:
  Sequences(const std::string& layout, const Tensor& t, const Optional& lengths, const char* name,
            const Optional& block_table = std::nullopt);
  int64_t count() const { return static_cast<int64_t>(lengths_.size()); }
  int64_t length(int64_t s) const { return lengths_[s]; }
  Tensor of(const Tensor& t, int64_t s) const;  // (length, ...): a view, but for a cache
  // (heads, length, ...) of (sequences, heads, length, ...), or of (heads, all rows, ...) for sequences in a row.
  Tensor statistics(const Tensor& t, int64_t s) const;

 private:
  bool in_a_row_;
  Optional block_table_;
  std::vector<int64_t> lengths_, begins_;
};

// Lengths as a tensor, nothing for an empty list.
Optional listed(IntArrayRef lengths);
// Phase one: layouts, ranks, and that what a layout needs is there.
void check_layouts(const Tensor& query, const std::string& layout, bool q_lengths, const Tensor& key,
                   const std::string& kv_layout, bool kv_lengths, const Optional& block_table);
// Modes 0, which sees all keys, so that a window has to hide none, and 3, whose last row sees all and each row before
// it one less.
void check_mode(int64_t sparse_mode, int64_t pre_tokens, int64_t next_tokens, const Tensor& key);
inline int64_t seen(int64_t sparse_mode, int64_t row, int64_t rows, int64_t keys) {
  return sparse_mode == 3 ? std::clamp<int64_t>(keys - rows + row + 1, 0, keys) : keys;
}

// The positions below `end` of blocks of `block` tokens: those of a row of indices, up to the first negative one.
Tensor positions(const Tensor& indices, int64_t block, int64_t end);

// Attention of rows (rows, size) to keys (keys, size), with the maximum and sum of each row's softmax. A row without
// keys gives zeros. `sink` (rows) takes part in the sums.
struct Attended {
  Tensor out, max, sum;
};
Attended attend(const Tensor& query, const Tensor& key, const Tensor& value, double scale, const Tensor& sink = {});
// Its gradients; the probabilities are exp(score - max) / sum.
struct Slopes {
  Tensor query, key, value;
};
Slopes slopes(const Tensor& query, const Tensor& key, const Tensor& value, double scale, const Tensor& dy,
              const Tensor& out, const Tensor& max, const Tensor& sum);

struct Attention {
  const Tensor &query, &key;
  Optional value;  // without: the keys
  const Tensor& indices;
  Optional block_table, q_lengths, kv_lengths, query_rope, key_rope, sinks;
  double scale;
  int64_t block;
  const std::string &layout, &kv_layout;
  int64_t mode;
};
struct Gradients {
  Tensor &query, &key;
  Optional value, query_rope, key_rope;
};
void check(const Attention& in, const Tensor& out, const Optional& max, const Optional& sum);
void attention(Tensor& out, const Optional& max, const Optional& sum, const Attention& in);
void check_backward(const Attention& in, const Gradients& gradients, const Tensor& dy, const Tensor& out,
                    const Tensor& max, const Tensor& sum);
void backward(const Gradients& gradients, const Tensor& dy, const Tensor& out, const Tensor& max, const Tensor& sum,
              const Attention& in);

// A cache of bytes: a token's numbers, its rotated part in the query's type, and a float32 scale of each tile.
struct Packed {
  int64_t tile, rope;
};
void check_packed(const Attention& in, const Packed& packed, const Tensor& out);
void packed_attention(Tensor& out, const Attention& in, const Packed& packed);

// Blocks of rows that see the blocks of keys which a mask chooses for each head. BNSD, or TND with lengths.
struct Blocks {
  const Tensor &query, &key, &value, &mask;
  IntArrayRef shape, q_lengths, kv_lengths;
  const std::string &layout, &kv_layout;
  int64_t kv_heads;
  double scale;
};
void check_blocks(const Blocks& in, const Tensor& out, const Tensor& lse, const Optional& atten_mask,
                  const Optional& block_table, int64_t mask_type);
void block_attention(Tensor& out, Tensor& lse, const Blocks& in, bool lse_wanted);
void block_backward(Tensor& d_query, Tensor& d_key, Tensor& d_value, const Tensor& dy, const Tensor& out,
                    const Tensor& lse, const Blocks& in);

}  // namespace softnpu::kernels::sparse
