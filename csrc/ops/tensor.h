// Making npu tensors, and the small questions every operator asks of its arguments.
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <c10/core/TensorOptions.h>

#include "runtime/device.h"

namespace npu::ops {

using at::Tensor;

// Contiguous (or `memory_format`) uninitialised tensor on the current card.
Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype, at::MemoryFormat format = at::MemoryFormat::Contiguous);
Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype);
// Same shape as `t`, contiguous, of type `dtype`.
inline Tensor empty_same(const Tensor& t, at::ScalarType dtype) { return empty(t.sizes(), dtype); }

// `result` into an out= tensor, which is resized; throws if its type cannot hold the result.
Tensor& write_out(Tensor& out, const Tensor& result);

// Makes the tensors' card current and bound for the scope of an operator: two thread-local comparisons when it already
// is. Nothing happens for a tensor that is on no card.
class CardGuard : DeviceGuard {
 public:
  explicit CardGuard(c10::Device device) : DeviceGuard(card(device)) {}
  explicit CardGuard(const Tensor& t) : DeviceGuard(t.defined() ? card(t.device()) : -1) {}
  explicit CardGuard(at::TensorList list) : DeviceGuard(list.empty() ? -1 : card(list[0].device())) {}

 private:
  static c10::DeviceIndex card(c10::Device device) { return device.is_privateuseone() ? device.index() : -1; }
};

inline bool is_npu(const Tensor& t) { return t.device().is_privateuseone(); }
// A number that came as a tensor: zero-dimensional and on the CPU.
inline bool is_cpu_scalar(const Tensor& t) { return t.dim() == 0 && t.is_cpu(); }
c10::Scalar read_cpu_scalar(const Tensor& t);

inline bool is_fast_float(at::ScalarType t) {
  return t == at::kFloat || t == at::kBFloat16 || t == at::kHalf || t == at::kDouble;
}
inline bool is_plain(const Tensor& t) { return is_npu(t) && t.is_contiguous(); }
// Note [Fast paths]: the common cases of elementwise operators need no TensorIterator. For floating types the result
// has the type and shape of `a`; everything else (promotion, broadcasting, strides) takes the structured path.
inline bool fast_unary(const Tensor& a) { return is_fast_float(a.scalar_type()) && is_plain(a); }
inline bool fast_same(const Tensor& a, const Tensor& b) {
  return a.scalar_type() == b.scalar_type() && is_fast_float(a.scalar_type()) && a.device() == b.device() &&
         is_plain(a) && is_plain(b) && a.sizes() == b.sizes();
}
// In place the operands must not overlap in part: the structured path refuses that, in upstream's words.
inline bool fast_inplace(const Tensor& a, const Tensor& b) {
  return fast_same(a, b) && (!a.is_alias_of(b) || a.storage_offset() == b.storage_offset());
}
inline bool fast_scalar(const Tensor& a, const Tensor& b) {
  return is_cpu_scalar(b) && a.dim() > 0 && is_fast_float(a.scalar_type()) && !c10::isComplexType(b.scalar_type()) &&
         b.scalar_type() != at::kBool && is_plain(a);
}
inline bool is_real(const c10::Scalar& s) { return !s.isComplex(); }
template <class... T>
bool all_real(const T&... s) {
  return (is_real(s) && ...);
}

// A zero-dimensional device tensor with the value of a CPU scalar, in type `dtype`; other tensors pass through.
Tensor on_device(const Tensor& t, at::ScalarType dtype);

// The tensor that decides the card when numbers may come as CPU tensors.
const Tensor& first_npu(std::initializer_list<const Tensor*> tensors);

// "Expected all tensors to be on the same device": for operators that TensorIterator does not check.
void check_same_device(const char* op, std::initializer_list<const Tensor*> tensors);

// Indices of `self`, of which some may be on the CPU: torch takes those for tensors of every device.
std::vector<std::optional<Tensor>> indices_of(const Tensor& self, at::IOptTensorListRef indices);

// How exact matrix products of float32 are (torch.npu.matmul): a cubeMathType, see cube_math.h.
int8_t cube_math_type();

}  // namespace npu::ops
