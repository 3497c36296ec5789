#include "kernels/families/distributions.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/native/Distributions.h>

#include <cmath>
#include <numbers>

#include "kernels/families/philox.h"
#include "kernels/families/random.h"

namespace softnpu::kernels::random {

namespace {

// The random numbers of one element.
class Draws {
 public:
  Draws(uint64_t seed, uint64_t counter) : seed_(seed), counter_(counter) {}

  double uniform() {  // (0, 1)
    if (left_ == 0) bits_ = philox(seed_, counter_, round_++), left_ = 2;
    left_--;
    const uint64_t word = uint64_t{bits_[2 * left_]} << 32 | bits_[2 * left_ + 1];
    return ((word >> 11) + 0.5) * 0x1p-53;
  }
  double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform()); }

 private:
  uint64_t seed_, counter_, round_ = 0;
  std::array<uint32_t, 4> bits_{};
  int left_ = 0;
};

// out[i] = sample(draws of i, i), computed in double precision.
template <class Sample>
void sample_each(at::Tensor& out, uint64_t seed, uint64_t offset, Sample&& sample) {
  auto values = at::empty(out.sizes(), at::kDouble);
  double* data = values.mutable_data_ptr<double>();
  at::parallel_for(0, out.numel(), 512, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      Draws draws(seed, offset / 4 + static_cast<uint64_t>(i));
      data[i] = sample(draws, i);
    }
  });
  out.copy_(values);
}

// One number for each element of `out`.
at::Tensor parameters(const at::Tensor& t, const at::Tensor& out) {
  return t.to(at::kDouble).expand(out.sizes()).contiguous();
}

// Upstream's samplers take their numbers from these. They end for every argument, as the CPU's do: they are the CPU's.
auto uniforms(Draws& draws) {
  return [&draws] { return draws.uniform(); };
}
auto normals(Draws& draws) {
  return [&draws] { return draws.normal(); };
}

double gamma_of(Draws& draws, double alpha) {
  auto uniform = uniforms(draws);
  auto normal = normals(draws);
  BaseSampler<double, decltype(uniform)> standard_uniform(uniform);
  BaseSampler<double, decltype(normal)> standard_normal(normal);
  return sample_gamma<double, double>(alpha, standard_uniform, standard_normal);
}

double binomial_of(Draws& draws, double count, double prob) {
  if (std::isnan(count)) return count;  // the one argument for which upstream's never ends
  auto uniform = uniforms(draws);
  BaseSampler<double, decltype(uniform)> standard_uniform(uniform);
  return sample_binomial<double>(count, prob, standard_uniform);
}

// The count as the CPU has it, an int64: one that does not fit is the smallest of them.
double as_count(double events) { return events < 0x1p63 ? events : -0x1p63; }

// Small rates by multiplication; large ones by transformed rejection with squeeze (Hörmann's PTRS, 1993).
double poisson_of(Draws& draws, double rate) {
  if (rate < 10) {
    double events = 0;
    const double limit = std::exp(-rate);
    for (double product = draws.uniform(); product > limit; product *= draws.uniform()) events++;
    return events;
  }
  const double b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b;
  const double squeeze = 0.9277 - 3.6224 / (b - 2), inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  const double log_rate = std::log(rate);
  while (true) {
    const double u = draws.uniform() - 0.5, v = draws.uniform(), us = 0.5 - std::abs(u);
    const double events = std::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= squeeze) return as_count(events);
    if (!(events >= 0) || (us < 0.013 && v > us)) continue;
    if (std::log(v * inverse_alpha / (a / (us * us) + b)) <= events * log_rate - rate - std::lgamma(events + 1))
      return as_count(events);
  }
}

}  // namespace

void exponential(at::Tensor& self, double lambda, uint64_t seed, uint64_t offset) {
  sample_each(self, seed, offset, [=](Draws& draws, int64_t) { return -std::log(draws.uniform()) / lambda; });
}

void cauchy(at::Tensor& self, double median, double sigma, uint64_t seed, uint64_t offset) {
  sample_each(self, seed, offset, [=](Draws& draws, int64_t) {
    return median + sigma * std::tan(std::numbers::pi * (draws.uniform() - 0.5));
  });
}

void geometric(at::Tensor& self, double p, uint64_t seed, uint64_t offset) {
  sample_each(self, seed, offset,
              [=](Draws& draws, int64_t) { return std::ceil(std::log(draws.uniform()) / std::log1p(-p)); });
}

void gamma(at::Tensor& out, const at::Tensor& alpha, uint64_t seed, uint64_t offset) {
  const auto shapes = parameters(alpha, out);
  const double* a = shapes.const_data_ptr<double>();
  const double smallest =
      out.scalar_type() == at::kDouble ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
  sample_each(out, seed, offset, [=](Draws& draws, int64_t i) { return std::max(smallest, gamma_of(draws, a[i])); });
}

void poisson(at::Tensor& out, const at::Tensor& rate, uint64_t seed, uint64_t offset) {
  const auto rates = parameters(rate, out);
  const double* r = rates.const_data_ptr<double>();
  TORCH_CHECK(rates.numel() == 0 || at::min(rates).item<double>() >= 0,
              "invalid Poisson rate, expected rate to be non-negative");
  sample_each(out, seed, offset, [=](Draws& draws, int64_t i) { return poisson_of(draws, r[i]); });
}

void binomial(at::Tensor& out, const at::Tensor& count, const at::Tensor& prob, uint64_t seed, uint64_t offset) {
  const auto counts = parameters(count, out), probs = parameters(prob, out);
  const double *n = counts.const_data_ptr<double>(), *p = probs.const_data_ptr<double>();
  sample_each(out, seed, offset, [=](Draws& draws, int64_t i) { return binomial_of(draws, n[i], p[i]); });
}

void multinomial(at::Tensor& out, const at::Tensor& weights, int64_t samples, bool replacement, uint64_t seed,
                 uint64_t offset) {
  const auto p = weights.to(at::kDouble).contiguous();
  TORCH_CHECK(at::logical_and(p.ge(0), p.lt(std::numeric_limits<double>::infinity())).all().item<bool>(),
              "probability tensor contains either `inf`, `nan` or element < 0");
  TORCH_CHECK(p.sum(-1).gt(0).all().item<bool>(), "invalid multinomial distribution (sum of probabilities <= 0)");
  if (replacement) {
    auto points = at::empty(out.sizes(), at::kDouble);
    uniform(points, 0, 1, seed, offset);
    const auto steps = p.cumsum(-1);
    out.copy_(
        at::searchsorted(steps, points * steps.select(-1, -1).unsqueeze(-1), /*out_int32=*/false, /*right=*/true));
  } else {  // the largest of p over an exponential variate is a sample, the next largest the next
    auto waits = at::empty(p.sizes(), at::kDouble);
    exponential(waits, 1, seed, offset);
    out.copy_(std::get<1>(at::topk(p / waits, samples, -1)));
  }
}

void rrelu(at::Tensor& out, const at::Tensor& self, const at::Tensor& noise, double lower, double upper, bool training,
           uint64_t seed, uint64_t offset) {
  if (!training) {
    out.copy_(at::leaky_relu(self, (lower + upper) / 2));
    return;
  }
  auto slopes = at::empty(self.sizes(), noise.options());
  uniform(slopes, lower, upper, seed, offset);
  slopes.masked_fill_(self.gt(0), 1);
  noise.copy_(slopes);
  out.copy_(self * slopes);
}

}  // namespace softnpu::kernels::random
