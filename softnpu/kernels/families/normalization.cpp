#include "kernels/families/normalization.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/native/layer_norm.h>

#include <numeric>

namespace softnpu::kernels {

namespace {

// The dimensions that a parameter of this shape spans, and all before them.
std::vector<int64_t> dimensions(int64_t begin, int64_t end) {
  std::vector<int64_t> dims(end - begin);
  std::iota(dims.begin(), dims.end(), begin);
  return dims;
}

}  // namespace

void layer_norm(Tensor& out, Optional mean, Optional rstd, const Tensor& input, IntArrayRef shape,
                const Optional& weight, const Optional& bias, double eps) {
  const auto x = input.contiguous();
  if (x.numel() && direct({x, weight, bias, mean, rstd, out})) {
    const int64_t width = c10::multiply_integers(shape);
    at::native::LayerNormKernel(at::kCPU, x, given(weight), given(bias), x.numel() / width, width, eps, &out,
                                mean ? &*mean : nullptr, rstd ? &*rstd : nullptr);
    return;
  }
  const auto [result, m, r] = at::native_layer_norm(wide(x), shape, wide(weight), wide(bias), eps);
  out.copy_(result);
  store(mean, m);
  store(rstd, r);
}

void layer_norm_backward(Optional grad_input, Optional grad_weight, Optional grad_bias, const Tensor& grad_out,
                         const Tensor& input, IntArrayRef shape, const Tensor& mean, const Tensor& rstd,
                         const Optional& weight, const Optional& bias, const std::vector<uint8_t>& mask) {
  const auto dense = input.contiguous(), dy = grad_out.contiguous();
  if (dense.numel() && direct({dense, dy, mean, rstd, weight, grad_input, grad_weight, grad_bias})) {
    const int64_t width = c10::multiply_integers(shape);
    auto [dx, dw, db] = chosen(mask, grad_input, grad_weight, grad_bias);
    at::native::LayerNormBackwardKernel(at::kCPU, dy, dense, mean, rstd, given(weight), dense.numel() / width, width,
                                        &dx, &dw, &db);
    return;
  }
  const auto x = wide(dense);
  const auto [gi, gw, gb] =
      at::native_layer_norm_backward(wide(dy), x, shape, mean.to(x.scalar_type()), rstd.to(x.scalar_type()),
                                     wide(weight), wide(bias), three_flags(mask));
  store(grad_input, gi);
  store(grad_weight, gw);
  store(grad_bias, gb);
}

void rms_norm(Tensor& out, Tensor& rstd, const Tensor& self, const Tensor& gamma, double eps) {
  const auto x = wide(self);
  const auto scale = x.square().mean(dimensions(x.dim() - gamma.dim(), x.dim()), true).add_(eps).rsqrt_();
  out.copy_(x * scale * wide(gamma));
  rstd.copy_(scale.view(rstd.sizes()));
}

void rms_norm_backward(Tensor& grad_input, Tensor& grad_gamma, const Tensor& grad_out, const Tensor& self,
                       const Tensor& rstd, const Tensor& gamma) {
  const auto x = wide(self), dy = wide(grad_out), g = wide(gamma);
  const auto inner = dimensions(x.dim() - g.dim(), x.dim()), outer = dimensions(0, x.dim() - g.dim());
  auto scale = rstd.to(x.scalar_type());
  while (scale.dim() < x.dim()) scale = scale.unsqueeze(-1);
  const auto normed = x * scale, dn = dy * g;
  grad_input.copy_(scale * (dn - normed * (dn * normed).mean(inner, true)));
  const auto products = dy * normed;
  grad_gamma.copy_(outer.empty() ? products : products.sum(outer));
}

}  // namespace softnpu::kernels
