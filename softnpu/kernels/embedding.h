// Embedding bags on ATen's CPU kernels.
#pragma once

#include <ATen/Functions.h>

namespace softnpu::kernels {

inline void embedding_bag(at::Tensor& out, at::Tensor& offset2bag, at::Tensor& bag_size, at::Tensor& max_indices, const at::Tensor& weight,
                          const at::Tensor& indices, const at::Tensor& offsets, bool scale_grad_by_freq, int64_t mode,
                          const std::optional<at::Tensor>& per_sample_weights, bool include_last_offset, int64_t padding_idx) {
  auto [values, bags, sizes, largest] = at::_embedding_bag(weight, indices, offsets, scale_grad_by_freq, mode, /*sparse=*/false,
                                                           per_sample_weights, include_last_offset, padding_idx);
  out.copy_(values);
  // ATen leaves out what its own gradient can find again; a client counts on it.
  if (offset2bag.numel() == indices.numel())
    offset2bag.copy_(at::searchsorted(offsets, at::arange(indices.numel(), indices.options()), /*out_int32=*/false, /*right=*/true).sub_(1));
  if (sizes.sizes() == bag_size.sizes()) bag_size.copy_(sizes);
  if (largest.sizes() == max_indices.sizes()) max_indices.copy_(largest);
}

inline void embedding_bag_backward(at::Tensor& out, const at::Tensor& grad, const at::Tensor& indices, const at::Tensor& offset2bag,
                                   const at::Tensor& bag_size, const at::Tensor& max_indices, int64_t num_weights, bool scale_grad_by_freq,
                                   int64_t mode, const std::optional<at::Tensor>& per_sample_weights, int64_t padding_idx) {
  out.copy_(at::_embedding_bag_dense_backward(grad, indices, offset2bag, bag_size, max_indices, num_weights, scale_grad_by_freq, mode,
                                              per_sample_weights, padding_idx));
}

}  // namespace softnpu::kernels
