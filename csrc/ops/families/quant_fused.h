// Quantised results of gates, rotations and gradients: sizes, and what the rows of csrc/ops/tables/quant_fused.yaml
// refuse. Sizes may be symbolic.
#pragma once

#include "ops/families/mx.h"
#include "ops/families/quant.h"

namespace npu::ops {

// Two halves in the last dimension; groups divide the rows of a matrix, by their ends.
void check_gate_axes(const char* op, const Tensor& x, const std::optional<Tensor>& group_index);
void check_gate_gradient(const char* op, const Tensor& grad, const Tensor& x);  // of half of x
void check_group_gradient(const char* op, const Tensor& grad, const std::optional<Tensor>& weight,
                          const std::optional<Tensor>& origin, const std::optional<Tensor>& group_index);

// npu_rotate_quant: to int8, int4 or MX blocks.
void check_rotate(const Tensor& x, const Tensor& rotation, const std::optional<Tensor>& alpha,
                  std::optional<int64_t> type, int64_t axis, const MxScaling& scaling, bool transpose_y);
Stored rotated(const Tensor& out, std::optional<int64_t> type);
Stored rotated_scale(const Tensor& out, std::optional<int64_t> type);

namespace results {

Result rotated_numbers(const Tensor& x, std::optional<int64_t> type);
Result rotated_scales(const Tensor& x, std::optional<int64_t> type, int64_t axis);

}  // namespace results
}  // namespace npu::ops
