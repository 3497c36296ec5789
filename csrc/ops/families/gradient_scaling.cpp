// torch.amp.GradScaler's check of all gradients: a launch takes as many tensors as the official client was seen to
// send.
#include "aclnn/op.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace npu::ops {

namespace {

constexpr size_t kMostGradients = 250;

void unscale_gradients(at::TensorList self, Tensor& found_inf, const Tensor& inv_scale) {
  CardGuard guard(found_inf);
  check_same_device("_amp_foreach_non_finite_check_and_unscale_", {&found_inf, &inv_scale});
  for (size_t at = 0; at < self.size(); at += kMostGradients) {
    const auto part = self.slice(at, std::min(kMostGradients, self.size() - at));
    NPU_EXEC(aclnnForeachNonFiniteCheckAndUnscale, part, found_inf, inv_scale);
  }
}

}  // namespace

NPU_REGISTER(gradient_scaling) {
  reg("aten::_amp_foreach_non_finite_check_and_unscale_", "", &unscale_gradients,
      "aclnnForeachNonFiniteCheckAndUnscale");
}

}  // namespace npu::ops
