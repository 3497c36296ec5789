#include "ops/families/gradients.h"

#include <ATen/ATen.h>
#include <ATen/WrapDimUtils.h>

#include "aclnn/op.h"
#include "ops/tensor.h"

namespace npu::ops {

void check_repeats(const Tensor& grad, const Tensor& input, const Tensor& repeats, std::optional<int64_t> dim) {
  constexpr const char* op = "repeat_interleave_backward_tensor";
  TORCH_CHECK(repeats.dim() == 1 || repeats.sym_numel() == 1, op, ": repeats has shape ", repeats.sym_sizes(),
              ", expected [count]");
  TORCH_CHECK(grad.dim() == (dim ? input.dim() : 1), op, ": grad has shape ", grad.sym_sizes(),
              ", expected that of input, ", input.sym_sizes(), ", repeated", dim ? "" : " and flat");
  const auto length = dim ? input.sym_size(at::maybe_wrap_dim(*dim, input.dim())) : input.sym_numel();
  TORCH_CHECK(repeats.sym_numel() == 1 || repeats.sym_size(0) == length, op, ": repeats has ", repeats.sym_numel(),
              " numbers, expected 1 or ", length);
}

void repeat_interleave_backward(const Tensor& grad, const Tensor& repeats, std::optional<int64_t> dim,
                                const Tensor& out) {
  const int64_t at = at::maybe_wrap_dim(dim.value_or(-1), grad.dim());
  auto sizes = grad.sizes().vec();
  sizes[at] = dim ? out.size(at) : out.numel();
  if (repeats.numel() == 1) {
    const int64_t times = repeats.item<int64_t>();
    if (times == 0) {
      out.zero_();
      return;
    }
    sizes.insert(sizes.begin() + at + 1, times);
    out.copy_(grad.reshape(sizes).sum(at + 1).view(out.sizes()));
    return;
  }
  NPU_EXEC(aclnnRepeatInterleaveGrad, grad, repeats, at, out.view(sizes));
}

}  // namespace npu::ops
