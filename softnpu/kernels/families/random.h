// Random kernels. Element i of a tensor depends on (seed, offset, i) alone, never on threads, streams or strides.
// Each element consumes one counter of four 32-bit numbers, so a generator advances its offset by 4 numbers an element.
#pragma once

#include <ATen/core/Tensor.h>

namespace softnpu::kernels::random {

void uniform(at::Tensor& self, double from, double to, uint64_t seed, uint64_t offset);
void normal(at::Tensor& self, double mean, double std, uint64_t seed, uint64_t offset);
// The same with tensors that broadcast to `self` for one parameter or both.
void normal(at::Tensor& self, const at::Tensor& mean, const at::Tensor& std, uint64_t seed, uint64_t offset);
void normal(at::Tensor& self, double mean, const at::Tensor& std, uint64_t seed, uint64_t offset);
void normal(at::Tensor& self, const at::Tensor& mean, double std, uint64_t seed, uint64_t offset);
// One more than the largest integer that a tensor without limits is filled with: all that its type holds exactly.
int64_t most(const at::Tensor& self);
void integers(at::Tensor& self, int64_t from, int64_t to, uint64_t seed,
              uint64_t offset);  // [from, to); all 64 bits if empty
void bernoulli(at::Tensor& self, double p, uint64_t seed, uint64_t offset);
void bernoulli(at::Tensor& self, const at::Tensor& p, uint64_t seed, uint64_t offset);
void permutation(at::Tensor& out, int64_t n, uint64_t seed, uint64_t offset);

}  // namespace softnpu::kernels::random
