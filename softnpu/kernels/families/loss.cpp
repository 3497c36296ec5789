#include "kernels/families/loss.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>

namespace softnpu::kernels {

namespace {

// The gradient of a loss by its elements, reduced as the loss was.
void store(Tensor& out, Tensor gradient, const Tensor& grad_output, int64_t reduction) {
  gradient = gradient * grad_output;
  if (reduction == at::Reduction::Mean) gradient.div_(gradient.numel());
  out.copy_(gradient);
}

}  // namespace

void l1_loss_backward(Tensor& out, const Tensor& grad_output, const Tensor& self, const Tensor& target,
                      int64_t reduction) {
  store(out, (self - target).sign(), grad_output, reduction);
}

void kl_div_backward(Tensor& out, const Tensor& grad_output, const Tensor& self, const Tensor& target,
                     int64_t reduction, bool log_target) {
  const auto gradient = log_target ? -target.exp() : at::where(target > 0, -target, at::zeros({}, target.options()));
  store(out, gradient.expand_as(self), grad_output, reduction);
}

void kl_div_target_backward(Tensor& out, const Tensor& grad_output, const Tensor& self, const Tensor& target,
                            int64_t reduction, bool log_target) {
  const auto gradient = log_target ? target.exp() * (target + 1 - self)
                                   : at::where(target > 0, target.log() + 1 - self, at::zeros({}, target.options()));
  store(out, gradient.expand_as(target), grad_output, reduction);
}

void binary_cross_entropy_with_logits_backward(Tensor& out, const Tensor& grad_output, const Tensor& self,
                                               const Tensor& target, const Optional& weight, const Optional& pos_weight,
                                               int64_t reduction) {
  Tensor gradient;
  if (pos_weight) {
    const auto t = *pos_weight * target;
    gradient = (t + 1 - target) * self.sigmoid() - t;
  } else {
    gradient = self.sigmoid() - target;
  }
  if (weight) gradient = gradient * *weight;
  store(out, gradient, grad_output, reduction);
}

void multilabel_margin_loss(Tensor& out, Tensor& is_target, const Tensor& self, const Tensor& target,
                            int64_t reduction) {
  auto [value, marks] = at::multilabel_margin_loss_forward(self, target, reduction);
  out.copy_(value);
  is_target.copy_(marks);
}

void nll_loss2d(Tensor& out, Tensor& total_weight, const Tensor& self, const Tensor& target, const Optional& weight,
                int64_t reduction, int64_t ignore_index) {
  const auto [loss, total] = at::nll_loss2d_forward(self, target, weight, reduction, ignore_index);
  out.copy_(loss);
  total_weight.copy_(total);
}

void ctc_loss(at::Tensor& loss, at::Tensor& log_alpha, const std::tuple<at::Tensor, at::Tensor>& result) {
  const auto& [value, lattice] = result;
  loss.copy_(value);
  log_alpha.narrow(2, 0, lattice.size(2)).copy_(lattice);
}

at::Tensor ctc_lattice(const at::Tensor& log_alpha, at::IntArrayRef target_lengths) {
  const auto longest = std::max_element(target_lengths.begin(), target_lengths.end());
  return log_alpha.narrow(2, 0, longest == target_lengths.end() ? 1 : 2 * *longest + 1).contiguous();
}

}  // namespace softnpu::kernels
