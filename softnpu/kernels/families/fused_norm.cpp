#include "kernels/families/fused_norm.h"

#include <ATen/Functions.h>

#include <numeric>

#include "kernels/engine/rows.h"

namespace softnpu::kernels {

namespace {

std::vector<int64_t> range(int64_t begin, int64_t end) {
  std::vector<int64_t> dims(end - begin);
  std::iota(dims.begin(), dims.end(), begin);
  return dims;
}

// ATen's group norm reads its parameters as if they were dense.
Optional dense(const Optional& t) { return t ? Optional(wide(*t).contiguous()) : std::nullopt; }

// Dense float32, as the loops over rows take weights.
Tensor weights(const Tensor& gamma, double offset) {
  const auto w = gamma.to(at::kFloat).contiguous();
  return offset == 0 ? w : w + offset;
}

template <class T>
void rms_norm_rows(std::array<Tensor*, 2> out, Tensor& rstd, Tensor* sum, const Tensor& x, const Tensor* other,
                   const Tensor& weight, double eps) {
  const int64_t n = weight.numel(), count = n ? x.numel() / n : 0;
  const T *from = x.const_data_ptr<T>(), *more = other ? other->const_data_ptr<T>() : nullptr;
  T *to = out[0]->mutable_data_ptr<T>(), *total = other ? sum->mutable_data_ptr<T>() : nullptr;
  float *wide_to = out[1] ? out[1]->mutable_data_ptr<float>() : nullptr, *scales = rstd.mutable_data_ptr<float>();
  const float* w = weight.const_data_ptr<float>();
  const auto norm = rows::loops<T>().rms_norm;
  rows::in_parallel(count, n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin, at = begin * n; i < end; i++, at += n)
      scales[i] = norm(to + at, wide_to ? wide_to + at : nullptr, total ? total + at : nullptr, from + at,
                       more ? more + at : nullptr, w, static_cast<float>(eps), n);
  });
}

template <class T>
void rms_norm_backward_rows(Tensor& grad_input, Tensor& grad_weight, const Tensor& grad_out, const Tensor& x,
                            const Tensor& rstd, const Tensor& weight) {
  const int64_t n = weight.numel(), count = n ? x.numel() / n : 0;
  const T *from = x.const_data_ptr<T>(), *grad = grad_out.const_data_ptr<T>();
  T* to = grad_input.mutable_data_ptr<T>();
  const float *w = weight.const_data_ptr<float>(), *scales = rstd.const_data_ptr<float>();
  const auto backward = rows::loops<T>().rms_norm_backward;
  // The weights' gradient is added up over some rows, and then over those sums: as exact as a sum by halves.
  const int64_t rows_each = std::max<int64_t>(32, (count + 63) / 64), parts = (count + rows_each - 1) / rows_each;
  const auto sums = at::zeros({parts, n}, at::kFloat);
  float* partial = sums.mutable_data_ptr<float>();
  rows::in_parallel(parts, rows_each * n, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; part++)
      for (int64_t i = part * rows_each; i < std::min(count, (part + 1) * rows_each); i++)
        backward(to + i * n, partial + part * n, grad + i * n, from + i * n, scales[i], w, n);
  });
  grad_weight.copy_(sums.sum({0}).view(grad_weight.sizes()));
}

}  // namespace

void add_rms_norm(std::array<Tensor*, 2> out, Tensor& rstd, Tensor* sum, const Tensor& x, const Tensor* other,
                  const Tensor& gamma, double offset, double eps) {
  const auto dense_floats = [](const Tensor& t) { return t.is_contiguous() && t.scalar_type() == at::kFloat; };
  if (rows::fit(x, *out[0]) && dense_floats(rstd) && (!out[1] || dense_floats(*out[1])) &&
      (!other || rows::fit(x, *other, *sum)) && gamma.scalar_type() != at::kDouble) {
    const auto weight = weights(gamma, offset);
    rows::with_type(x.scalar_type(),
                    [&](auto zero) { rms_norm_rows<decltype(zero)>(out, rstd, sum, x, other, weight, eps); });
    return;
  }
  if (other) sum->copy_(wide(x) + wide(*other));
  const auto wide_x = wide(other ? *sum : x);
  const auto scale = wide_x.square().mean(range(x.dim() - gamma.dim(), x.dim()), true).add_(eps).rsqrt_();
  const auto result = (wide_x * scale).mul_(wide(gamma) + offset);
  for (Tensor* each : out)
    if (each) each->copy_(result);
  rstd.copy_(scale.view(rstd.sizes()));
}

void rms_norm_backward(Tensor& grad_input, Tensor& grad_gamma, const Tensor& grad_out, const Tensor& self,
                       const Tensor& rstd, const Tensor& gamma) {
  if (rows::fit(self, grad_out, grad_input) && gamma.scalar_type() != at::kDouble && rstd.scalar_type() == at::kFloat) {
    const auto weight = weights(gamma, 0), scales = rstd.contiguous();
    rows::with_type(self.scalar_type(), [&](auto zero) {
      rms_norm_backward_rows<decltype(zero)>(grad_input, grad_gamma, grad_out, self, scales, weight);
    });
    return;
  }
  const auto x = wide(self), dy = wide(grad_out), g = wide(gamma);
  const auto inner = range(x.dim() - g.dim(), x.dim()), outer = range(0, x.dim() - g.dim());
  auto scale = rstd.to(x.scalar_type());
  while (scale.dim() < x.dim()) scale = scale.unsqueeze(-1);
  const auto normed = x * scale, dn = dy * g;
  grad_input.copy_(scale * (dn - normed * (dn * normed).mean(inner, true)));
  const auto products = dy * normed;
  grad_gamma.copy_(outer.empty() ? products : products.sum(outer));
}

void deep_norm(Tensor& out, Tensor& mean, Tensor& rstd, const Tensor& x, const Tensor& gamma, const Tensor& beta,
               double eps) {
  const auto [y, m, r] = at::native_layer_norm(wide(x).contiguous(), gamma.sizes(), wide(gamma), wide(beta), eps);
  out.copy_(y);
  mean.copy_(m.view(mean.sizes()));
  rstd.copy_(r.view(rstd.sizes()));
}

void add_layer_norm(Tensor& out, Tensor& mean, Tensor& rstd, Tensor& sum, std::array<Optional, 3> terms,
                    const Tensor& gamma, const Tensor& beta, double eps, bool keep_sum) {
  auto x = wide(*terms[0]) + wide(*terms[1]);
  if (terms[2]) x = x + wide(*terms[2]);
  deep_norm(out, mean, rstd, x, gamma, beta, eps);
  if (keep_sum) sum.copy_(x);
}

void norm_backward(std::array<Tensor, 3> grads, const Tensor& grad_out, const Tensor& x, const Tensor& mean,
                   const Tensor& rstd, const Tensor& gamma) {
  const auto dense = [&](const Tensor& t) { return t.to(wide(x).scalar_type()).contiguous(); };
  const auto g = dense(gamma);
  const auto [dx, dgamma, dbeta] = at::native_layer_norm_backward(
      dense(grad_out), dense(x), gamma.sizes(), dense(mean), dense(rstd), g, at::zeros_like(g), {true, true, true});
  grads[0].copy_(dx);
  grads[1].copy_(dgamma);
  grads[2].copy_(dbeta);
}

void group_norm_swish(Tensor& out, Tensor& mean, Tensor& rstd, const Tensor& input, const Optional& weight,
                      const Optional& bias, int64_t groups, double eps, double scale) {
  const auto x = wide(input).contiguous();
  const int64_t n = x.size(0), c = x.size(1), rest = x.numel() ? x.numel() / (n * c) : 0;
  const auto [y, m, r] = at::native_group_norm(x, dense(weight), dense(bias), n, c, rest, groups, eps);
  out.copy_(scale == 0 ? y : y * at::sigmoid(y * scale));
  mean.copy_(m.view(mean.sizes()));
  rstd.copy_(r.view(rstd.sizes()));
}

void group_norm_swish_backward(Tensor& grad_input, Tensor& grad_weight, Tensor& grad_bias, const Tensor& grad_out,
                               const Tensor& input, const Tensor& mean, const Tensor& rstd, const Optional& weight,
                               const Optional& bias, int64_t groups, double scale, std::array<bool, 3> wanted) {
  const auto x = wide(input).contiguous();
  const int64_t n = x.size(0), c = x.size(1), rest = x.numel() ? x.numel() / (n * c) : 0;
  const auto m = mean.to(x.scalar_type()).contiguous(), r = rstd.to(x.scalar_type()).contiguous();
  // The norm again, from the statistics of the forward pass.
  const auto grouped = x.reshape({n, groups, -1});
  auto y = ((grouped - m.view({n, groups, 1})) * r.view({n, groups, 1})).reshape(x.sizes());
  std::vector<int64_t> channel(x.dim(), 1);
  channel[1] = c;
  if (weight) y = y * wide(*weight).view(channel);
  if (bias) y = y + wide(*bias).view(channel);
  const auto s = at::sigmoid(y * scale);
  const auto dy = (wide(grad_out) * (s + y * scale * s * (1 - s))).contiguous();
  const auto [dx, dw, db] = at::native_group_norm_backward(dy, x, m, r, dense(weight), n, c, rest, groups, wanted);
  grad_input.copy_(dx);
  if (wanted[1]) grad_weight.copy_(dw);
  if (wanted[2]) grad_bias.copy_(db);
}

}  // namespace softnpu::kernels
