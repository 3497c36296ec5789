// Rules that tables use to state the outputs of non-structured operators: each gives shape and type, nothing is computed.
#pragma once

#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/TypeProperties.h>

#include "exec.h"
#include "tensor.h"

namespace npu::ops {

using Sizes = c10::SmallVector<int64_t, 6>;

struct Spec {
  Sizes sizes;
  at::ScalarType dtype;
  at::MemoryFormat format = at::MemoryFormat::Contiguous;
};

inline Tensor make(const Spec& s) { return empty(s.sizes, s.dtype, s.format); }

// An out= tensor that receives an operator's output: resized with upstream's warning; a stand-in is used, and copied back
// by finish(), when its type or strides are not what the operator writes.
class Target {
 public:
  Target(const Tensor& out, const Spec& spec);
  const Tensor& tensor() const { return stand_in_.defined() ? stand_in_ : out_; }
  void finish() const {
    if (stand_in_.defined()) out_.copy_(stand_in_);
  }

 private:
  const Tensor& out_;
  Tensor stand_in_;
};

inline Spec sized(at::IntArrayRef sizes, at::ScalarType dtype) { return {Sizes(sizes.begin(), sizes.end()), dtype}; }
inline Spec sized(at::IntArrayRef sizes, const Tensor& t) { return sized(sizes, t.scalar_type()); }
inline Spec like(const Tensor& t, at::ScalarType dtype) { return {Sizes(t.sizes().begin(), t.sizes().end()), dtype, t.suggest_memory_format()}; }
inline Spec like(const Tensor& t) { return like(t, t.scalar_type()); }

template <class... T>
at::ScalarType promote(const T&... operands) {
  at::native::ResultTypeState state{};
  ((state = at::native::update_result_type_state(operands, state)), ...);
  return at::native::result_type(state);
}

template <class... T>
Spec broadcast(at::ScalarType dtype, const Tensor& first, const T&... rest) {
  std::vector<int64_t> sizes = first.sizes().vec();
  ((sizes = at::infer_size(sizes, rest.sizes())), ...);
  return sized(sizes, dtype);
}

// The shape of `t` with dimension `dim` of another length.
inline Spec with_dim(const Tensor& t, int64_t dim, int64_t length) {
  Spec s = sized(t.sizes(), t);
  if (!s.sizes.empty()) s.sizes[at::maybe_wrap_dim(dim, t.dim())] = length;
  return s;
}

Spec reduced(const Tensor& t, at::OptionalIntArrayRef dims, bool keepdim, at::ScalarType dtype);

inline at::ScalarType real_type(const Tensor& t) { return c10::toRealValueType(t.scalar_type()); }
// Integers become the default floating type; floating types stay.
inline at::ScalarType float_type(const Tensor& t) {
  return c10::isIntegralType(t.scalar_type(), true) ? c10::typeMetaToScalarType(c10::get_default_dtype()) : t.scalar_type();
}
// Sums of small integers are kept in int64.
inline at::ScalarType sum_type(const Tensor& t, std::optional<at::ScalarType> asked = std::nullopt) {
  return asked.value_or(c10::isIntegralType(t.scalar_type(), true) ? at::kLong : t.scalar_type());
}
// float16 and bfloat16 -> float32: the type in which statistics are kept.
inline at::ScalarType statistics_type(at::ScalarType t) { return t == at::kHalf || t == at::kBFloat16 ? at::kFloat : t; }

// Output of a pooling that states its last dimensions.
Spec pooled(const Tensor& t, at::IntArrayRef output_size);
// var and std: the device takes a whole number of degrees of freedom.
int64_t integral_correction(const std::optional<c10::Scalar>& correction);

int32_t div_mode(std::optional<std::string_view> rounding_mode);  // 0 true, 1 trunc, 2 floor
void check_where(const Tensor& condition);
void check_dot(const Tensor& self, const Tensor& other);
void check_index(const Tensor& index, const char* op);
void check_steps(int64_t steps);

}  // namespace npu::ops
