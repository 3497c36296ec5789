// Fused attention: dropout(softmax(scale * q k^T + bias, masked)) v, forward and backward, in the layouts of the
// operators. Scores are made in blocks of rows and columns, in float32; a whole matrix of them is never held.
#pragma once

#include "kernels/families/nn.h"

namespace softnpu::kernels::attention {

struct Inputs {
  const Tensor &query, &key, &value;
  Optional pse, drop_mask, atten_mask;
  IntArrayRef prefix;
  double scale, keep_prob;
  int64_t pre_tokens, next_tokens, heads;
  const std::string& layout;  // BNSD, BSND, BSH, SBH, or TND: sequences of several lengths in a row
  int64_t sparse_mode;
  IntArrayRef q_ends = {}, kv_ends = {};    // of the sequences of TND
  int64_t pse_type = 1;                     // 0: pse is added to the scaled scores, 1: before they are scaled
  std::string softmax_layout = "";          // of TND: "" has statistics of each sequence as (heads, length, 8)
  Optional sink = {};                       // a score for each head that takes part in its sums
  Optional query_rope = {}, key_rope = {};  // more numbers of each head of query and key
};

// What one call leaves for the other, or gives back.
struct Statistics {
  Optional max, sum;  // of each row's softmax, in float32, eight times over
  bool complete() const { return max && max->numel() && sum && sum->numel(); }
};

struct Gradients {
  Tensor &query, &key, &value;
  Optional pse, sink = {}, query_rope = {}, key_rope = {};
};

// Phase one: what shapes and heads have in common. `results` have query's shape, but for the size of value's heads.
void check(const Inputs& in, std::initializer_list<Optional> results, const Statistics& statistics);
void check(const Inputs& in, const Gradients& gradients, const Tensor& dy, const Optional& out,
           const Statistics& statistics);

// Arguments that no client gives, and that have no meaning here.
void no_padding(const Optional& padding_mask);
void no_starts(IntArrayRef q_start_idx, IntArrayRef kv_start_idx);

void forward(Tensor& out, const Statistics& statistics, const Inputs& in);
// `statistics` and `out` are the forward pass', or those of attention over more keys, of which these are a part. A
// client may give none: then they are computed again.
void backward(const Gradients& gradients, const Tensor& dy, const Optional& out, const Statistics& statistics,
              const Inputs& in);

}  // namespace softnpu::kernels::attention
