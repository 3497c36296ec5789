// Random distributions other than uniform, normal and Bernoulli, and operators that sample.
#include <ATen/ATen.h>
#include <ATen/native/Resize.h>

#include "aclnn/op.h"
#include "ops/families/random.h"
#include "ops/provider.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace npu::ops {

namespace {

using c10::Scalar;

// By inversion: 1 - u lies in (0, 1], and what rounds to 1 is the largest number below it, so that no result is 0.
Tensor& exponential_of_uniform(Tensor& self, double lambda, Generator generator) {
  const double below_one = 1 - std::numeric_limits<float>::epsilon() / 2;
  const auto type = float_type(self);
  auto drawn = type == self.scalar_type() ? self : at::empty(self.sizes(), self.options().dtype(type));
  drawn.uniform_(0, 1, std::move(generator));
  at::neg_out(drawn, drawn).add_(1.0);
  drawn.masked_fill_(drawn.ge(below_one), below_one);
  drawn.log_().mul_(-1 / lambda);
  return drawn.is_same(self) ? self : self.copy_(drawn);
}

Tensor& exponential_(Tensor& self, double lambda, Generator generator) {
  CardGuard guard(self);
  TORCH_CHECK(!c10::isIntegralType(self.scalar_type(), true),
              "Exponential distribution is a continuous probability distribution. "
              "dtype must be a floating point but you specified ",
              self.dtype());
  TORCH_CHECK(lambda > 0.0, "exponential_ expects lambda > 0.0, but found lambda=", lambda);
  if (self.numel() == 0) return self;
  if (!on_softnpu()) return exponential_of_uniform(self, lambda, std::move(generator));
  if (const auto state = reserve_captured(generator, self)) {
    NPU_EXEC(softnpuExponentialTensor, self, lambda, state->seed, state->offset, state->behind);
    return self;
  }
  const auto [seed, offset] = reserve(generator, self);
  NPU_EXEC(aclnnSimThreadExponential, self, self.numel(), lambda, static_cast<int64_t>(seed),
           static_cast<int64_t>(offset));
  return self;
}

Tensor& cauchy_(Tensor& self, double median, double sigma, Generator generator) {
  CardGuard guard(self);
  TORCH_CHECK(at::isFloatingType(self.scalar_type()),
              "Cauchy distribution is a continuous probability distribution. "
              "dtype must be a floating point but you specified ",
              self.dtype());
  TORCH_CHECK(sigma > 0.0, "cauchy_ expects sigma > 0.0, but found sigma=", sigma);
  if (self.numel() == 0) return self;
  if (const auto state = reserve_captured(generator, self)) {
    NPU_EXEC(softnpuCauchyTensor, self, median, sigma, state->seed, state->offset, state->behind);
    return self;
  }
  const auto [seed, offset] = reserve(generator, self);
  NPU_EXEC(softnpuCauchy, self, median, sigma, static_cast<int64_t>(seed), static_cast<int64_t>(offset));
  return self;
}

Tensor& log_normal_(Tensor& self, double mean, double std, Generator generator) {
  TORCH_CHECK(std > 0.0, "log_normal_ expects std > 0.0, but found std=", std);
  return self.normal_(mean, std, std::move(generator)).exp_();
}

Tensor& geometric_(Tensor& self, double p, Generator generator) {
  CardGuard guard(self);
  TORCH_CHECK(0 < p && p < 1, "geometric_ expects p to be in (0, 1), but got p=", p);
  if (self.numel() == 0) return self;
  if (const auto state = reserve_captured(generator, self)) {
    NPU_EXEC(softnpuGeometricTensor, self, p, state->seed, state->offset, state->behind);
    return self;
  }
  const auto [seed, offset] = reserve(generator, self);
  NPU_EXEC(softnpuGeometric, self, p, static_cast<int64_t>(seed), static_cast<int64_t>(offset));
  return self;
}

Tensor standard_gamma(const Tensor& alpha, Generator generator) {
  CardGuard guard(alpha);
  auto out = empty(alpha.sizes(), alpha.scalar_type());
  if (out.numel() == 0) return out;
  const auto [seed, offset] = reserve(generator, out);
  NPU_EXEC(softnpuGamma, alpha, static_cast<int64_t>(seed), static_cast<int64_t>(offset), out);
  return out;
}

Tensor sample_dirichlet(const Tensor& alpha, Generator generator) {
  const auto gamma = standard_gamma(alpha, std::move(generator));
  return gamma / gamma.sum(-1, /*keepdim=*/true);
}

Tensor poisson(const Tensor& rate, Generator generator) {
  CardGuard guard(rate);
  TORCH_CHECK_NOT_IMPLEMENTED(rate.is_floating_point(), "\"poisson\" not implemented for '", rate.scalar_type(), "'");
  auto out = empty(rate.sizes(), rate.scalar_type());
  if (out.numel() == 0) return out;
  const auto [seed, offset] = reserve(generator, out);
  NPU_EXEC(softnpuPoisson, rate, static_cast<int64_t>(seed), static_cast<int64_t>(offset), out);
  return out;
}

Tensor binomial(const Tensor& count, const Tensor& prob, Generator generator) {
  CardGuard guard(count);
  const auto sizes = at::infer_size(count.sizes(), prob.sizes());
  auto out = empty(sizes, count.scalar_type());
  if (out.numel() == 0) return out;
  const auto [seed, offset] = reserve(generator, out);
  NPU_EXEC(softnpuBinomial, count.expand(sizes), prob.expand(sizes), static_cast<int64_t>(seed),
           static_cast<int64_t>(offset), out);
  return out;
}

Tensor& multinomial_out(const Tensor& self, int64_t num_samples, bool replacement, Generator generator, Tensor& out) {
  TORCH_CHECK(self.device() == out.device(), "multinomial arguments must have the same device");
  TORCH_CHECK(self.dim() > 0 && self.dim() <= 2, "prob_dist must be 1 or 2 dim");
  TORCH_CHECK(at::isFloatingType(self.scalar_type()),
              "multinomial only supports floating-point dtypes for input, got: ", self.scalar_type());
  TORCH_CHECK(out.scalar_type() == at::kLong, "multinomial expects Long tensor out, got: ", out.scalar_type());
  TORCH_CHECK(num_samples > 0, "cannot sample n_sample <= 0 samples");
  TORCH_CHECK(replacement || num_samples <= self.size(-1),
              "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  // Upstream's limit on every device: categories are counted in float.
  TORCH_CHECK(self.size(-1) <= int64_t{1} << 24, "number of categories cannot exceed 2^24");
  CardGuard guard(self);
  Target target(out, self.dim() == 1 ? sized({num_samples}, at::kLong) : sized({self.size(0), num_samples}, at::kLong));
  if (out.numel() == 0) return out;
  // Without replacement every category draws a number, with replacement every sample.
  const Tensor& drawn = replacement ? target.tensor() : self;
  if (const auto state = draw_captured(generator, drawn)) {
    NPU_EXEC(aclnnMultinomialTensor, self, num_samples, replacement, state->seed, state->offset, state->behind,
             target.tensor());
  } else {
    const auto [seed, offset] = draw(generator, drawn);
    NPU_EXEC(aclnnMultinomial, self, num_samples, replacement, seed, offset, target.tensor());
  }
  target.finish();
  return out;
}

Tensor multinomial(const Tensor& self, int64_t num_samples, bool replacement, Generator generator) {
  CardGuard guard(self);
  auto out = empty({0}, at::kLong);
  return multinomial_out(self, num_samples, replacement, std::move(generator), out);
}

void check_rrelu(const Tensor& self, const Tensor& noise, const Scalar& lower, const Scalar& upper, bool training) {
  TORCH_CHECK_NOT_IMPLEMENTED(self.is_floating_point(), "\"rrelu_with_noise\" not implemented for '",
                              self.scalar_type(), "'");
  TORCH_CHECK(self.sizes() == noise.sizes() || !training,
              "noise tensor shape must match self tensor shape. Got self.shape = ", self.sizes(),
              " noise.shape = ", noise.sizes());
  TORCH_CHECK(lower.toDouble() <= upper.toDouble(), "Lower bound should be less than or equal to the upper bound");
}

// In a capture: the device has no such operator that reads its state there, but it has uniform numbers.
bool rrelu_captured(const Tensor& self, Tensor& noise, const Scalar& lower, const Scalar& upper, bool training,
                    const Generator& generator, Tensor out) {
  if (C10_LIKELY(!captures::any()) || !training || !captures::of_current_stream()) return false;
  auto slopes = at::empty(self.sizes(), noise.options());
  slopes.uniform_(lower.toDouble(), upper.toDouble(), generator).masked_fill_(self.gt(0), 1);
  noise.copy_(slopes);
  at::mul_out(out, self, slopes);
  return true;
}

// Training draws a slope for each negative element and notes it in `noise`; else the slope is the mean of the bounds.
Tensor& rrelu_with_noise_out(const Tensor& self, Tensor& noise, const Scalar& lower, const Scalar& upper, bool training,
                             Generator generator, Tensor& out) {
  CardGuard guard(self);
  check_rrelu(self, noise, lower, upper, training);
  Target target(out, sized(self.sizes(), self), {&self});
  if (self.numel() == 0 || rrelu_captured(self, noise, lower, upper, training, generator, target.tensor())) {
    target.finish();
    return out;
  }
  const auto [seed, offset] = training ? draw(generator, self) : std::pair<uint64_t, uint64_t>();
  NPU_EXEC(aclnnRReluWithNoise, self, noise, lower, upper, training, static_cast<int64_t>(seed),
           static_cast<int64_t>(offset), target.tensor());
  target.finish();
  return out;
}

Tensor rrelu_with_noise(const Tensor& self, Tensor& noise, const Scalar& lower, const Scalar& upper, bool training,
                        Generator generator) {
  CardGuard guard(self);
  auto out = make(sized(self.sizes(), self));
  return rrelu_with_noise_out(self, noise, lower, upper, training, std::move(generator), out);
}

Tensor& rrelu_with_noise_(Tensor& self, Tensor& noise, const Scalar& lower, const Scalar& upper, bool training,
                          Generator generator) {
  CardGuard guard(self);
  check_rrelu(self, noise, lower, upper, training);
  if (self.numel() == 0 || rrelu_captured(self, noise, lower, upper, training, generator, self)) return self;
  at::assert_no_internal_overlap(self);
  const auto [seed, offset] = training ? draw(generator, self) : std::pair<uint64_t, uint64_t>();
  NPU_EXEC(aclnnInplaceRReluWithNoise, self, noise, lower, upper, training, static_cast<int64_t>(seed),
           static_cast<int64_t>(offset));
  return self;
}

}  // namespace

NPU_REGISTER(distributions) {
  manual("aten::exponential_", "", &exponential_);
  manual("aten::cauchy_", "", &cauchy_, "softnpuCauchy");
  manual("aten::log_normal_", "", &log_normal_);
  manual("aten::geometric_", "", &geometric_, "softnpuGeometric");
  manual("aten::_standard_gamma", "", &standard_gamma, "softnpuGamma");
  manual("aten::_sample_dirichlet", "", &sample_dirichlet, "softnpuGamma");
  manual("aten::poisson", "", &poisson, "softnpuPoisson");
  manual("aten::binomial", "", &binomial, "softnpuBinomial");
  manual("aten::multinomial", "", &multinomial);
  manual("aten::multinomial", "out", &multinomial_out);
  manual("aten::rrelu_with_noise", "", &rrelu_with_noise);
  manual("aten::rrelu_with_noise", "out", &rrelu_with_noise_out);
  manual("aten::rrelu_with_noise_", "", &rrelu_with_noise_);
}

}  // namespace npu::ops
