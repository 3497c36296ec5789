// Nested tensors: how they are made of dense ones, and where upstream has a kernel for CUDA of its own, the CPU's, which is
// written in terms of other operators.
#include <ATen/ops/_nested_compute_contiguous_strides_offsets_native.h>
#include <ATen/ops/_nested_tensor_from_mask_left_aligned_native.h>
#include <ATen/ops/_nested_tensor_from_mask_native.h>
#include <ATen/ops/_nested_tensor_softmax_with_shape_native.h>
#include <ATen/ops/_nested_view_from_buffer_native.h>
#include <ATen/ops/bmm_native.h>
#include <ATen/ops/to_padded_tensor_native.h>

#include "registry.h"

namespace npu::ops {

NPU_REGISTER(nested) {
  manual("aten::_nested_tensor_from_mask", "", &at::native::NestedTensor_nested_tensor_from_mask);
  manual("aten::_nested_tensor_from_mask_left_aligned", "", &at::native::NestedTensor_nested_tensor_from_mask_left_aligned);
  manual("aten::_nested_view_from_buffer", "", &at::native::_nested_view_from_buffer);
  manual("aten::_nested_compute_contiguous_strides_offsets", "", &at::native::_nested_compute_contiguous_strides_offsets);
  constexpr auto kNested = c10::DispatchKey::NestedTensorPrivateUse1;
  reg_as(kNested, "aten::bmm", "", &at::native::bmm_nested);
  reg_as(kNested, "aten::to_padded_tensor", "", &at::native::NestedTensor_to_padded_tensor_generic);
  reg_as(kNested, "aten::_nested_tensor_softmax_with_shape", "", &at::native::NestedTensor_softmax_dropout);
}

}  // namespace npu::ops
