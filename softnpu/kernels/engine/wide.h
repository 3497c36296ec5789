// float16 and bfloat16 computed in float32.
//
// Note [Wide products]: the matrix unit of an NPU adds up products of float16 in float32. ATen's CPU loops for float16
// round in between in some operators (addbmm, transposed convolution), and on processors without float16 arithmetic
// they are slower than float32 by up to two orders of magnitude. So the operands are widened, and the result is rounded
// once. Few elements are left to ATen: converting them costs more than it saves.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <initializer_list>
#include <optional>

namespace softnpu::kernels {

class Call;

// Note [Wide kernels]: an NPU takes float16 and bfloat16 in operators for which ATen's CPU loops have no such type. A
// table names them under `wide`; their tensors of these types are handed to the kernel as float32, and what it writes
// is rounded once.
void run_wide(Call& call);

inline constexpr int64_t kFewElements = 2048;

inline bool worth_widening(std::initializer_list<at::Tensor> operands) {
  int64_t elements = 0;
  for (const auto& t : operands) {
    if (t.scalar_type() != at::kHalf) return false;
    elements += t.numel();
  }
  return elements >= kFewElements;
}

inline at::Tensor widened(const at::Tensor& t) { return t.to(at::kFloat); }
inline std::optional<at::Tensor> widened(const std::optional<at::Tensor>& t) {
  return t ? std::optional(widened(*t)) : std::nullopt;
}
template <class T>
const T& widened(const T& other) {
  return other;
}

// f(arguments..., out); the first two tensors tell whether it is worth it.
template <class F, class... Arguments>
void product(F f, at::Tensor& out, const at::Tensor& first, const at::Tensor& second, const Arguments&... rest) {
  if (!worth_widening({first, second})) {
    f(first, second, rest..., out);
    return;
  }
  auto wide = at::empty(out.sizes(), at::kFloat);
  f(widened(first), widened(second), widened(rest)..., wide);
  out.copy_(wide);
}

}  // namespace softnpu::kernels
