// Losses that upstream composes, in one call each way.
//
// Note [Losses with gradients of their own]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Upstream composes l1_loss, kl_div and the gradient of binary_cross_entropy_with_logits of elementwise operators and a
// reduction. The device has one operator for each loss and for each of its gradients, which the official client sends.
// So they stand at the autograd key. What broadcasts, promotes, has no elements or an error message, tracing,
// transforms of functorch and forward-mode differentiation take upstream's composition; so does the gradient of a
// gradient.
#include <ATen/ATen.h>
#include <ATen/ops/binary_cross_entropy_with_logits_native.h>
#include <ATen/ops/kl_div_native.h>
#include <ATen/ops/l1_loss_native.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "acl/library.h"
#include "aclnn/op.h"
#include "ops/provider.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace npu::ops {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;
using Optional = std::optional<Tensor>;

bool fits(const Tensor& self, const Tensor& target) {
  const auto type = self.scalar_type();
  return is_direct(self) && is_direct(target) && self.device() == target.device() && self.numel() > 0 &&
         self.sizes() == target.sizes() && type == target.scalar_type() &&
         (type == at::kFloat || type == at::kHalf || type == at::kBFloat16) && self.layout() == at::kStrided &&
         target.layout() == at::kStrided;
}

// The elements of a loss lie as those of its input do; the operators are given dense results only.
bool has_plain_result(const Tensor& self, int64_t reduction) {
  return reduction != at::Reduction::None || self.is_contiguous();
}

Tensor result_of(const Tensor& self, int64_t reduction) {
  return reduction == at::Reduction::None ? empty(self.sizes(), self.scalar_type()) : empty({}, self.scalar_type());
}

// Gradients that can be differentiated: those of `composed`, upstream's loss of the saved tensors.
variable_list of_composition(const Tensor& composed, const variable_list& inputs, const Tensor& grad) {
  variable_list wanted;
  for (const auto& t : inputs)
    if (t.requires_grad()) wanted.push_back(t);
  auto found = torch::autograd::grad({composed}, wanted, {grad}, std::nullopt, /*create_graph=*/true,
                                     /*allow_unused=*/true);
  variable_list result;
  for (auto next = found.begin(); const auto& t : inputs) result.push_back(t.requires_grad() ? *next++ : Tensor());
  return result;
}

struct L1Loss : Function<L1Loss> {
  static Tensor forward(AutogradContext* context, const Tensor& self, const Tensor& target, int64_t reduction) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    CardGuard guard(self);
    const auto out = result_of(self, reduction);
    NPU_EXEC(aclnnL1Loss, self, target, reduction, out);
    context->save_for_backward({self, target});
    context->saved_data["reduction"] = reduction;
    return out;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const auto reduction = context->saved_data["reduction"].toInt();
    if (at::GradMode::is_enabled()) {
      auto found = of_composition(at::native::l1_loss(saved[0], saved[1], reduction), saved, grads[0]);
      return {found[0], found[1], {}};
    }
    CardGuard guard(saved[0]);
    const auto of_self = empty(saved[0].sizes(), saved[0].scalar_type());
    NPU_EXEC(aclnnL1LossBackward, grads[0], saved[0], saved[1], reduction, of_self);
    return {of_self, context->needs_input_grad(1) ? of_self * -1 : Tensor(), {}};
  }
};

struct KlDiv : Function<KlDiv> {
  static Tensor forward(AutogradContext* context, const Tensor& self, const Tensor& target, int64_t reduction,
                        bool log_target) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    CardGuard guard(self);
    const auto out = result_of(self, reduction);
    NPU_EXEC(aclnnKlDiv, self, target, reduction, log_target, out);
    context->save_for_backward({self, target});
    context->saved_data["reduction"] = reduction;
    context->saved_data["log_target"] = log_target;
    return out;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const auto reduction = context->saved_data["reduction"].toInt();
    const bool log_target = context->saved_data["log_target"].toBool();
    if (at::GradMode::is_enabled()) {
      auto found = of_composition(at::native::kl_div(saved[0], saved[1], reduction, log_target), saved, grads[0]);
      return {found[0], found[1], {}, {}};
    }
    CardGuard guard(saved[0]);
    Tensor of_self, of_target;
    if (context->needs_input_grad(0)) {
      of_self = empty(saved[0].sizes(), saved[0].scalar_type());
      NPU_EXEC(aclnnKlDivBackward, grads[0], saved[0], saved[1], reduction, log_target, of_self);
    }
    if (context->needs_input_grad(1)) {
      of_target = empty(saved[1].sizes(), saved[1].scalar_type());
      NPU_EXEC(aclnnKlDivTargetBackward, grads[0], saved[0], saved[1], reduction, log_target, of_target);
    }
    return {of_self, of_target, {}, {}};
  }
};

struct CrossEntropyOfLogits : Function<CrossEntropyOfLogits> {
  static Tensor forward(AutogradContext* context, const Tensor& self, const Tensor& target, const Optional& weight,
                        const Optional& pos_weight, int64_t reduction) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    context->save_for_backward({self, target, weight.value_or(Tensor()), pos_weight.value_or(Tensor())});
    context->saved_data["reduction"] = reduction;
    return at::binary_cross_entropy_with_logits(self, target, weight, pos_weight, reduction);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const auto reduction = context->saved_data["reduction"].toInt();
    const auto given = [&](size_t i) { return saved[i].defined() ? Optional(saved[i]) : std::nullopt; };
    const auto composed = [&] {
      return at::native::binary_cross_entropy_with_logits(saved[0], saved[1], given(2), given(3), reduction);
    };
    if (at::GradMode::is_enabled()) {
      auto found = of_composition(composed(), {saved[0], saved[1]}, grads[0]);
      return {found[0], found[1], {}, {}, {}};
    }
    CardGuard guard(saved[0]);
    Tensor of_self, of_target;
    if (context->needs_input_grad(0)) {
      of_self = empty(saved[0].sizes(), saved[0].scalar_type());
      NPU_EXEC(aclnnBinaryCrossEntropyWithLogitsBackward, grads[0], saved[0], saved[1], given(2), given(3), reduction,
               of_self);
    }
    if (context->needs_input_grad(1)) {  // for which there is no operator
      at::AutoGradMode enabled(true);
      of_target = of_composition(composed(), {saved[1]}, grads[0])[0].detach();
    }
    return {of_self, of_target, {}, {}, {}};
  }
};

Tensor l1_loss(const Tensor& self, const Tensor& target, int64_t reduction) {
  static const bool is_provided = acl::op_symbol("aclnnL1Loss") && acl::op_symbol("aclnnL1LossBackward");
  if (!is_provided || !fits(self, target) || !has_plain_result(self, reduction))
    return at::native::l1_loss(self, target, reduction);
  return L1Loss::apply(self, target, reduction);
}

Tensor kl_div(const Tensor& self, const Tensor& target, int64_t reduction, bool log_target) {
  static const bool is_provided = acl::op_symbol("aclnnKlDiv") && acl::op_symbol("aclnnKlDivBackward") &&
                                  acl::op_symbol("aclnnKlDivTargetBackward");
  if (!is_provided || !fits(self, target) || !has_plain_result(self, reduction))
    return at::native::kl_div(self, target, reduction, log_target);
  return KlDiv::apply(self, target, reduction, log_target);
}

Tensor cross_entropy_of_logits(const Tensor& self, const Tensor& target, const Optional& weight,
                               const Optional& pos_weight, int64_t reduction) {
  static const bool is_provided = acl::op_symbol("aclnnBinaryCrossEntropyWithLogitsBackward") != nullptr;
  const auto is_number = [&](const Optional& t) {  // that broadcasts, and is not differentiated
    return !t.has_value() || !t->defined() ||
           (is_direct(*t) && !t->requires_grad() && t->scalar_type() == self.scalar_type() &&
            t->device() == self.device());
  };
  if (!is_provided || !fits(self, target) || !is_number(weight) || !is_number(pos_weight))
    return at::native::binary_cross_entropy_with_logits(self, target, weight, pos_weight, reduction);
  return CrossEntropyOfLogits::apply(self, target, weight, pos_weight, reduction);
}

}  // namespace

NPU_REGISTER(whole_losses) {
  reg_as(c10::DispatchKey::AutogradPrivateUse1, "aten::l1_loss", "", &l1_loss);
  reg_as(c10::DispatchKey::AutogradPrivateUse1, "aten::kl_div", "", &kl_div);
  reg_as(c10::DispatchKey::AutogradPrivateUse1, "aten::binary_cross_entropy_with_logits", "", &cross_entropy_of_logits);
}

}  // namespace npu::ops
