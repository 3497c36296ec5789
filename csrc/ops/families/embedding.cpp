// Embedding bags. The dense gradient is one launch, the sparse one upstream's composition.
#include <ATen/ATen.h>

#include "aclnn/op.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace npu::ops {

namespace {

using Optional = std::optional<Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

constexpr int64_t kMax = 2;

Four embedding_bag(const Tensor& weight, const Tensor& indices, const Tensor& offsets, bool scale_grad_by_freq,
                   int64_t mode, bool sparse, const Optional& per_sample_weights, bool include_last_offset,
                   int64_t padding_idx) {
  CardGuard guard(weight);
  check_same_device("embedding_bag", {&weight, &indices, &offsets});
  TORCH_CHECK(indices.dim() == 1, "input has to be a 1D or 2D Tensor, but got Tensor of dimension ", indices.dim());
  TORCH_CHECK(offsets.dim() == 1, "offsets has to be a 1D Tensor, but got Tensor of dimension ", offsets.dim());
  TORCH_CHECK(weight.dim() == 2, "weight has to be a 2D Tensor, but got Tensor of dimension ", weight.dim());
  const auto type = promote(indices, offsets);
  TORCH_CHECK(type == at::kLong || type == at::kInt, "expected indices and offsets of type int32 or int64, got ",
              indices.scalar_type(), " and ", offsets.scalar_type());
  const int64_t bags = offsets.size(0) - (include_last_offset ? 1 : 0), width = weight.size(1);
  auto out = empty({bags, width}, weight.scalar_type()), offset2bag = empty({indices.size(0)}, type),
       bag_size = empty({bags}, type);
  auto max_indices = mode == kMax ? empty({bags, width}, type) : empty({bags}, type);
  NPU_EXEC(aclnnEmbeddingBag, weight, indices.to(type), offsets.to(type), scale_grad_by_freq, mode, sparse,
           per_sample_weights, include_last_offset, padding_idx, out, offset2bag, bag_size, max_indices);
  return {out, offset2bag, bag_size, max_indices};
}

Tensor embedding_bag_dense_backward(const Tensor& grad, const Tensor& indices, const Tensor& offset2bag,
                                    const Tensor& bag_size, const Tensor& max_indices, int64_t num_weights,
                                    bool scale_grad_by_freq, int64_t mode, const Optional& per_sample_weights,
                                    int64_t padding_idx) {
  CardGuard guard(grad);
  const auto type = promote(indices, offset2bag);
  auto out = empty({num_weights, grad.size(1)}, grad.scalar_type());
  NPU_EXEC(softnpuEmbeddingBagBackward, grad, indices.to(type), offset2bag.to(type), bag_size.to(type),
           max_indices.to(type), num_weights, scale_grad_by_freq, mode, per_sample_weights, padding_idx, out);
  return out;
}

Tensor embedding_bag_backward(const Tensor& grad, const Tensor& indices, const Tensor& offsets,
                              const Tensor& offset2bag, const Tensor& bag_size, const Tensor& max_indices,
                              int64_t num_weights, bool scale_grad_by_freq, int64_t mode, bool sparse,
                              const Optional& per_sample_weights, int64_t padding_idx) {
  const auto type = promote(indices, offset2bag);
  if (sparse)
    return at::_embedding_bag_sparse_backward(grad, indices.to(type), offsets.to(type), offset2bag.to(type),
                                              bag_size.to(type), num_weights, scale_grad_by_freq, mode,
                                              per_sample_weights, padding_idx);
  return embedding_bag_dense_backward(grad, indices, offset2bag, bag_size, max_indices, num_weights, scale_grad_by_freq,
                                      mode, per_sample_weights, padding_idx);
}

Tensor per_sample_weights_backward(const Tensor& grad, const Tensor& weight, const Tensor& indices,
                                   const Tensor& offsets, const Tensor& offset2bag, int64_t mode, int64_t padding_idx) {
  CardGuard guard(grad);
  const auto type = promote(indices, offset2bag);
  auto out = empty({indices.size(0)}, grad.scalar_type());
  NPU_EXEC(softnpuEmbeddingBagWeightsBackward, grad, weight, indices.to(type), offsets.to(type), offset2bag.to(type),
           mode, padding_idx, out);
  return out;
}

}  // namespace

NPU_REGISTER(embedding) {
  manual("aten::_embedding_bag", "", &embedding_bag, "aclnnEmbeddingBag");
  manual("aten::_embedding_bag_forward_only", "", &embedding_bag, "aclnnEmbeddingBag");
  manual("aten::_embedding_bag_backward", "", &embedding_bag_backward, "softnpuEmbeddingBagBackward");
  manual("aten::_embedding_bag_dense_backward", "", &embedding_bag_dense_backward, "softnpuEmbeddingBagBackward");
  manual("aten::_embedding_bag_per_sample_weights_backward", "", &per_sample_weights_backward,
         "softnpuEmbeddingBagWeightsBackward");
}

}  // namespace npu::ops
