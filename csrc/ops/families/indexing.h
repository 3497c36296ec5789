// Casts, transposes and look-ups: what their rows compute before they launch.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include "ops/results.h"

namespace npu::ops {

using at::Tensor;

// torch's number of a type, as arguments `int dtype` carry it.
at::ScalarType cast_type(const char* op, int64_t number);

// Permute and reshape in one, in either order.
void check_confusion(const char* op, const Tensor& input, at::IntArrayRef perm, at::IntArrayRef shape, bool first);
results::Dims confused_sizes(at::IntArrayRef perm, at::IntArrayRef shape, bool first);
std::vector<int64_t> inverse(at::IntArrayRef perm);
// What the gradient is reshaped to, when the input had this shape.
std::vector<int64_t> back_shape(at::IntArrayRef perm, at::IntArrayRef shape, bool first);

void check_confusion_backward(const Tensor& grad, at::IntArrayRef perm, c10::SymIntArrayRef shape, bool first);
void check_gather(const Tensor& input, const Tensor& index);
void check_gather_backward(const Tensor& grad, c10::SymIntArrayRef sizes, const Tensor& index);
results::Dims gathered_sizes(const Tensor& input, const Tensor& index);
Tensor rows_of(const Tensor& grad, const Tensor& table);  // [indices, the rest of the table]

// Rows of `source` go to the rows of `input` that `index` names.
void check_index_add(const char* op, const Tensor& input, const Tensor& index, const Tensor& source);

// Sizes and type of the tensor behind an edge of the graph, without keeping the tensor.
c10::SymIntArrayRef input_metadata_sizes(const torch::autograd::Edge& edge);
at::ScalarType input_metadata_type(const torch::autograd::Edge& edge);

}  // namespace npu::ops
