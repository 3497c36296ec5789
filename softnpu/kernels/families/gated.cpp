#include "kernels/families/gated.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>

#include "kernels/engine/rows.h"

namespace softnpu::kernels {

namespace {

constexpr double kFast = 1.702;

struct Halves {
  Tensor left, right;
};
Halves halves(const Tensor& t, int64_t dim) {
  const auto parts = t.chunk(2, dim);
  return {wide(parts[0]), wide(parts[1])};
}

bool by_rows(const Tensor& t, int64_t dim) { return dim == -1 || dim == t.dim() - 1; }

const char* rule(int64_t approximate) { return approximate ? "tanh" : "none"; }

}  // namespace

Tensor fast_gelu(const Tensor& x) {
  const auto wide_x = wide(x);
  return wide_x * at::sigmoid(wide_x * kFast);
}

Tensor fast_gelu_backward(const Tensor& grad, const Tensor& x) {
  const auto scaled = wide(x) * kFast;
  const auto s = at::sigmoid(scaled);
  return wide(grad) * (s + scaled * s * (1 - s));
}

void gelu_mul(Tensor& out, const Tensor& input, std::string_view approximate) {
  const auto [left, right] = halves(input, -1);
  out.copy_(at::gelu(left, approximate).mul_(right));
}

void geglu(Tensor& out, Tensor& activated, const Tensor& self, int64_t dim, int64_t approximate, bool left) {
  const auto parts = halves(self, dim);
  const auto gate = at::gelu(left ? parts.left : parts.right, rule(approximate));
  out.copy_((left ? parts.right : parts.left) * gate);
  activated.copy_(gate);
}

void geglu_backward(Tensor& grad_input, const Tensor& grad_out, const Tensor& self, const Tensor& activated,
                    int64_t dim, int64_t approximate, bool left) {
  const auto parts = halves(self, dim);
  const auto targets = grad_input.chunk(2, dim);
  const auto grad = wide(grad_out);
  targets[left ? 1 : 0].copy_(grad * wide(activated));
  const auto& linear = left ? parts.right : parts.left;
  const auto& gate = left ? parts.left : parts.right;
  targets[left ? 0 : 1].copy_(at::gelu_backward(grad * linear, gate, rule(approximate)));
}

void swiglu(Tensor& out, const Tensor& self, int64_t dim) {
  if (!by_rows(self, dim) || !rows::fit(self, out)) {
    const auto [left, right] = halves(self, dim);
    out.copy_(at::silu(left).mul_(right));
    return;
  }
  const int64_t n = out.size(-1), count = n ? out.numel() / n : 0;
  rows::with_type(self.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const T* x = self.const_data_ptr<T>();
    T* y = out.mutable_data_ptr<T>();
    rows::in_parallel(count, n, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) rows::loops<T>().swiglu(y + i * n, x + 2 * i * n, x + (2 * i + 1) * n, n);
    });
  });
}

void swiglu_backward(Tensor& grad_input, const Tensor& grad_out, const Tensor& self, int64_t dim) {
  if (!by_rows(self, dim) || !rows::fit(self, grad_out, grad_input)) {
    const auto [left, right] = halves(self, dim);
    const auto targets = grad_input.chunk(2, dim);
    const auto grad = wide(grad_out);
    targets[0].copy_(at::silu_backward(grad * right, left));
    targets[1].copy_(grad * at::silu(left));
    return;
  }
  const int64_t n = grad_out.size(-1), count = n ? grad_out.numel() / n : 0;
  rows::with_type(self.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const T *x = self.const_data_ptr<T>(), *grad = grad_out.const_data_ptr<T>();
    T* dx = grad_input.mutable_data_ptr<T>();
    rows::in_parallel(count, n, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) {
        const int64_t gate = 2 * i * n, linear = gate + n;
        rows::loops<T>().swiglu_backward(dx + gate, dx + linear, grad + i * n, x + gate, x + linear, n);
      }
    });
  });
}

void clipped_swiglu(Tensor& out, const Tensor& x, const Optional& group_index, int64_t dim, double alpha, double limit,
                    double bias, bool interleaved) {
  Tensor gate, linear;
  if (interleaved) {
    const auto pairs = x.unflatten(dim, {-1, 2});
    const int64_t place = at::maybe_wrap_dim(dim, x.dim()) + 1;
    gate = wide(pairs.select(place, 0)), linear = wide(pairs.select(place, 1));
  } else {
    const auto parts = halves(x, dim);
    gate = parts.left, linear = parts.right;
  }
  gate = gate.clamp_max(limit), linear = linear.clamp(-limit, limit);
  const auto result = gate * at::sigmoid(gate * alpha) * (linear + bias);
  if (!group_index) {
    out.copy_(result);
    return;
  }
  const int64_t rows = std::min(group_index->sum().item<int64_t>(), out.size(0));
  out.narrow(0, 0, rows).copy_(result.narrow(0, 0, rows));
}

}  // namespace softnpu::kernels
