#include "kernels/families/fused_norm.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/engine/row_math.h"

namespace softnpu::kernels {

namespace {

std::vector<int64_t> range(int64_t begin, int64_t end) {
  std::vector<int64_t> dims(end - begin);
  std::iota(dims.begin(), dims.end(), begin);
  return dims;
}

// ATen's group norm reads its parameters as if they were dense.
Optional dense(const Optional& t) { return t ? Optional(wide(*t).contiguous()) : std::nullopt; }

}  // namespace

namespace {

// In one pass over dense rows: the row is widened, the sum written and read back as it was rounded, the norm rounded.
void rms_norm_rows(std::array<Tensor*, 2> out, Tensor& rstd, Tensor* sum, const Tensor& x, const Tensor* other,
                   const Tensor& gamma, double offset, double eps) {
  const int64_t width = gamma.numel(), rows = width ? x.numel() / width : 0;
  row::Buffer weights(width);
  row::widen(weights.data(), gamma, 0, width);
  if (offset != 0)
    for (float& w : weights) w += static_cast<float>(offset);
  at::parallel_for(0, rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(width, 1)), [&](int64_t begin, int64_t end) {
    row::Buffer first(width), second(width);
    for (int64_t i = begin; i < end; i++) {
      const int64_t at = i * width;
      const float* numbers = row::read(first.data(), x, at, width);
      if (other) {
        float* total = row::place(first.data(), *sum, at);
        row::add(total, numbers, row::read(second.data(), *other, at, width), width);
        row::narrow(*sum, at, total, width);
        numbers = row::read(first.data(), *sum, at, width);
      }
      const float scale =
          1.0f / std::sqrt(row::square_sum(numbers, width) / static_cast<float>(width) + static_cast<float>(eps));
      rstd.mutable_data_ptr<float>()[i] = scale;
      float* result = row::place(second.data(), *out[0], at);
      row::scale(result, numbers, weights.data(), scale, width);
      for (Tensor* each : out)
        if (each) row::narrow(*each, at, result, width);
    }
  });
}

}  // namespace

void add_rms_norm(std::array<Tensor*, 2> out, Tensor& rstd, Tensor* sum, const Tensor& x, const Tensor* other,
                  const Tensor& gamma, double offset, double eps) {
  const bool dense = row::fit(x, gamma, rstd, *out[0]) && rstd.scalar_type() == at::kFloat &&
                     (!out[1] || row::fits(*out[1])) && (!other || row::fit(*other, *sum));
  if (dense) return rms_norm_rows(out, rstd, sum, x, other, gamma, offset, eps);
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
