// Embedding bags on ATen's CPU kernels.
#pragma once

#include <ATen/Functions.h>

#include <algorithm>

namespace softnpu::kernels {

// The number of each index's bag: those from offsets[i] to offsets[i + 1] have i.
inline void number_bags(at::Tensor& offset2bag, const at::Tensor& offsets, int64_t count) {
  const auto begins = offsets.to(at::kLong).contiguous();
  const auto* const begin = begins.const_data_ptr<int64_t>();
  auto bags =
      offset2bag.is_contiguous() && offset2bag.scalar_type() == at::kLong ? offset2bag : at::empty({count}, at::kLong);
  auto* const bag = bags.mutable_data_ptr<int64_t>();
  const auto edge = [&](int64_t i) { return i < begins.numel() ? std::clamp<int64_t>(begin[i], 0, count) : count; };
  for (int64_t i = 0; i < begins.numel(); i++) std::fill(bag + edge(i), bag + std::max(edge(i), edge(i + 1)), i);
  if (!bags.is_same(offset2bag)) offset2bag.copy_(bags);
}

inline void embedding_bag(at::Tensor& out, at::Tensor& offset2bag, at::Tensor& bag_size, at::Tensor& max_indices,
                          const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets,
                          bool scale_grad_by_freq, int64_t mode, const std::optional<at::Tensor>& per_sample_weights,
                          bool include_last_offset, int64_t padding_idx) {
  // Dense ones: ATen reads the last offset where it lies in those.
  auto [values, bags, sizes, largest] =
      at::_embedding_bag(weight, indices.contiguous(), offsets.contiguous(), scale_grad_by_freq, mode, /*sparse=*/false,
                         per_sample_weights, include_last_offset, padding_idx);
  out.copy_(values);
  // ATen leaves out what its own gradient can find again; a client counts on it.
  if (offset2bag.numel() == indices.numel()) number_bags(offset2bag, offsets, indices.numel());
  if (sizes.sizes() == bag_size.sizes()) bag_size.copy_(sizes);
  if (largest.sizes() == max_indices.sizes()) max_indices.copy_(largest);
}

inline void embedding_bag_backward(at::Tensor& out, const at::Tensor& grad, const at::Tensor& indices,
                                   const at::Tensor& offset2bag, const at::Tensor& bag_size,
                                   const at::Tensor& max_indices, int64_t num_weights, bool scale_grad_by_freq,
                                   int64_t mode, const std::optional<at::Tensor>& per_sample_weights,
                                   int64_t padding_idx) {
  out.copy_(at::_embedding_bag_dense_backward(grad, indices, offset2bag, bag_size, max_indices, num_weights,
                                              scale_grad_by_freq, mode, per_sample_weights, padding_idx));
}

}  // namespace softnpu::kernels
