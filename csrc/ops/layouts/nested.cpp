// Nested tensors: how they are made of dense ones, and where upstream has a kernel for CUDA of its own, the CPU's,
// which is written in terms of other operators.
#include <ATen/ATen.h>
#include <ATen/native/nested/NestedTensorUtils.h>
#include <ATen/ops/_nested_compute_contiguous_strides_offsets_native.h>
#include <ATen/ops/_nested_from_padded_native.h>
#include <ATen/ops/_nested_tensor_from_mask_left_aligned_native.h>
#include <ATen/ops/_nested_tensor_from_mask_native.h>
#include <ATen/ops/_nested_tensor_softmax_with_shape_native.h>
#include <ATen/ops/_nested_view_from_buffer_native.h>
#include <ATen/ops/bmm_native.h>
#include <ATen/ops/to_padded_tensor_native.h>

#include "ops/register.h"
#include "ops/tensor.h"

namespace npu::ops {

namespace {

const Tensor& only(at::TensorList offsets) {
  TORCH_CHECK(offsets.size() == 1, "jagged tensors on npu have one ragged dimension, but got offsets for ",
              offsets.size());
  return offsets[0];
}

// Rows of `values` from offsets[i] on become padded[i]; what does not fit is left out.
Tensor jagged_to_padded(const Tensor& values, at::TensorList offsets, c10::SymIntArrayRef max_lengths, double padding) {
  const auto& begins = only(offsets);
  const int64_t batch = begins.size(0) - 1, length = max_lengths.at(0).expect_int();
  auto sizes = values.sizes().vec();
  sizes[0] = length;
  sizes.insert(sizes.begin(), batch);
  if (values.size(0) == 0) return at::full(sizes, padding, values.options());
  const auto rows = begins.narrow(0, 0, batch).unsqueeze(1) + at::arange(length, begins.options());
  auto absent = rows.ge(begins.narrow(0, 1, batch).unsqueeze(1));
  while (absent.dim() < values.dim() + 1) absent = absent.unsqueeze(-1);
  return values.index_select(0, rows.clamp_max(values.size(0) - 1).flatten()).view(sizes).masked_fill_(absent, padding);
}

// The way back. Without total_L its value is read from the card.
Tensor padded_to_jagged(const Tensor& dense, at::TensorList offsets, std::optional<c10::SymInt> total) {
  const auto& begins = only(offsets);
  const int64_t count = total ? total->expect_int() : begins[-1].item<int64_t>();
  const auto rows = at::arange(count, begins.options());
  const auto batch = at::searchsorted(begins, rows, /*out_int32=*/false, /*right=*/true).sub_(1);
  const auto place = rows - begins.index_select(0, batch);
  auto cut = place.ge(dense.size(1));
  while (cut.dim() < dense.dim() - 1) cut = cut.unsqueeze(-1);
  return dense.flatten(0, 1)
      .index_select(0, batch * dense.size(1) + place.clamp_max(dense.size(1) - 1))
      .masked_fill_(cut, 0);
}

// The parts of a nested tensor that are normalised, one behind the other: dimensions in which all its tensors are
// alike.
Tensor rows_of(const Tensor& nested, at::IntArrayRef shape) {
  const auto* impl = at::native::get_nested_tensor_impl(nested);
  const auto first = nested.dim() - static_cast<int64_t>(shape.size());
  at::DimVector sizes{-1};
  for (const int64_t size : shape) {
    const auto found = first > 0 ? impl->opt_size(first + static_cast<int64_t>(sizes.size()) - 1) : std::nullopt;
    TORCH_CHECK(found == size, "layer_norm of a nested tensor: normalized_shape is ", shape,
                ", which are not the last dimensions of all its tensors");
    sizes.push_back(size);
  }
  return at::native::get_nested_tensor_impl(nested.contiguous())->get_buffer().view(sizes);
}

Tensor nested_like(const Tensor& rows, const Tensor& nested) {
  return at::native::wrap_buffer(rows.reshape(-1), at::native::get_nested_tensor_impl(nested)->get_nested_sizes());
}

using Optional = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

Three layer_norm(const Tensor& input, c10::SymIntArrayRef normalized, const Optional& weight, const Optional& bias,
                 double eps) {
  const auto shape = C10_AS_INTARRAYREF_SLOW(normalized);
  const auto [out, mean, rstd] = at::native_layer_norm(rows_of(input, shape), shape, weight, bias, eps);
  return {nested_like(out, input), mean, rstd};
}

Three layer_norm_backward(const Tensor& grad, const Tensor& input, c10::SymIntArrayRef normalized, const Tensor& mean,
                          const Tensor& rstd, const Optional& weight, const Optional& bias, std::array<bool, 3> mask) {
  const auto shape = C10_AS_INTARRAYREF_SLOW(normalized);
  auto [dx, dw, db] = at::native_layer_norm_backward(rows_of(grad, shape), rows_of(input, shape), shape, mean, rstd,
                                                     weight, bias, mask);
  return {dx.defined() ? nested_like(dx, input) : dx, dw, db};
}

}  // namespace

NPU_REGISTER(nested) {
  manual("aten::_nested_from_padded", "", &at::native::nested_from_padded_generic);
  manual("aten::_nested_tensor_from_mask", "", &at::native::NestedTensor_nested_tensor_from_mask);
  manual("aten::_nested_tensor_from_mask_left_aligned", "",
         &at::native::NestedTensor_nested_tensor_from_mask_left_aligned);
  manual("aten::_nested_view_from_buffer", "", &at::native::_nested_view_from_buffer);
  manual("aten::_nested_compute_contiguous_strides_offsets", "",
         &at::native::_nested_compute_contiguous_strides_offsets);
  manual("aten::_jagged_to_padded_dense_forward", "", &jagged_to_padded);
  manual("aten::_padded_dense_to_jagged_forward", "", &padded_to_jagged);
  constexpr auto kNested = c10::DispatchKey::NestedTensorPrivateUse1;
  reg_as(kNested, "aten::native_layer_norm", "", &layer_norm);
  reg_as(kNested, "aten::native_layer_norm_backward", "", &layer_norm_backward);
  reg_as(kNested, "aten::bmm", "", &at::native::bmm_nested);
  reg_as(kNested, "aten::to_padded_tensor", "", &at::native::NestedTensor_to_padded_tensor_generic);
  reg_as(kNested, "aten::_nested_tensor_softmax_with_shape", "", &at::native::NestedTensor_softmax_dropout);
}

}  // namespace npu::ops
