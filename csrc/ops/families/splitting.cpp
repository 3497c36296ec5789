// Parts of a tensor into given tensors, in one launch: what FSDP does with every gathered parameter.
#include <ATen/ATen.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>

#include "aclnn/op.h"
#include "ops/register.h"
#include "ops/tensor.h"

namespace npu::ops {

namespace {

void split_with_sizes_copy_out(const Tensor& self, at::IntArrayRef sizes, int64_t dim, at::TensorList out) {
  CardGuard guard(self);
  dim = at::maybe_wrap_dim(dim, self.dim());
  int64_t sum = 0;
  for (const int64_t size : sizes) {
    TORCH_CHECK(size >= 0,
                "split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes=", sizes);
    sum += size;
  }
  TORCH_CHECK(self.dim() > 0 && sum == self.size(dim), "split_with_sizes expects split_sizes to sum exactly to ",
              self.dim() > 0 ? self.size(dim) : 0, " (input tensor's size at dimension ", dim,
              "), but got split_sizes=", sizes);
  TORCH_CHECK(out.size() == sizes.size(), "split_with_sizes_copy_out() expected an out= argument of size ",
              sizes.size(), ", got size ", out.size());
  auto shape = self.sizes().vec();
  bool plain = true;
  for (size_t i = 0; i < out.size(); i++) {
    TORCH_CHECK(out[i].dtype() == self.dtype(), "Expected out tensor to have dtype ", self.dtype(), ", but got ",
                out[i].dtype(), " instead");
    TORCH_CHECK(out[i].device() == self.device(), "Expected out tensor to have device ", self.device(), ", but got ",
                out[i].device(), " instead");
    shape[dim] = sizes[i];
    at::native::resize_output(out[i], shape);
    plain = plain && out[i].numel() > 0;
  }
  if (self.numel() == 0) return;
  if (plain) {
    NPU_EXEC(aclnnSplitWithSize, self, sizes, dim, out);
    return;
  }
  const auto parts = self.split_with_sizes(sizes, dim);  // some are empty
  for (size_t i = 0; i < out.size(); i++) out[i].copy_(parts[i]);
}

}  // namespace

NPU_REGISTER(splitting) { manual("aten::split_with_sizes_copy", "out", &split_with_sizes_copy_out); }

}  // namespace npu::ops
