// torch.optim.Adam and AdamW with fused=True: one launch for all parameters where the provider has it, which is
// softnpu, else CANN's operator for one parameter after the other, as the official client does.
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_neg.h>

#include "aclnn/op.h"
#include "ops/register.h"
#include "ops/rules.h"
#include "ops/tensor.h"

namespace npu::ops {

namespace {

using List = at::TensorList;
using Maybe = std::optional<Tensor>;

struct Options {
  double lr, beta1, beta2, weight_decay, eps;
  bool amsgrad, maximize;
};

bool has_fused() {
  static const bool has = has_op("softnpuFusedAdam") && has_op("softnpuFusedAdamW");
  return has;
}

// AdamW without decay is Adam, whose decay is part of the gradient. The operator wants the number of steps before.
void one_by_one(bool decoupled, List params, List grads, List exp_avgs, List exp_avg_sqs, List max_exp_avg_sqs,
                List steps, const Options& o, const Maybe& grad_scale, const Maybe& found_inf) {
  if (found_inf && found_inf->item<double>() != 0) return;  // torch takes the step back itself
  std::vector<Tensor> owned;
  const auto replace = [&](std::vector<Tensor> made) {
    owned = std::move(made);
    grads = owned;
  };
  if (grad_scale) replace(at::_foreach_div(grads, *grad_scale));
  const bool coupled = !decoupled && o.weight_decay != 0;
  if (coupled && o.maximize) replace(at::_foreach_neg(grads));
  if (coupled) replace(at::_foreach_add(grads, params, o.weight_decay));
  for (size_t i = 0; i < params.size(); i++) {
    const auto largest = o.amsgrad ? Maybe(max_exp_avg_sqs[i]) : std::nullopt;
    NPU_EXEC(aclnnApplyAdamWV2, params[i], exp_avgs[i], exp_avg_sqs[i], largest, grads[i], steps[i] - 1, o.lr, o.beta1,
             o.beta2, decoupled ? o.weight_decay : 0.0, o.eps, o.amsgrad, o.maximize && !coupled);
  }
}

template <bool decoupled>
void adam(List params, List grads, List exp_avgs, List exp_avg_sqs, List max_exp_avg_sqs, List steps, const Maybe& rate,
          const Options& o, const Maybe& grad_scale, const Maybe& found_inf) {
  if (params.empty()) return;
  CardGuard guard(params[0]);
  if (!has_fused())
    return one_by_one(decoupled, params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps, o, grad_scale,
                      found_inf);
  if constexpr (decoupled)
    NPU_EXEC(softnpuFusedAdamW, params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps, rate, o.lr, o.beta1,
             o.beta2, o.weight_decay, o.eps, o.amsgrad, o.maximize, grad_scale, found_inf);
  else
    NPU_EXEC(softnpuFusedAdam, params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps, rate, o.lr, o.beta1,
             o.beta2, o.weight_decay, o.eps, o.amsgrad, o.maximize, grad_scale, found_inf);
}

template <bool decoupled>
void with_number(List params, List grads, List exp_avgs, List exp_avg_sqs, List max_exp_avg_sqs, List steps, double lr,
                 double beta1, double beta2, double weight_decay, double eps, bool amsgrad, bool maximize,
                 const Maybe& grad_scale, const Maybe& found_inf) {
  adam<decoupled>(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps, std::nullopt,
                  {lr, beta1, beta2, weight_decay, eps, amsgrad, maximize}, grad_scale, found_inf);
}

// A learning rate on the card is read there, if the operator can.
template <bool decoupled>
void with_tensor(List params, List grads, List exp_avgs, List exp_avg_sqs, List max_exp_avg_sqs, List steps,
                 const Tensor& lr, double beta1, double beta2, double weight_decay, double eps, bool amsgrad,
                 bool maximize, const Maybe& grad_scale, const Maybe& found_inf) {
  const double rate = has_fused() ? host_rate(lr) : lr.item<double>();
  adam<decoupled>(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps, card_rate(lr),
                  {rate, beta1, beta2, weight_decay, eps, amsgrad, maximize}, grad_scale, found_inf);
}

}  // namespace

NPU_REGISTER(fused_adam) {
  manual("aten::_fused_adam_", "", &with_number<false>, "softnpuFusedAdam");
  manual("aten::_fused_adam_", "tensor_lr", &with_tensor<false>, "softnpuFusedAdam");
  manual("aten::_fused_adamw_", "", &with_number<true>, "softnpuFusedAdamW");
  manual("aten::_fused_adamw_", "tensor_lr", &with_tensor<true>, "softnpuFusedAdamW");
}

}  // namespace npu::ops
