// Fused attention: softmax(scale * q k^T + bias, masked) v, forward and backward, in the layouts of the operator.
#pragma once

#include "kernels/families/nn.h"

namespace softnpu::kernels::attention {

struct Inputs {
  const Tensor &query, &key, &value;
  const Optional &pse, &drop_mask, &atten_mask;
  double scale, keep_prob;
  int64_t pre_tokens, next_tokens, heads;
  const std::string& layout;  // BNSD, BSND, BSH or SBH
  int64_t sparse_mode;
};

// Phase one: what shapes and heads have in common. `results` have query's shape, but for the size of value's heads.
void check(const Inputs& in, std::initializer_list<Optional> results, const Optional& softmax_max,
           const Optional& softmax_sum);

// softmax_max and softmax_sum (of each row, repeated eight times) are what the gradient needs beside the inputs.
void forward(Tensor& out, const Optional& softmax_max, const Optional& softmax_sum, const Inputs& in);
// What the forward pass left; a client may give none of it.
struct Saved {
  const Optional &max, &sum, &out;
  bool complete() const { return max && max->numel() && sum && sum->numel() && out && out->numel(); }
};
void backward(Tensor& dq, Tensor& dk, Tensor& dv, const Tensor& dy, const Saved& saved, const Inputs& in);

}  // namespace softnpu::kernels::attention
