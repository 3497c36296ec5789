#include "kernels/families/quant_fused.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "kernels/engine/require.h"
#include "kernels/families/fused_norm.h"

namespace softnpu::kernels {

void quantize_both_axes(Tensor& y1, Tensor& scale1, Tensor& y2, Tensor& scale2, const Tensor& x, const Optional& ends,
                        std::string_view round_mode, const mx::Scaling& scaling) {
  mx_quantize(y1, scale1, x, -1, 32, round_mode, scaling);
  mx_quantize(y2, scale2, x, -2, 32, round_mode, scaling, ends);
}

Tensor swiglu_gradient(const Tensor& grad, const Tensor& x, bool left, double limit) {
  const auto halves = x.to(at::kFloat).chunk(2, -1);
  auto a = halves[left ? 0 : 1], b = halves[left ? 1 : 0];
  const auto open = a < limit, between = (b > -limit).logical_and_(b < limit);
  if (limit > 0) a = a.clamp_max(limit), b = b.clamp(-limit, limit);
  const auto g = grad.to(at::kFloat), sigmoid = at::sigmoid(a);
  auto da = g * b * sigmoid * (1 + a * (1 - sigmoid)), db = g * a * sigmoid;
  if (limit > 0) da = da * open, db = db * between;
  return left ? at::cat({da, db}, -1) : at::cat({db, da}, -1);
}

void swiglu_group_gradient(Tensor& grad_x, Tensor& grad_weight, const Tensor& grad_y, const Tensor& x,
                           const Optional& weight, const Optional& origin, const Optional& lengths, double limit) {
  auto grad = grad_y.to(at::kFloat).reshape({-1, grad_y.size(-1)});
  const int64_t rows = grad.size(0), used = lengths ? lengths->sum().item<int64_t>() : rows;
  if (weight) {
    auto sums = (grad * origin->to(at::kFloat).reshape(grad.sizes())).sum(1);
    sums.narrow(0, used, rows - used).zero_();
    grad_weight.copy_(sums.view(grad_weight.sizes()));
    grad = grad * weight->to(at::kFloat).reshape({-1, 1});
  }
  auto result = swiglu_gradient(grad, x.reshape({rows, x.size(-1)}), true, limit);
  result.narrow(0, used, rows - used).zero_();
  grad_x.copy_(result.view(grad_x.sizes()));
}

void rms_norm_gradient_quant(Tensor& dx, Tensor& dgamma, const Tensor& dy, const Tensor& x, const Tensor& rstd,
                             const Tensor& gamma, const Tensor& scale, const Optional& offset, bool divide) {
  auto wide = at::empty(x.sizes(), at::kFloat);
  rms_norm_backward(wide, dgamma, dy.to(at::kFloat), x.to(at::kFloat), rstd, gamma.to(at::kFloat));
  quantize(dx, wide, scale, offset, -1, divide);
}

void rotate_quant(Tensor& y, Tensor& scale, const Tensor& x, const Tensor& rotation, const Optional& alpha,
                  int64_t axis, std::string_view round_mode, const mx::Scaling& scaling) {
  const int64_t side = rotation.size(-1), blocks = x.size(-1) / side;
  auto parts = x.to(at::kFloat).reshape({-1, blocks, 1, side});
  auto turned = at::matmul(parts, rotation.to(at::kFloat)).reshape(x.sizes()).to(x.scalar_type());
  if (!mx::format_of(y.scalar_type())) return dynamic_quant(y, scale, std::nullopt, turned, std::nullopt, std::nullopt);
  const double share = alpha ? alpha->to(at::kFloat).item<float>() : 0;
  if (share > 0 && share < 1) {
    const auto groups = turned.to(at::kFloat).reshape({-1, 32});
    const auto most = groups.abs().amax(1, true) * share;
    turned = groups.minimum(most).maximum(-most).reshape(x.sizes());
  }
  mx_quantize(y, scale, turned, axis, 32, round_mode, scaling);
}

namespace require {

void gate_axes(const Tensor& x, const Optional& group_index) {
  rank(x, "x", 2, 7);
  that(x.size(-1) % 2 == 0, "the last dimension of x has no halves");
  that(!group_index || (x.dim() == 2 && group_index->dim() == 1), "groups divide the rows of a matrix");
}

void both_axes(at::IntArrayRef sizes, const Optional& groups, const Tensor& y1, const Tensor& scale1, const Tensor& y2,
               const Tensor& scale2) {
  mx_numbers(y1, "y1", sizes), mx_numbers(y2, "y2", sizes);
  mx_scales(scale1, "mxscale1", sizes, -1, 32), mx_scales(scale2, "mxscale2", sizes, -2, 32, groups);
}

void rotation_of(const Tensor& x, const Tensor& rotation, const Optional& alpha, const Tensor& y, const Tensor& scale,
                 int64_t axis, std::string_view round_mode) {
  rank(rotation, "rotation", 2, 3);
  that(x.dim() > 0 && x.is_floating_point() && x.element_size() > 1, "x is not of a floating type");
  const int64_t side = rotation.size(-1);
  that(side > 0 && rotation.size(-2) == side && x.size(-1) % side == 0, "rotation does not divide the columns of x");
  that(rotation.dim() == 2 || rotation.size(0) == x.size(-1) / side, "rotation has no matrix for each block of x");
  if (mx::format_of(y.scalar_type())) {
    mx_input(x, round_mode), mx_numbers(y, "y", x.sizes()), mx_scales(scale, "scale", x.sizes(), axis, 32);
    numbers(alpha, "alpha", 1);
    return that(!alpha || x.size(-1) % 32 == 0, "alpha needs a multiple of 32 columns");
  }
  rank(x, "x", 2, 2);
  that(!alpha, "alpha is not implemented for int8 and int4");
  shape(scale, "scale", {x.size(0)});
  that(y.dim() == 2 && y.size(0) == x.size(0) &&
           ((y.scalar_type() == at::kChar && y.size(1) == x.size(1)) ||
            (y.scalar_type() == at::kInt && y.size(1) * 8 == x.size(1))),
       "y has another shape or type than int8 or int4 of x");
}

}  // namespace require
}  // namespace softnpu::kernels
