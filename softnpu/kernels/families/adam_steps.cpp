#include "kernels/families/adam_steps.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>

#include "kernels/families/normalization.h"

namespace softnpu::kernels {

namespace {

struct Numbers {
  double beta1_power, beta2_power, lr, beta1, beta2, epsilon;
  explicit Numbers(const AdamNumbers& n)
      : beta1_power(n.beta1_power.item<double>()),
        beta2_power(n.beta2_power.item<double>()),
        lr(n.lr.item<double>()),
        beta1(n.beta1.item<double>()),
        beta2(n.beta2.item<double>()),
        epsilon(n.epsilon.item<double>()) {}
};

// The moments after a step, in float32, rounded once into their tensors.
std::pair<Tensor, Tensor> moments(Tensor& m, Tensor& v, const Tensor& grad, const Numbers& n) {
  const auto first = wide(m) * n.beta1 + grad * (1 - n.beta1);
  const auto second = wide(v) * n.beta2 + grad.square() * (1 - n.beta2);
  m.copy_(first);
  v.copy_(second);
  return {first, second};
}

}  // namespace

void adam_step(Tensor& var, Tensor& m, Tensor& v, const Tensor& grad, const AdamNumbers& numbers, bool nesterov) {
  const Numbers n(numbers);
  const auto g = wide(grad);
  const auto [first, second] = moments(m, v, g, n);
  const auto direction = nesterov ? first * n.beta1 + g * (1 - n.beta1) : first;
  const double rate = n.lr * std::sqrt(1 - n.beta2_power) / (1 - n.beta1_power);
  var.copy_(wide(var) - direction / (second.sqrt() + n.epsilon) * rate);
}

void adamw_step(Tensor& var, Tensor& m, Tensor& v, const Tensor& grad, const AdamNumbers& numbers,
                const Tensor& weight_decay, const std::optional<Tensor>& largest, bool amsgrad, bool maximize) {
  const Numbers n(numbers);
  const auto g = maximize ? -wide(grad) : wide(grad);
  const auto [first, second] = moments(m, v, g, n);
  auto square = second;
  if (amsgrad) {
    square = at::maximum(wide(*largest), second);
    Tensor(*largest).copy_(square);
  }
  const auto root = (square / (1 - n.beta2_power * n.beta2)).sqrt() + n.epsilon;
  var.copy_(wide(var) * (1 - n.lr * weight_decay.item<double>()) -
            first / root * (n.lr / (1 - n.beta1_power * n.beta1)));
}

}  // namespace softnpu::kernels
