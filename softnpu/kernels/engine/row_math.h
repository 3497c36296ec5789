// Arithmetic on rows of float32, as fast as the machine's vectors are: fused kernels widen a row into a buffer that
// stays in the cache, work on it, and round it once into the result.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

namespace softnpu::kernels::row {

// float32, float16 or bfloat16, dense: what the functions below take.
bool fits(const at::Tensor& t);
template <class... T>
bool fit(const T&... tensors) {
  return (fits(tensors) && ...);
}

// n numbers of a dense tensor, beginning with element `at`.
void widen(float* to, const at::Tensor& from, int64_t at, int64_t n);
void narrow(const at::Tensor& to, int64_t at, const float* from, int64_t n);
// The same without a copy for float32: where the numbers are, or the buffer with them; where a result may be made,
// which narrow() then rounds if it is the buffer.
inline const float* read(float* buffer, const at::Tensor& from, int64_t at, int64_t n) {
  if (from.scalar_type() == at::kFloat) return from.const_data_ptr<float>() + at;
  return widen(buffer, from, at, n), buffer;
}
inline float* place(float* buffer, const at::Tensor& to, int64_t at) {
  return to.scalar_type() == at::kFloat ? to.mutable_data_ptr<float>() + at : buffer;
}

float square_sum(const float* x, int64_t n);
void add(float* to, const float* x, const float* y, int64_t n);               // to = x + y
void scale(float* to, const float* x, const float* w, float f, int64_t n);    // to = f * x * w
void silu_multiply(float* to, const float* gate, const float* x, int64_t n);  // to = gate * sigmoid(gate) * x
// A buffer of one thread.
using Buffer = std::vector<float>;

}  // namespace softnpu::kernels::row
