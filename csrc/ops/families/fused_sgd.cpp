// torch.optim.SGD with fused=True on a provider without the extension entry (see Note [Operators that the provider
// lacks]): CANN's operator, which knows neither found_inf nor a learning rate on the card, and always has momentum.
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_neg.h>

#include "aclnn/op.h"
#include "ops/composition.h"
#include "ops/tensor.h"

namespace npu::ops {

namespace {

using List = at::TensorList;
using Maybe = std::optional<Tensor>;

void without_momentum(List params, List grads, double weight_decay, double lr, bool maximize, const Maybe& grad_scale) {
  std::vector<Tensor> owned;
  const auto replace = [&](std::vector<Tensor> made) {
    owned = std::move(made);
    grads = owned;
  };
  if (grad_scale) at::_foreach_div_(grads, *grad_scale);  // the gradients stay unscaled, as upstream leaves them
  if (maximize) replace(at::_foreach_neg(grads));
  if (weight_decay != 0) replace(at::_foreach_add(grads, params, weight_decay));
  at::_foreach_add_(params, grads, -lr);
}

void with_number(List params, List grads, List buffers, double weight_decay, double momentum, double lr,
                 double dampening, bool nesterov, bool maximize, bool is_first_step, const Maybe& grad_scale,
                 const Maybe& found_inf) {
  if (params.empty()) return;
  CardGuard guard(params[0]);
  if (found_inf && found_inf->item<double>() != 0) return;
  if (momentum == 0) return without_momentum(params, grads, weight_decay, lr, maximize, grad_scale);
  NPU_EXEC(aclnnFusedSgd, params, grads, buffers, grad_scale, static_cast<float>(weight_decay),
           static_cast<float>(momentum), static_cast<float>(lr), static_cast<float>(dampening), nesterov, maximize,
           is_first_step);
}

void with_tensor(List params, List grads, List buffers, double weight_decay, double momentum, const Tensor& lr,
                 double dampening, bool nesterov, bool maximize, bool is_first_step, const Maybe& grad_scale,
                 const Maybe& found_inf) {
  with_number(params, grads, buffers, weight_decay, momentum, lr.item<double>(), dampening, nesterov, maximize,
              is_first_step, grad_scale, found_inf);
}

}  // namespace

NPU_REGISTER(fused_sgd) {
  composed("aten::_fused_sgd_", "", &with_number);
  composed("aten::_fused_sgd_", "tensor_lr", &with_tensor);
}

}  // namespace npu::ops
