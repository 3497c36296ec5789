// Rotary position embedding: what its rows check and count before they launch.
#pragma once

#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <tuple>

namespace npu::ops {

using at::Tensor;

// The number of a mode: "half" 0, "interleave" 1, "quarter" 2, "interleave-half" 3.
int64_t rotary_mode_number(const char* op, std::string_view mode);
// The number of a layout: "BSND" 1, "SBND" 2, "BNSD" 3, "TND" 4.
int64_t rotary_layout_number(std::string_view layout);
at::IntArrayRef mrope_sections(at::OptionalIntArrayRef sections);  // three zeros for none
// Cosines and sines of one shape, each dimension of which is that of `x` or 1, the last one as long as that of `x`.
void check_rotary(const char* op, const Tensor& x, const Tensor& cos, const Tensor& sin, std::string_view mode);
void check_mrope(const Tensor& positions, const Tensor& query, const Tensor& key, const Tensor& cache,
                 int64_t head_size, at::OptionalIntArrayRef sections, std::string_view mode,
                 std::string_view cache_mode);
// Gradients of (x, cos, sin) where the rotation is a matrix of the caller's.
std::tuple<Tensor, Tensor, Tensor> rotate_gradients(const Tensor& grad, const Tensor& x, const Tensor& cos,
                                                    const Tensor& sin, const Tensor& rotate);
// `number`, for an older operator that lacks what may be wanted.
int64_t without(const char* op, const char* what, bool wanted, int64_t number);

}  // namespace npu::ops
