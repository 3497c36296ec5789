#include "kernels/families/optimizer.h"

#include <ATen/Dispatch.h>
#include <ATen/Functions.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

namespace softnpu::kernels {

namespace {

constexpr int64_t kGrain = 16384;

template <size_t N>
using Sums = std::array<double, N>;

template <size_t N>
Sums<N> added(Sums<N> a, const Sums<N>& b) {
  for (size_t i = 0; i < N; i++) a[i] += b[i];
  return a;
}

// Calls f(i) for the elements [begin, end), on all threads.
template <class F>
void for_each(int64_t begin, int64_t end, const F& f) {
  at::parallel_for(begin, end, kGrain, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i++) f(i);
  });
}

// The sum of f(i), which returns N numbers.
template <size_t N, class F>
Sums<N> sum(int64_t begin, int64_t end, const F& f) {
  const auto part = [&](int64_t from, int64_t to, Sums<N> total) {
    for (int64_t i = from; i < to; i++) total = added<N>(total, f(i));
    return total;
  };
  return at::parallel_reduce(begin, end, kGrain, Sums<N>{}, part, added<N>);
}

// Calls f(number, begin, end) for every parameter.
template <class F>
void for_each_parameter(const at::Tensor& buffer, at::IntArrayRef sizes, const F& f) {
  int64_t left = buffer.numel();
  for (const int64_t size : sizes) {
    TORCH_CHECK(size >= 0 && size <= left, "sizes are ", sizes, ", the buffer has ", buffer.numel(), " elements");
    left -= size;
  }
  TORCH_CHECK(left == 0, "sizes leave ", left, " elements of the buffer out");
  int64_t begin = 0;
  for (size_t i = 0; i < sizes.size(); begin += sizes[i++]) f(i, begin, begin + sizes[i]);
}

template <class T>
T* data(const at::Tensor& t, const at::Tensor& like) {
  const bool same = t.sizes() == like.sizes() && t.strides() == like.strides() && t.scalar_type() == like.scalar_type();
  TORCH_CHECK(same && t.is_non_overlapping_and_dense(),
              "tensors of an optimiser's step must be dense and have one shape, one layout and one type");
  return t.data_ptr<T>();
}
template <class T>
T* data(const std::optional<at::Tensor>& t, const at::Tensor& like) {
  return t.has_value() ? data<T>(*t, like) : nullptr;
}

template <class F>
void dispatch(const at::Tensor& t, const F& f) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, t.scalar_type(), "optimizer_step", [&] { f(scalar_t()); });
}

// Adam's moments as the arithmetic's type, and the step before it is scaled. Shared by its relatives.
template <class T>
struct Adam {
  using C = at::opmath_type<T>;
  T *param, *grad, *mean, *square;
  C beta1, rest1, beta2, rest2, eps;  // rest = 1 - beta, rounded once

  Adam(const Moments& t, const MomentOptions& o)
      : param(data<T>(t.param, t.param)),
        grad(data<T>(t.grad, t.param)),
        mean(data<T>(t.exp_avg, t.param)),
        square(data<T>(t.exp_avg_sq, t.param)),
        beta1(o.beta1),
        rest1(1 - o.beta1),
        beta2(o.beta2),
        rest2(1 - o.beta2),
        eps(o.eps) {}

  void advance(int64_t i) const {
    const C g = grad[i];
    mean[i] = C(mean[i]) + (g - C(mean[i])) * rest1;
    square[i] = C(square[i]) * beta2 + g * g * rest2;
  }
  C step(int64_t i) const { return C(mean[i]) / (std::sqrt(C(square[i])) + eps); }
};

}  // namespace

void sgd_step(const std::vector<at::Tensor>& params, const std::vector<at::Tensor>& grads,
              const std::vector<at::Tensor>& momentum_buffers, const SgdOptions& o,
              const std::optional<at::Tensor>& grad_scale, const std::optional<at::Tensor>& found_inf) {
  if (params.empty() || !at::isReducedFloatingType(params[0].scalar_type())) {
    at::_fused_sgd_(params, grads, momentum_buffers, o.weight_decay, o.momentum, o.lr, o.dampening, o.nesterov,
                    o.maximize, o.is_first_step, grad_scale, found_inf);
    return;
  }
  if (found_inf.has_value() && found_inf->item<double>() == 1) return;
  const float scale = grad_scale.has_value() ? grad_scale->item<float>() : 1, sign = o.maximize ? -1 : 1;
  const float decay = o.weight_decay, held = o.momentum, rate = o.lr, taken = o.is_first_step ? 1 : 1 - o.dampening;
  for (size_t tensor = 0; tensor < params.size(); tensor++) {
    dispatch(params[tensor], [&](auto type) {
      using T = decltype(type);
      auto *p = data<T>(params[tensor], params[tensor]), *grad = data<T>(grads[tensor], params[tensor]);
      auto* buffer = o.momentum == 0 ? nullptr : data<T>(momentum_buffers[tensor], params[tensor]);
      for_each(0, params[tensor].numel(), [&](int64_t i) {
        if (grad_scale.has_value()) grad[i] = float(grad[i]) / scale;
        float g = sign * float(grad[i]) + decay * float(p[i]);
        if (buffer) {
          const float b = (o.is_first_step ? 0 : held * float(buffer[i])) + taken * g;
          buffer[i] = b;
          g = o.nesterov ? g + held * b : b;
        }
        p[i] = float(p[i]) - rate * g;
      });
    });
  }
}

void adadelta_step(at::Tensor& param, const at::Tensor& grad, at::Tensor& square_avg, at::Tensor& acc_delta, double lr,
                   double rho, double eps, double weight_decay) {
  dispatch(param, [&](auto type) {
    using T = decltype(type);
    using C = at::opmath_type<T>;
    auto *p = data<T>(param, param), *square = data<T>(square_avg, param), *delta = data<T>(acc_delta, param);
    const auto* given = data<T>(grad, param);
    const C keep = rho, rest = 1 - rho, epsilon = eps, decay = weight_decay, rate = lr;
    for_each(0, param.numel(), [&](int64_t i) {
      const C g = C(given[i]) + decay * C(p[i]);
      const C s = C(square[i]) * keep + g * g * rest;
      const C change = std::sqrt(C(delta[i]) + epsilon) / std::sqrt(s + epsilon) * g;
      square[i] = s;
      delta[i] = C(delta[i]) * keep + change * change * rest;
      p[i] = C(p[i]) - rate * change;
    });
  });
}

void rmsprop_step(at::Tensor& param, const at::Tensor& grad, at::Tensor& square_avg,
                  const std::optional<at::Tensor>& grad_avg, const std::optional<at::Tensor>& momentum_buffer,
                  const RmspropOptions& o) {
  dispatch(param, [&](auto type) {
    using T = decltype(type);
    using C = at::opmath_type<T>;
    auto *p = data<T>(param, param), *square = data<T>(square_avg, param);
    auto *mean = data<T>(grad_avg, param), *momentum = data<T>(momentum_buffer, param);
    const auto* given = data<T>(grad, param);
    const C keep = o.alpha, rest = 1 - o.alpha, eps = o.eps, rate = o.lr;
    const C coupled = o.decoupled_decay ? 0 : o.weight_decay;
    const C shrink = o.decoupled_decay ? 1 - o.lr * o.weight_decay : 1;
    const C in_buffer = o.lr_in_momentum ? o.lr : 1, outside = o.lr_in_momentum ? 1 : o.lr, held = o.momentum;
    for_each(0, param.numel(), [&](int64_t i) {
      const C w = C(p[i]) * shrink, g = C(given[i]) + coupled * w;
      C s = C(square[i]) * keep + g * g * rest;
      square[i] = s;
      if (mean) {
        const C m = C(mean[i]) + (g - C(mean[i])) * rest;
        mean[i] = m;
        s -= m * m;
      }
      const C step = g / (o.eps_in_root ? std::sqrt(s + eps) : std::sqrt(s) + eps);
      if (momentum) {
        const C buffer = C(momentum[i]) * held + in_buffer * step;
        momentum[i] = buffer;
        p[i] = w - outside * buffer;
      } else {
        p[i] = w - rate * step;
      }
    });
  });
}

void lamb_step(const Moments& t, at::IntArrayRef sizes, const MomentOptions& o, bool trust) {
  dispatch(t.param, [&](auto type) {
    const Adam<decltype(type)> adam(t, o);
    using C = typename Adam<decltype(type)>::C;
    const C decay = o.weight_decay;
    const auto step = [&](int64_t i) { return adam.step(i) + decay * C(adam.param[i]); };
    for_each_parameter(t.param, sizes, [&](size_t, int64_t begin, int64_t end) {
      const auto [weight, change] = sum<2>(begin, end, [&](int64_t i) {
        adam.advance(i);
        const double w = C(adam.param[i]), s = step(i);
        return Sums<2>{w * w, s * s};
      });
      const double ratio =
          trust && weight > 0 && change > 0 ? std::min(std::sqrt(weight), 10.0) / std::sqrt(change) : 1;
      const C rate = o.lr * ratio;
      for_each(begin, end, [&](int64_t i) { adam.param[i] = C(adam.param[i]) - rate * step(i); });
    });
  });
}

void bert_adam_step(const Moments& t, at::IntArrayRef sizes, const MomentOptions& o, double max_grad_norm) {
  dispatch(t.param, [&](auto type) {
    const Adam<decltype(type)> adam(t, o);
    using C = typename Adam<decltype(type)>::C;
    const C decay = o.weight_decay, rate = o.lr;
    for_each_parameter(t.param, sizes, [&](size_t, int64_t begin, int64_t end) {
      if (max_grad_norm > 0) {
        const auto [square] = sum<1>(begin, end, [&](int64_t i) {
          const double g = C(adam.grad[i]);
          return Sums<1>{g * g};
        });
        const C factor = std::min(max_grad_norm / (std::sqrt(square) + 1e-6), 1.0);
        for_each(begin, end, [&](int64_t i) { adam.grad[i] = C(adam.grad[i]) * factor; });
      }
      for_each(begin, end, [&](int64_t i) {
        adam.advance(i);
        adam.param[i] = C(adam.param[i]) - rate * (adam.step(i) + decay * C(adam.param[i]));
      });
    });
  });
}

namespace {

// Of a row of a weight, its gradient and its step: what both projections need.
enum : size_t { kWeightGrad, kWeight, kGrad, kWeightStep, kRowSums };

double cosine(const Sums<kRowSums>& s, double eps) {
  return std::abs(s[kWeightGrad]) / (std::max(std::sqrt(s[kWeight]), eps) * std::max(std::sqrt(s[kGrad]), eps));
}

// What of the weight is to be taken off the step, so that the step is orthogonal to it.
double share(const Sums<kRowSums>& s, double eps) {
  const double norm = std::sqrt(s[kWeight]) + eps;
  return s[kWeightStep] / (norm * norm);
}

}  // namespace

void adamp_step(const Moments& t, const at::Tensor& step, at::IntArrayRef sizes, at::IntArrayRef rows,
                const MomentOptions& o, const Projection& projection) {
  TORCH_CHECK(rows.size() == sizes.size(), "sizes and rows have ", sizes.size(), " and ", rows.size(), " elements");
  const double count = step.item<double>(), root = std::sqrt(1 - std::pow(o.beta2, count));
  dispatch(t.param, [&](auto type) {
    const Adam<decltype(type)> adam(t, o);
    using C = typename Adam<decltype(type)>::C;
    const C rate = o.lr / (1 - std::pow(o.beta1, count)), correction = root;
    const auto change = [&](int64_t i) {
      const C mean = C(adam.mean[i]);
      const C ahead = projection.nesterov ? adam.beta1 * mean + adam.rest1 * C(adam.grad[i]) : mean;
      return ahead / (std::sqrt(C(adam.square[i])) / correction + adam.eps);
    };
    for_each_parameter(t.param, sizes, [&](size_t number, int64_t begin, int64_t end) {
      for_each(begin, end, [&](int64_t i) { adam.advance(i); });
      if (begin == end) return;
      const int64_t columns = (end - begin) / std::max<int64_t>(rows[number], 1);
      std::vector<double> shares(rows[number]);
      bool projected = false;
      if (rows[number] > 0) {
        double largest = 0;
        Sums<kRowSums> whole{};
        for (int64_t row = 0; row < rows[number]; row++) {
          const auto sums = sum<kRowSums>(begin + row * columns, begin + (row + 1) * columns, [&](int64_t i) {
            const double w = C(adam.param[i]), g = C(adam.grad[i]);
            return Sums<kRowSums>{w * g, w * w, g * g, w * change(i)};
          });
          largest = std::max(largest, cosine(sums, o.eps));
          shares[row] = share(sums, o.eps);
          whole = added<kRowSums>(whole, sums);
        }
        projected = largest < projection.delta / std::sqrt(columns);  // by channel
        if (!projected && cosine(whole, o.eps) < projection.delta / std::sqrt(end - begin)) {
          projected = true;  // as a whole
          std::fill(shares.begin(), shares.end(), share(whole, o.eps));
        }
      }
      const C shrink = 1 - o.lr * o.weight_decay * (projected ? projection.wd_ratio : 1);
      for_each(begin, end, [&](int64_t i) {
        const C w = adam.param[i], off = projected ? C(shares[(i - begin) / columns]) * w : C(0);
        adam.param[i] = w * shrink - rate * (change(i) - off);
      });
    });
  });
}

}  // namespace softnpu::kernels
