// Views share storage and touch no device: upstream's own functions, registered for npu.
#include <ATen/native/TensorShape.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>

#include "ops/register.h"

namespace npu::ops {

namespace {

// Whether `tensor.data = other` may exchange what is behind a tensor: dense tensors of host and npu, as for CUDA.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  const auto dense = [](const at::Tensor& t) {
    return t.layout() == at::kStrided && (t.device().is_cpu() || t.device().is_privateuseone()) && !t.is_quantized();
  };
  return (dense(self) && dense(from)) || self.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(from.key_set());
}

}  // namespace

NPU_REGISTER(view) {
  manual("aten::_has_compatible_shallow_copy_type", "", &has_compatible_shallow_copy_type);
  manual("aten::view", "", &at::native::view);
  manual("aten::as_strided", "", &at::native::as_strided_tensorimpl);
  manual("aten::_reshape_alias", "", &at::native::_reshape_alias);
  manual("aten::unfold", "", &at::native::unfold);
  manual("aten::view_as_real", "", &at::native::view_as_real);
  manual("aten::view_as_complex", "", &at::native::view_as_complex);
}

}  // namespace npu::ops
