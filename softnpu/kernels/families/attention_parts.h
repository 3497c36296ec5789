// Attention over parts of the keys, joined into attention over all of them.
#pragma once

#include "kernels/families/nn.h"

namespace softnpu::kernels::attention {

// Attention with the maximum and sum of each row's softmax, eight times over.
struct Part {
  Tensor &out, &max, &sum;
};

// `layout` SBH has statistics (batch, heads, length, 8). TND has (rows, heads, 8), but those of each sequence lie as
// (heads, length, 8) unless `softmax_layout` is TND; `ends` tells the sequences, with a leading 0 or without.
void check_ring(const Part& a, const Part& b, const Part& joined, const Optional& ends, const std::string& layout,
                const std::string& softmax_layout);
void ring_update(const Part& joined, const Part& a, const Part& b, const Optional& ends, const std::string& layout,
                 const std::string& softmax_layout);

// Parts with the logarithm of each row's sum of exponentials.
void check_parts(const Tensor& out, const Optional& lse_out, const std::vector<Tensor>& lse,
                 const std::vector<Tensor>& local_out, int64_t update_type);
void update(Tensor& out, const Optional& lse_out, const std::vector<Tensor>& lse, const std::vector<Tensor>& local_out,
            int64_t update_type);

}  // namespace softnpu::kernels::attention
