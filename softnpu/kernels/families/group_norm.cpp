// Group normalisation; its own file because ATen's headers of layer and group normalisation exclude each other.
#include <ATen/Functions.h>
#include <ATen/native/group_norm.h>

#include "kernels/families/normalization.h"

namespace softnpu::kernels {

void group_norm(Tensor& out, Tensor& mean, Tensor& rstd, const Tensor& input, const Optional& weight,
                const Optional& bias, int64_t n, int64_t c, int64_t hxw, int64_t group, double eps) {
  const auto x = input.contiguous();
  if (x.numel() && direct({x, weight, bias, out, mean, rstd})) {
    at::native::GroupNormKernel(at::kCPU, x, given(weight), given(bias), n, c, hxw, group, eps, out, mean, rstd);
    return;
  }
  const auto [result, m, r] = at::native_group_norm(wide(x), wide(weight), wide(bias), n, c, hxw, group, eps);
  out.copy_(result);
  store(mean, m);
  store(rstd, r);
}

void group_norm_backward(Optional grad_input, Optional grad_weight, Optional grad_bias, const Tensor& grad_out,
                         const Tensor& input, const Tensor& mean, const Tensor& rstd, const Optional& weight, int64_t n,
                         int64_t c, int64_t hxw, int64_t group, const std::vector<uint8_t>& mask) {
  const auto dense = input.contiguous(), dy = grad_out.contiguous();
  if (dense.numel() && direct({dense, dy, mean, rstd, weight, grad_input, grad_weight, grad_bias})) {
    auto [dx, dw, db] = chosen(mask, grad_input, grad_weight, grad_bias);
    at::native::GroupNormBackwardKernel(at::kCPU, dy, dense, mean, rstd, given(weight), n, c, hxw, group, dx, dw, db);
    return;
  }
  const auto x = wide(dense);
  const auto [gi, gw, gb] =
      at::native_group_norm_backward(wide(dy), x, mean.to(x.scalar_type()), rstd.to(x.scalar_type()), wide(weight), n,
                                     c, hxw, group, three_flags(mask));
  store(grad_input, gi);
  store(grad_weight, gw);
  store(grad_bias, gb);
}

}  // namespace softnpu::kernels
