// Attention for inference: one sequence after the other, out of batches, rows of sequences or paged caches.
#pragma once

#include "kernels/families/nn.h"

namespace softnpu::kernels::infer {

// The arguments of the aclnn operators, which differ in what they leave out.
struct Inputs {
  const Tensor& query;
  std::vector<Tensor> keys{}, values{};  // one for all sequences, or one each
  Optional pse{}, mask{};
  at::IntArrayRef q_lengths{}, kv_lengths{};  // of each sequence; the ends of sequences in a row
  int64_t heads = 0;
  double scale = 1;
  const std::string& layout;
  int64_t kv_heads = 0;  // 0: as many as the query's
  int64_t sparse_mode = 0, pre_tokens = INT32_MAX, next_tokens = INT32_MAX;
  bool single_token = false;  // a query of one token sees every key: sparse modes do not count
  Optional block_table{};     // makes keys and values paged caches
  int64_t block_size = 0;
  Optional query_padding{}, kv_padding{};          // sequences end that far before the end of their rows
  Optional quant_scale{}, quant_offset{};          // of the result
  Optional antiquant_scale{}, antiquant_offset{};  // of keys and values, together
  Optional key_scale{}, key_offset{}, value_scale{}, value_offset{};  // or each
  int64_t antiquant_mode = 0, key_mode = 0, value_mode = 0;
  Optional key_prefix{}, value_prefix{};  // seen by all sequences, before their own
  at::IntArrayRef prefix_length{};
  Optional query_rope{}, key_rope{};  // further numbers of each head
  Optional sink{};                    // a score of each head that takes part in the sum only
};

// Callers that do not want the sums may give any tensor for them.
inline Optional wanted(const Optional& lse, bool flag) { return flag ? lse : std::nullopt; }

// Phase one. Everything but the numbers of block_table and the paddings is known to the host.
void check(const Inputs& in, const Tensor& out, const Optional& lse);
using Named = std::pair<const char*, const Optional&>;
void absent(std::initializer_list<Named> tensors);  // what no kernel here computes

void attention(Tensor& out, const Optional& lse, const Inputs& in);

}  // namespace softnpu::kernels::infer
