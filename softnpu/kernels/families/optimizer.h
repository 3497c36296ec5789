// Steps of optimisers on combined buffers: one pass, or two where a rule needs norms, over all parameters at once.
// Buffers have one dimension, one type and one length; `sizes` are the numbers of elements of the parameters in them.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace softnpu::kernels {

// The tensors of Adam's relatives.
struct Moments {
  at::Tensor &param, &grad, &exp_avg, &exp_avg_sq;
};

struct MomentOptions {
  double lr, beta1, beta2, eps, weight_decay;
};

struct SgdOptions {
  double weight_decay, momentum, lr, dampening;
  bool nesterov, maximize, is_first_step;
};
// Lists of tensors. ATen's kernel, but for half types, whose vectorised path in torch 2.13 gives wrong results.
void sgd_step(const std::vector<at::Tensor>& params, const std::vector<at::Tensor>& grads,
              const std::vector<at::Tensor>& momentum_buffers, const SgdOptions& options,
              const std::optional<at::Tensor>& grad_scale, const std::optional<at::Tensor>& found_inf);

void adadelta_step(at::Tensor& param, const at::Tensor& grad, at::Tensor& square_avg, at::Tensor& acc_delta, double lr,
                   double rho, double eps, double weight_decay);

struct RmspropOptions {
  double lr, alpha, eps, weight_decay, momentum;
  bool eps_in_root, decoupled_decay, lr_in_momentum;
};
// `grad_avg` is there for the centred rule, `momentum_buffer` for momentum.
void rmsprop_step(at::Tensor& param, const at::Tensor& grad, at::Tensor& square_avg,
                  const std::optional<at::Tensor>& grad_avg, const std::optional<at::Tensor>& momentum_buffer,
                  const RmspropOptions& options);

// `trust`: each parameter's step is scaled by the ratio of the parameter's norm, at most 10, to the step's.
void lamb_step(const Moments& t, at::IntArrayRef sizes, const MomentOptions& options, bool trust);

// Each parameter's gradient is first scaled, in place, to a norm of at most `max_grad_norm`, if that is positive.
void bert_adam_step(const Moments& t, at::IntArrayRef sizes, const MomentOptions& options, double max_grad_norm);

struct Projection {
  double delta, wd_ratio;
  bool nesterov;
};
// `rows` has the first dimension of each parameter, or 0 for one that is not projected; `step` counts from 1.
void adamp_step(const Moments& t, const at::Tensor& step, at::IntArrayRef sizes, at::IntArrayRef rows,
                const MomentOptions& options, const Projection& projection);

}  // namespace softnpu::kernels
