// Ranges and fills that a table line cannot say.
#include <ATen/ATen.h>
#include <ATen/native/RangeUtils.h>
#include <ATen/native/Resize.h>

#include "exec.h"
#include "registry.h"
#include "tensor.h"

namespace npu::ops {

namespace {

Tensor& arange_out(const c10::Scalar& start, const c10::Scalar& end, const c10::Scalar& step, Tensor& out) {
  CardGuard guard(out);
  int64_t size = 0;
  if (c10::isIntegralType(out.scalar_type(), false)) size = at::native::compute_arange_size<int64_t>(start, end, step);
  else size = at::native::compute_arange_size<double>(start, end, step);
  if (out.numel() != size) {
    if (out.numel() > 0)
      TORCH_WARN("The number of elements in the out tensor of shape ", out.sizes(), " is ", out.numel(), " which does not match the "
                 "computed number of elements ", size, ". Note that this may occur as a result of rounding error. The out tensor will "
                 "be resized to a tensor of shape (", size, ",).");
    out.resize_({size});
  }
  if (size == 0) return out;
  auto target = out.is_contiguous() ? out : empty({size}, out.scalar_type());
  NPU_EXEC(aclnnArange, start, end, step, target);
  if (!target.is_same(out)) out.copy_(target);
  return out;
}

Tensor& fill_tensor(Tensor& self, const Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(), " dimensions.");
  CardGuard guard(self);
  if (value.is_cpu()) NPU_EXEC(aclnnInplaceFillScalar, self, read_cpu_scalar(value));
  else NPU_EXEC(aclnnInplaceFillTensor, self, value);
  return self;
}

}  // namespace

NPU_REGISTER(range) {
  manual("aten::arange", "start_out", &arange_out);
  manual("aten::fill_", "Tensor", &fill_tensor);
}

}  // namespace npu::ops
