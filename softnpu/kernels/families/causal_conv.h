// Causal convolutions of each channel with a short window: a result depends on its own token and the ones before.
#pragma once

#include "kernels/families/normalization.h"

namespace softnpu::kernels {

// input [sequence, batch, channels], weight [width, channels]; results where mask [batch, sequence] is false are zero.
void masked_conv(Tensor& out, const Tensor& input, const Tensor& weight, const Optional& mask);
void masked_conv_backward(Tensor& grad_input, Tensor& grad_weight, const Tensor& grad_out, const Tensor& input,
                          const Tensor& weight, const Optional& mask);

struct FusedConv {
  Optional starts, lines, accepted, computed, first_block, last_block, initial_block;
  int64_t pad, block_size;
  bool residual, reset;
};
// Sequences that go on: what came before is read from a line of `states`, and the last tokens are written there. With
// lines for blocks of a sequence (prefix caching), every block that is filled gets its state too. Sequences whose line
// is `pad` are left alone. `y` may be `x`.
void fused_conv(const Tensor& y, const Tensor& x, const Tensor& weight, Tensor& states, const FusedConv& options);

namespace require {
void masked_conv(const Tensor& input, const Tensor& weight, const Optional& mask);
void fused_conv(const Tensor& x, const Tensor& weight, const Tensor& states, const Optional& starts,
                const Optional& lines, const Optional& computed, const Optional& first_block,
                const Optional& last_block, const Optional& initial_block, int64_t block_size, int64_t mode);
}  // namespace require

}  // namespace softnpu::kernels
