// Loops over the rows of fused kernels: float32, float16 or bfloat16 is read once, widened to float32 in registers, and
// rounded once. They are compiled for each instruction set that torch knows (at::vec), and follow torch's choice of it.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>

namespace softnpu::kernels::rows {

// Numbers of a row that are masked: those that have a mark, or without marks those from `first` on.
struct Masked {
  const uint8_t* marks;
  int64_t first;
};

// From one row of a rotation to the next.
struct Steps {
  int64_t out, x, cos, sin;
};

// `n` numbers of a row each. Outputs may be inputs of the same place.
template <class T>
struct Loops {
  // out = x * rstd * weight; x + other goes into `sum` first, and is taken from there. `wide_out` may be null, as may
  // `other` and `sum`. Returns rstd, that is 1 / sqrt(mean(x * x) + eps).
  float (*rms_norm)(T* out, float* wide_out, T* sum, const T* x, const T* other, const float* weight, float eps,
                    int64_t n);
  // Adds the row's part to `weight_grad`.
  void (*rms_norm_backward)(T* x_grad, float* weight_grad, const T* grad, const T* x, float rstd, const float* weight,
                            int64_t n);
  void (*swiglu)(T* out, const T* gate, const T* linear, int64_t n);
  void (*swiglu_backward)(T* gate_grad, T* linear_grad, const T* grad, const T* gate, const T* linear, int64_t n);
  // out = x * cos + rotated(x) * sin for `count` rows, or the gradient of that. Two numbers turn together: neighbours
  // if `pairs`, else those of the two halves. The tables are of the same type, or float32.
  void (*rotate)(T* out, const T* x, const T* cos, const T* sin, int64_t n, bool pairs, bool backward, int64_t count,
                 Steps steps);
  void (*rotate_wide)(T* out, const T* x, const float* cos, const float* sin, int64_t n, bool pairs, bool backward,
                      int64_t count, Steps steps);
  // A masked number counts as `fill`. `buffer` has n numbers.
  void (*softmax)(T* out, const T* x, float* buffer, float scale, Masked masked, float fill, int64_t n);
  void (*softmax_backward)(T* out, const T* grad, const T* y, float* buffer, float scale, Masked masked, int64_t n);
  // out = x * smooth / scale, rounded, where the scale, which is returned, makes the largest magnitude `most`. `smooth`
  // may be null.
  float (*dynamic_quant)(int8_t* out, const T* x, const float* smooth, float most, int64_t n);
};

struct AllLoops {
  Loops<float> of_float;
  Loops<at::Half> of_half;
  Loops<at::BFloat16> of_bfloat16;
  // The places of the k largest numbers of a row, the largest first: NaN is larger than all, and of equals the first
  // one comes first. For a small k: its time grows with k * n. `buffer` has n numbers.
  void (*largest)(int64_t* places, const float* x, int32_t* buffer, int64_t k, int64_t n);
};
const AllLoops& all_loops();  // for this processor

template <class T>
const Loops<T>& loops() {
  if constexpr (std::is_same_v<T, float>)
    return all_loops().of_float;
  else if constexpr (std::is_same_v<T, at::Half>)
    return all_loops().of_half;
  else
    return all_loops().of_bfloat16;
}

// Dense, and of one type of the three.
inline bool fit(const at::Tensor& first) {
  const auto type = first.scalar_type();
  return first.is_contiguous() && (type == at::kFloat || type == at::kHalf || type == at::kBFloat16);
}
template <class... Rest>
bool fit(const at::Tensor& first, const Rest&... rest) {
  return fit(first) && ((rest.is_contiguous() && rest.scalar_type() == first.scalar_type()) && ...);
}

// f(a number of the type).
template <class F>
void with_type(at::ScalarType type, const F& f) {
  switch (type) {
    case at::kFloat:
      return f(float());
    case at::kHalf:
      return f(at::Half());
    case at::kBFloat16:
      return f(at::BFloat16());
    default:
      TORCH_CHECK(false, "a fused kernel for ", type, " is not implemented; use float32, float16 or bfloat16");
  }
}

// f(begin, end) on the threads of torch.
template <class F>
void in_parallel(int64_t rows, int64_t width, const F& f) {
  at::parallel_for(0, rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(width, 1)), f);
}

}  // namespace softnpu::kernels::rows
