// Attention and FFN workers of a model that is split between them. They share a context, a record of 1024 bytes that
// says where on the card tokens arrive: four areas, of which this file reads that of attention.
#pragma once

#include <ATen/core/Tensor.h>

namespace softnpu::kernels {

using at::Tensor;

// The tokens that came back from the experts, weighted, plus that of the shared expert, which stands behind them.
// Sums are float32. The next layer's number is the current one plus one.
void attention_worker_combine(const Tensor& context, const Tensor& expert_scales, const Tensor& layer_id,
                              int64_t hidden_size, const Tensor& y, const Tensor& next_layer_id);

namespace require {

void attention_worker_combine(const Tensor& context, const Tensor& expert_scales, const Tensor& layer_id,
                              int64_t hidden_size, int64_t token_dtype, int64_t need_schedule, const Tensor& y,
                              const Tensor& next_layer_id);

}  // namespace require
}  // namespace softnpu::kernels
