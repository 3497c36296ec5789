// renorm with a gradient in the type of its input. Upstream's formula accumulates in the CPU's type, which is float64
// for float32, and chips do not compute with float64. So it stands at the autograd key: the forward pass is the
// device's operator, the gradient that of a composition. Transforms of functorch and forward-mode differentiation take
// the composition as a whole.
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/WrapDimUtils.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/provider.h"
#include "ops/register.h"

namespace npu::ops {

namespace {

using at::Tensor;
using c10::Scalar;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor composition(const Tensor& self, const Scalar& p, int64_t dim, const Scalar& maxnorm) {
  std::vector<int64_t> others;
  for (int64_t i = 0; i < self.dim(); ++i)
    if (i != at::maybe_wrap_dim(dim, self.dim())) others.push_back(i);
  const auto wide = self.to(at::toOpMathType(self.scalar_type()));
  const auto norm = at::linalg_vector_norm(wide, p, others, /*keepdim=*/true);
  return (wide * at::where(norm > maxnorm, maxnorm * (norm + 1e-7).reciprocal(), 1)).to(self.scalar_type());
}

struct Renorm : torch::autograd::Function<Renorm> {
  static Tensor forward(AutogradContext* context, const Tensor& self, const Scalar& p, int64_t dim,
                        const Scalar& maxnorm) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    context->save_for_backward({self});
    context->saved_data["p"] = p;
    context->saved_data["dim"] = dim;
    context->saved_data["maxnorm"] = maxnorm;
    return at::renorm(self, p, dim, maxnorm);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const bool again = at::GradMode::is_enabled();
    at::AutoGradMode enabled(true);
    auto self = context->get_saved_variables()[0];
    if (!again) self = self.detach().requires_grad_();
    const auto result = composition(self, context->saved_data["p"].toScalar(), context->saved_data["dim"].toInt(),
                                    context->saved_data["maxnorm"].toScalar());
    return {torch::autograd::grad({result}, {self}, {grads[0]}, std::nullopt, /*create_graph=*/again)[0], {}, {}, {}};
  }
};

Tensor with_gradient(const Tensor& self, const Scalar& p, int64_t dim, const Scalar& maxnorm) {
  const bool differentiated = at::GradMode::is_enabled() && self.requires_grad();
  if (!differentiated && !self._fw_grad(0).defined()) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    return at::renorm(self, p, dim, maxnorm);
  }
  if (differentiated && is_direct(self)) return Renorm::apply(self, p, dim, maxnorm);
  TORCH_CHECK(self.dim() > 1, "renorm: input needs at least 2 dimensions, got ", self.dim(), " dimensions");
  return composition(self, p, dim, maxnorm);
}

Tensor& with_gradient_(Tensor& self, const Scalar& p, int64_t dim, const Scalar& maxnorm) {
  if (at::GradMode::is_enabled() && (self.requires_grad() || self._fw_grad(0).defined()))
    return self.copy_(with_gradient(self.clone(), p, dim, maxnorm));
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  return self.renorm_(p, dim, maxnorm);
}

}  // namespace

NPU_REGISTER(renorm) {
  reg_as(c10::DispatchKey::AutogradPrivateUse1, "aten::renorm", "", &with_gradient);
  reg_as(c10::DispatchKey::AutogradPrivateUse1, "aten::renorm_", "", &with_gradient_);
}

}  // namespace npu::ops
