// Random distributions built on the counters of random.h; an element that needs several draws counts them in the high
// half of its counter, so that it stays a function of (seed, offset, index).
#pragma once

#include <ATen/core/Tensor.h>

namespace softnpu::kernels::random {

void exponential(at::Tensor& self, double lambda, uint64_t seed, uint64_t offset);
void cauchy(at::Tensor& self, double median, double sigma, uint64_t seed, uint64_t offset);
void geometric(at::Tensor& self, double p, uint64_t seed, uint64_t offset);
void gamma(at::Tensor& out, const at::Tensor& alpha, uint64_t seed, uint64_t offset);
void poisson(at::Tensor& out, const at::Tensor& rate, uint64_t seed, uint64_t offset);
void binomial(at::Tensor& out, const at::Tensor& count, const at::Tensor& prob, uint64_t seed, uint64_t offset);
void multinomial(at::Tensor& out, const at::Tensor& weights, int64_t samples, bool replacement, uint64_t seed,
                 uint64_t offset);
// Writes the slopes to `noise`; without training the slope is the mean of the bounds and `noise` is left alone.
void rrelu(at::Tensor& out, const at::Tensor& self, const at::Tensor& noise, double lower, double upper, bool training,
           uint64_t seed, uint64_t offset);

}  // namespace softnpu::kernels::random
