// Batch normalisation over several cards: statistics of one card, their combination, and both directions with given
// statistics. Computed in float32, double for double.
#pragma once

#include "kernels/families/nn.h"

namespace softnpu::kernels {

void batch_norm_stats(Tensor& mean, Tensor& invstd, const Tensor& input, double eps);
// Sums and sums of squares for each channel.
void batch_norm_sums(Tensor& sum, Tensor& square_sum, const Tensor& input);
// Rows of `mean` and `invstd` are cards, which have seen `counts` elements of a channel each.
void batch_norm_gather(Tensor& out_mean, Tensor& out_invstd, const Tensor& mean, const Tensor& invstd,
                       Optional running_mean, Optional running_var, double momentum, double eps, const Tensor& counts);
// The same from rows of sums and of sums of squares.
void batch_norm_gather_sums(Tensor& out_mean, Tensor& out_invstd, const Tensor& sum, const Tensor& square_sum,
                            const Tensor& counts, Tensor& running_mean, Tensor& running_var, double momentum,
                            double eps);
void batch_norm_elements(Tensor& out, const Tensor& input, const Optional& weight, const Optional& bias,
                         const Tensor& mean, const Tensor& invstd);
// Outputs that are absent are not asked for.
void batch_norm_reduce_backward(Optional sum_dy, Optional sum_dy_xmu, Optional grad_weight, Optional grad_bias,
                                const Tensor& grad_out, const Tensor& input, const Tensor& mean, const Tensor& invstd);
void batch_norm_elements_backward(Tensor& out, const Tensor& grad_out, const Tensor& input, const Tensor& mean,
                                  const Tensor& invstd, const Optional& weight, const Tensor& sum_dy,
                                  const Tensor& sum_dy_xmu, const Tensor& count);

namespace require {
// Rows of two statistics, a row for each card, with their counts; and results, a number for each channel.
void card_statistics(const Tensor& first, const Tensor& second, const Tensor& counts,
                     std::initializer_list<Optional> results);
// A convolution over the first dimension of [time, batch, channels].
void tbc(const Tensor& input, const Tensor& weight, const Tensor& bias, int64_t pad);
}  // namespace require

}  // namespace softnpu::kernels
