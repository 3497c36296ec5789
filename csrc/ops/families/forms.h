// Shapes and checks of operators that join, repeat or extend tensors, and of in-place forms, for their rows.
#pragma once

#include "ops/rules.h"

namespace npu::ops {

// Whether `self` can hold the result of its in-place form; raises in upstream's words.
void check_inplace(const Tensor& self, const Spec& result);

// The type of a result of a tensor and a number; `fraction` where integers become the default floating type.
inline at::ScalarType floating(at::ScalarType t) {
  return c10::isIntegralType(t, true) ? c10::typeMetaToScalarType(c10::get_default_dtype()) : t;
}
void check_subtraction(const Tensor& self, const c10::Scalar& other, const c10::Scalar& alpha);
void check_subtraction(const Tensor& self, const Tensor& other, const c10::Scalar& alpha);
void check_celu(const c10::Scalar& alpha);
void check_mv(const Tensor& self, const Tensor& vec);
// `self`, which the device broadcasts to the result.
const Tensor& expanding(const Tensor& self, const Tensor& out, const char* op);

// Tensors of one shape along a new dimension, which `dim` may count from behind. Types are promoted.
Spec stacked(at::TensorList tensors, int64_t dim);
std::vector<Tensor> in_type(at::TensorList tensors, at::ScalarType type);
// Every matrix of `t` becomes the identity.
void set_identity(const Tensor& t);
// Integers of which CANN is not known to take the function's floating result; of int64 and bool it is.
bool goes_as_float(const Tensor& self);
// A weight for all channels, of which upstream makes a tensor of many dimensions.
inline Tensor flat_if_one(const Tensor& t) { return t.numel() == 1 ? t.view({1}) : t; }
inline int64_t new_dim(at::TensorList tensors, int64_t dim) { return at::maybe_wrap_dim(dim, tensors[0].dim() + 1); }

Spec repeated(const Tensor& self, at::IntArrayRef repeats);
// Pairs of numbers, last dimension first; negative ones take away.
Spec extended(const Tensor& self, at::IntArrayRef pad);
// Arguments that only the gradient reads.
template <class... T>
void for_gradient(const T&...) {}
// What a number is searched in.
void check_one_row(const Tensor& sequence);
Spec embedded(const Tensor& weight, const Tensor& indices);
Spec affine_grid(const Tensor& theta, at::IntArrayRef size);
// [time, batch, channels] convolved along time.
Spec convolved_tbc(const Tensor& self, const Tensor& weight, const Tensor& bias, int64_t pad);
// A convolution in which every channel has filters of its own.
Spec depthwise(const Tensor& self, const Tensor& weight, at::IntArrayRef kernel, at::IntArrayRef padding,
               at::IntArrayRef stride, at::IntArrayRef dilation);
// What npu::batch_norm_gather_stats_update takes: sums and sums of squares, a row for each card.
void check_gather_update(const Tensor& input, const Tensor& sum, const Tensor& square_sum,
                         const std::optional<Tensor>& running_mean, const std::optional<Tensor>& running_var,
                         const Tensor& counts);
// Chunks along `dim`, each a row of the result: what upstream's _chunk_cat makes.
Spec chunked(at::TensorList tensors, int64_t dim, int64_t chunks);
// Heads of one of three projections.
Spec heads_of(const Tensor& qkv, int64_t heads);

}  // namespace npu::ops
