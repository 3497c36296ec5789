// Like checks.h, for tables that name this file under `includes:`: losses, pooling, indexing, factorisations.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <optional>
#include <string_view>

namespace npu::ops {

using at::Tensor;

// `target`, or if it is int32, which the NPU takes and upstream's meta functions do not, its shape in int64.
Tensor as_classes(const Tensor& target);
void check_gelu(std::string_view approximate);
void check_huber(double delta);
void check_multi_margin(const Tensor& self, const Tensor& target, const std::optional<Tensor>& weight);
void check_multilabel_margin(const Tensor& self, const Tensor& target);
void check_unpool(const Tensor& self, const Tensor& indices, const char* op);
void check_max_pool3d(const Tensor& self);
void check_dims(const Tensor& self, at::IntArrayRef dims);  // each at most once
void check_roll(const Tensor& self, at::IntArrayRef shifts, at::IntArrayRef dims);
// Filling is the same whichever of the elements that share memory is chosen, so it is not refused.
void warn_of_expanded(const Tensor& self, const char* op);
void check_index_fill(const Tensor& self, const Tensor& index, const c10::Scalar& value);
void check_masked_fill(const Tensor& self, const Tensor& mask, const c10::Scalar& value);
void check_masked_fill(const Tensor& self, const Tensor& mask, const Tensor& value);
void check_ormqr(const Tensor& self, const Tensor& tau, const Tensor& other, bool left);
void check_no_overlap(const Tensor& out);

// Lengths of segments, unless `is_unchecked`: waits for the card.
void check_segments(const Tensor& data, const std::optional<Tensor>& lengths, int64_t axis, bool is_unchecked);

}  // namespace npu::ops
