#include "kernels/families/normalization.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/native/layer_norm.h>

namespace softnpu::kernels {

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

}  // namespace softnpu::kernels
