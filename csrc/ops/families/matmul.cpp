// torch.matmul in one call, whatever the ranks, and its gradients.
//
// Note [Matrix products of any rank]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Upstream composes matmul of dot, mv, mm and bmm, with copies where batches have to be expanded. The device's operator
// takes both tensors as they are, and the official client sends it for every torch.matmul, also for those that
// gradients of upstream make. So matmul stands at the device's key and at the autograd key, there with a node of its
// own, whose gradients are such products too and can be differentiated in turn. Tracing, transforms of functorch,
// forward-mode differentiation and what has an error message take upstream's composition.
#include <ATen/ATen.h>
#include <ATen/ops/matmul_native.h>

#include "acl/library.h"
#include "ops/custom.h"
#include "ops/provider.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace npu::ops {

namespace {

int64_t rows(const Tensor& t) { return t.dim() == 1 ? 1 : t.size(-2); }

bool broadcasts(at::IntArrayRef a, at::IntArrayRef b) {
  for (auto i = a.rbegin(), j = b.rbegin(); i != a.rend() && j != b.rend(); ++i, ++j)
    if (*i != *j && *i != 1 && *j != 1) return false;
  return true;
}

at::IntArrayRef batches(const Tensor& t) { return t.sizes().slice(0, t.dim() > 2 ? t.dim() - 2 : 0); }

bool is_operand(const Tensor& t) {
  return is_direct(t) && t.dim() > 0 && t.layout() == at::kStrided && !t._is_zerotensor();
}

bool fits(const Tensor& self, const Tensor& other) {
  static const bool is_provided = acl::op_symbol("aclnnMatmul") != nullptr;
  return is_provided && is_operand(self) && is_operand(other) && self.device() == other.device() &&
         self.scalar_type() == other.scalar_type() && self.scalar_type() != at::kBool &&
         self.size(-1) == (other.dim() == 1 ? other.size(0) : other.size(-2)) &&
         broadcasts(batches(self), batches(other));
}

Tensor launch(const Tensor& self, const Tensor& other) {
  CardGuard guard(self);
  Sizes sizes;
  if (self.dim() > 2 || other.dim() > 2) {
    const auto batch = at::infer_size(batches(self), batches(other));
    sizes.append(batch.begin(), batch.end());
  }
  if (self.dim() > 1) sizes.push_back(rows(self));
  if (other.dim() > 1) sizes.push_back(other.size(-1));
  const auto out = empty(sizes, self.scalar_type());
  NPU_EXEC(aclnnMatmul, resolved(self), resolved(other), out, cube_math_type());
  return out;
}

// All matrices of a batch below each other.
Tensor folded(const Tensor& t) { return t.dim() == 2 ? t : t.reshape({-1, t.size(-1)}); }

// Of a matrix that met a batch, or of a tensor whose batches were broadcast. Vectors come as matrices here.
Tensor gradient_of_first(const Tensor& grad, const Tensor& self, const Tensor& other) {
  if (self.dim() == 2 && other.dim() > 2) return at::matmul(folded(grad.mT()).mT(), folded(other.mT()).conj());
  return at::sum_to(at::matmul(grad, other.mH()), self.sizes());
}

Tensor gradient_of_second(const Tensor& grad, const Tensor& self, const Tensor& other) {
  if (other.dim() > 2) return at::sum_to(at::matmul(self.mH(), grad), other.sizes());
  const auto x = folded(self), dy = folded(grad);
  // A weight that came transposed gets a gradient which is dense once it is transposed back.
  const bool is_transposed = other.stride(0) == 1 && other.stride(1) == other.size(0) && !other.is_contiguous();
  return is_transposed ? at::matmul(dy.mT(), x.conj()).mT() : at::matmul(x.mH(), dy);
}

// Not a view unless it must be one: the engine adds to a gradient in place only if nothing shares its memory.
Tensor in_shape_of(const Tensor& operand, const Tensor& gradient) {
  return operand.dim() == 1 ? gradient.view(operand.sizes()) : gradient;
}

struct MatmulBackward : torch::autograd::Node {
  torch::autograd::SavedVariable self_, other_;
  std::string name() const override { return "MatmulBackward0"; }
  void release_variables() override {
    self_.reset_data();
    other_.reset_data();
  }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
    std::lock_guard<std::mutex> lock(mutex_);
    torch::autograd::variable_list result(2);
    if (!grads[0].defined()) return result;
    const auto self = self_.unpack(), other = other_.unpack();
    const auto a = self.dim() == 1 ? self.unsqueeze(0) : self, b = other.dim() == 1 ? other.unsqueeze(1) : other;
    auto grad = other.dim() == 1 ? grads[0].unsqueeze(-1) : grads[0];
    if (self.dim() == 1) grad = grad.unsqueeze(-2);
    if (task_should_compute_output(1)) result[1] = in_shape_of(other, gradient_of_second(grad, a, b));
    if (task_should_compute_output(0)) result[0] = in_shape_of(self, gradient_of_first(grad, a, b));
    return result;
  }
};

Tensor product(const Tensor& self, const Tensor& other) {
  return fits(self, other) ? launch(self, other) : at::native::matmul(self, other);
}

Tensor product_with_gradient(const Tensor& self, const Tensor& other) {
  if (!fits(self, other)) return at::native::matmul(self, other);
  c10::intrusive_ptr<MatmulBackward> node;
  if (torch::autograd::compute_requires_grad(self, other)) {
    node = c10::make_intrusive<MatmulBackward>();
    node->set_next_edges(torch::autograd::collect_next_edges(self, other));
    node->self_ = torch::autograd::SavedVariable(self, false);
    node->other_ = torch::autograd::SavedVariable(other, false);
  }
  auto result = [&] {
    at::AutoDispatchBelowADInplaceOrView below;
    return launch(self, other);
  }();
  if (node) record(result, node);
  return result;
}

}  // namespace

NPU_REGISTER(matmul) {
  manual("aten::matmul", "", &product, "aclnnMatmul");
  reg_as(c10::DispatchKey::AutogradPrivateUse1, "aten::matmul", "", &product_with_gradient);
}

}  // namespace npu::ops
