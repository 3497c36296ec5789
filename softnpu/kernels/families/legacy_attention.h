// Attention and dropout of older models, in the operators that the interface before aclnn has for them.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>

#include "kernels/families/legacy.h"

namespace softnpu::kernels {

// x where the mask has a byte that is not zero, over the share that is kept.
inline Tensor kept(const Tensor& x, const Tensor& mask, double share) {
  TORCH_CHECK(mask.numel() >= x.numel(), "the mask has ", mask.numel(), " bytes for ", x.numel(), " numbers");
  if (share == 0) return at::zeros_like(x);
  return x * mask.reshape({-1}).narrow(0, 0, x.numel()).view(x.sizes()).ne(0) / share;
}

inline Tensor drawn_mask(const Tensor& shape, const Tensor& share, int64_t seed, int64_t seed2) {
  int64_t count = 1;
  for (const int64_t size : integers(shape))
    TORCH_CHECK(size >= 0 && !__builtin_mul_overflow(count, size, &count) && count <= int64_t{1} << 40,
                "a mask of shape ", integers(shape));
  auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(seed) * 1000003 + static_cast<uint64_t>(seed2));
  return at::rand({count}, generator, at::TensorOptions(at::kFloat)).lt(share.item().toDouble());
}

// [batch, heads, length, size] as [batch * length, heads * size].
inline Tensor joined_heads(const Tensor& x) {
  return x.transpose(1, 2).reshape({x.size(0) * x.size(2), x.size(1) * x.size(3)});
}

inline void check_heads(std::initializer_list<const Tensor*> tensors) {
  for (const Tensor* t : tensors) TORCH_CHECK(t->dim() == 4, "[batch, heads, length, size], not ", t->sizes());
}

inline void attention_score(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, const Tensor& scale,
                            const Tensor& mask, double share, Tensor& out, Tensor& probabilities) {
  check_heads({&q, &k, &v});
  const auto soft = at::softmax(at::matmul(q, k.mT()) * scale.to(q.scalar_type()) + bias, -1);
  put(probabilities, soft);
  put(out, joined_heads(at::matmul(kept(soft, mask, share), v)));
}

inline void attention_score_backward(const Tensor& soft, const Tensor& grad, const Tensor& v, const Tensor& k,
                                     const Tensor& q, const Tensor& scale, const Tensor& mask, double share,
                                     Tensor& d_v, Tensor& d_q, Tensor& d_k) {
  check_heads({&soft, &grad, &q, &k, &v});
  const auto d_soft = kept(at::matmul(grad, v.mT()), mask, share);
  const auto d = at::_softmax_backward_data(d_soft, soft, -1, soft.scalar_type()) * scale.to(soft.scalar_type());
  put(d_v, joined_heads(at::matmul(kept(soft, mask, share).mT(), grad)));
  put(d_q, joined_heads(at::matmul(d, k)));
  put(d_k, joined_heads(at::matmul(d.mT(), q)));
}

}  // namespace softnpu::kernels
