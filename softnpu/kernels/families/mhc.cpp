#include "kernels/families/mhc.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "kernels/engine/require.h"

namespace softnpu::kernels {

namespace {

Tensor f32(const Tensor& t) { return t.to(at::kFloat); }

// Numbers with 10 bits behind the point, rounded half up.
Tensor to_hf32(const Tensor& t) {
  const auto bits = t.contiguous().view(at::kInt);
  return at::bitwise_left_shift(at::bitwise_right_shift(at::bitwise_right_shift(bits, 12) + 1, 1), 13).view(at::kFloat);
}

void put(const Optional& to, const Tensor& from) {
  if (to) to->copy_(from.reshape(to->sizes()));
}

struct Streams {
  int64_t n, width, tokens;
  Tensor rows;  // [tokens, n * width]
  explicit Streams(const Tensor& x)
      : n(x.size(-2)), width(x.size(-1)), tokens(x.numel() / (n * width)), rows(f32(x).reshape({tokens, n * width})) {}
  Tensor each() const { return rows.view({tokens, n, width}); }
};

}  // namespace

void mhc_pre(MhcPre out, const Tensor& x, const Tensor& phi, const Tensor& alpha, const Tensor& bias,
             const Optional& gamma, double norm_eps, double hc_eps, bool hf32) {
  const Streams s(x);
  const auto inv_rms = at::rsqrt(s.rows.square().mean(-1, true) + norm_eps);
  auto factor = gamma ? s.rows * f32(*gamma).reshape({1, -1}) : s.rows, weights = f32(phi);
  if (hf32) factor = to_hf32(factor), weights = to_hf32(weights);
  const auto h_mix = at::mm(factor, weights.t());
  const auto scaled = h_mix * inv_rms, a = f32(alpha).reshape({-1}), b = f32(bias);
  const auto part = [&](int64_t which, int64_t begin, int64_t count) {
    return scaled.narrow(1, begin, count) * a.select(0, which) + b.narrow(0, begin, count);
  };
  const auto h_pre = at::sigmoid(part(0, 0, s.n)) + hc_eps;
  put(out.h_post, at::sigmoid(part(1, s.n, s.n)) * 2);
  if (a.size(0) == 3)
    put(out.h_res, part(2, 2 * s.n, s.n * s.n));
  else
    out.h_res.zero_();
  put(out.h_in, (h_pre.unsqueeze(-1) * s.each()).sum(1));
  put(out.inv_rms, inv_rms);
  put(out.h_mix, h_mix);
  put(out.h_pre, h_pre);
}

void mhc_pre_backward(std::array<Tensor, 5> grads, const Tensor& x, const Tensor& phi, const Tensor& alpha,
                      std::array<Tensor, 3> of, const Tensor& inv_rms, const Tensor& h_mix, const Tensor& h_pre,
                      const Tensor& h_post, const Optional& gamma, const Optional& more, double hc_eps) {
  const Streams s(x);
  const auto rms = f32(inv_rms).reshape({s.tokens, 1}), mix = f32(h_mix).reshape({s.tokens, -1});
  const auto pre = f32(h_pre).reshape({s.tokens, s.n}), post = f32(h_post).reshape({s.tokens, s.n});
  const auto d_in = f32(of[0]).reshape({s.tokens, 1, s.width});
  const auto gate = pre - hc_eps;
  const auto d_pre = (d_in * s.each()).sum(-1) * gate * (1 - gate);
  const auto d_post = f32(of[1]).reshape({s.tokens, s.n}) * post * (1 - post / 2);
  const auto d_res = f32(of[2]).reshape({s.tokens, s.n * s.n});
  const auto a = f32(alpha).reshape({-1});
  const auto before = at::cat({d_pre, d_post, d_res}, 1);  // of alpha * scaled + bias
  const auto d_scaled = at::cat({d_pre * a.select(0, 0), d_post * a.select(0, 1), d_res * a.select(0, 2)}, 1);
  const auto d_mix = d_scaled * rms;
  const auto g = gamma ? f32(*gamma).reshape({1, -1}) : Tensor();
  const auto d_product = at::mm(d_mix, f32(phi));

  auto d_rows = (g.defined() ? d_product * g : d_product) -
                (d_scaled * mix).sum(-1, true) * rms.pow(3) / static_cast<double>(s.n * s.width) * s.rows;
  auto d_x = d_rows.view({s.tokens, s.n, s.width}) + pre.unsqueeze(-1) * d_in;
  if (more) d_x = d_x + f32(*more).reshape(d_x.sizes());
  put(grads[0], d_x);
  put(grads[1], at::mm(d_mix.t(), g.defined() ? s.rows * g : s.rows));
  const auto each = before * mix * rms;
  put(grads[2], at::stack({each.narrow(1, 0, s.n).sum(), each.narrow(1, s.n, s.n).sum(),
                           each.narrow(1, 2 * s.n, s.n * s.n).sum()}));
  put(grads[3], before.sum(0));
  if (g.defined())
    put(grads[4], (s.rows * d_product).sum(0));
  else
    grads[4].zero_();
}

void mhc_post(Tensor& out, const Tensor& x, const Optional& h_res, const Tensor& h_out, const Tensor& h_post) {
  const auto streams = f32(x);
  const auto kept = h_res ? at::matmul(f32(*h_res).transpose(-1, -2), streams) : streams;
  out.copy_(kept + f32(h_post).unsqueeze(-1) * f32(h_out).unsqueeze(-2));
}

void mhc_post_backward(std::array<Tensor, 4> grads, const Tensor& grad_out, const Tensor& x, const Optional& h_res,
                       const Tensor& h_out, const Tensor& h_post) {
  const auto g = f32(grad_out);
  grads[0].copy_(h_res ? at::matmul(f32(*h_res), g) : g);
  if (h_res)
    grads[1].copy_(at::matmul(f32(x), g.transpose(-1, -2)));
  else
    grads[1].zero_();
  grads[2].copy_((f32(h_post).unsqueeze(-1) * g).sum(-2));
  grads[3].copy_((f32(h_out).unsqueeze(-2) * g).sum(-1));
}

void sinkhorn(Tensor& out, Optional norms, Optional sums, const Tensor& x, double eps, int64_t iterations) {
  const int64_t n = x.size(-1), tokens = x.numel() / (n * n);
  const auto norm = norms ? norms->view({2 * iterations, n, tokens, 8}).zero_() : Tensor();
  const auto sum = sums ? sums->view({iterations, 2, tokens * 8}).zero_() : Tensor();
  const auto keep = [&](int64_t step, const Tensor& matrix) {
    if (norm.defined()) norm.select(0, step).narrow(2, 0, n).copy_(matrix.transpose(0, 1));
  };
  const auto keep_sums = [&](int64_t i, const Tensor& rows, const Tensor& columns) {
    if (!sum.defined()) return;
    if (rows.defined()) sum[i][0].view({8, tokens}).narrow(0, 0, n).copy_(rows.reshape({tokens, n}).t());
    sum[i][1].view({tokens, 8}).narrow(1, 0, n).copy_(columns.reshape({tokens, n}));
  };
  const auto first = at::softmax(f32(x).reshape({tokens, n, n}), -1);
  keep(0, first);
  Tensor matrix = first + eps;
  for (int64_t i = 0; i < iterations; i++) {
    Tensor rows;
    if (i > 0) {
      rows = matrix.sum(-1, true) + eps;
      matrix = matrix / rows;
      keep(2 * i, matrix);
    }
    const auto columns = matrix.sum(-2, true) + eps;
    matrix = matrix / columns;
    keep(2 * i + 1, matrix);
    keep_sums(i, rows, columns);
  }
  out.copy_(matrix.view(out.sizes()));
}

void sinkhorn_backward(Tensor& grad_x, const Tensor& grad_out, const Tensor& norms, const Tensor& sums) {
  const int64_t n = grad_out.size(-1), tokens = grad_out.numel() / (n * n);
  const int64_t iterations = require::sinkhorn_iterations(grad_out, sums);
  const auto norm = f32(norms).reshape({2 * iterations, n, tokens, 8});
  const auto sum = f32(sums).reshape({iterations, 2, tokens * 8});
  const auto matrix = [&](int64_t step) { return norm.select(0, step).narrow(2, 0, n).transpose(0, 1); };
  const auto rows = [&](int64_t i) { return sum[i][0].view({8, tokens}).narrow(0, 0, n).t().unsqueeze(-1); };
  const auto columns = [&](int64_t i) { return sum[i][1].view({tokens, 8}).narrow(1, 0, n).unsqueeze(-2); };
  Tensor g = f32(grad_out).reshape({tokens, n, n});
  for (int64_t i = iterations - 1; i >= 0; i--) {
    g = (g - (g * matrix(2 * i + 1)).sum(-2, true)) / columns(i);
    if (i > 0) g = (g - (g * matrix(2 * i)).sum(-1, true)) / rows(i);
  }
  const auto first = matrix(0);
  grad_x.copy_((first * (g - (g * first).sum(-1, true))).view(grad_x.sizes()));
}

namespace require {

void mhc_streams(const Tensor& x) {
  rank(x, "x", 3, 4);
  that(x.numel() > 0, "x has no elements");
}

void mhc_pre(const Tensor& x, const Tensor& phi, const Tensor& alpha, const Tensor& bias, const Optional& gamma,
             const Tensor& h_in, const Tensor& h_post, const Tensor& h_res) {
  mhc_streams(x);
  const int64_t n = x.size(-2), width = x.size(-1), tokens = x.numel() / (n * width);
  that(alpha.numel() == 2 || alpha.numel() == 3, "alpha has 2 or 3 numbers");
  const int64_t rows = alpha.numel() == 3 ? n * n + 2 * n : 2 * n;
  shape(phi, "phi", {rows, n * width});
  shape(bias, "bias", {rows});
  numbers(gamma, "gamma", n * width);
  numbers(h_in, "h_in", tokens * width);
  numbers(h_post, "h_post", tokens * n);
  if (alpha.numel() == 3) numbers(h_res, "h_res", tokens * n * n);
}

void mhc_post(const Tensor& x, const Optional& h_res, const Tensor& h_out, const Tensor& h_post) {
  rank(x, "x", 3, 4);
  auto sizes = x.sizes().vec();
  const int64_t width = sizes.back(), n = sizes[sizes.size() - 2];
  sizes.back() = n;
  shape(h_res, "h_res", sizes);
  sizes.pop_back();
  shape(h_post, "h_post", sizes);
  sizes.back() = width;
  shape(h_out, "h_out", sizes);
}

int64_t sinkhorn_iterations(const Tensor& x, const Tensor& sums) {
  rank(x, "x", 3, 4);
  const int64_t n = x.size(-1), tokens = n ? x.numel() / (n * n) : 0;
  that(tokens > 0 && sums.numel() % (16 * tokens) == 0, "sum has 16 numbers an iteration and token");
  return sums.numel() / (16 * tokens);
}

void sinkhorn(const Tensor& x, int64_t iterations, const Optional& norms, const Optional& sums) {
  rank(x, "x", 3, 4);
  that(x.size(-1) == x.size(-2) && x.size(-1) >= 1 && x.size(-1) <= 8, "x has square matrices of up to 8 rows");
  that(iterations >= 1 && iterations <= 100, "num_iters is 1 to 100");
  const int64_t tokens = x.numel() / (x.size(-1) * x.size(-1));
  numbers(norms, "norm", 2 * iterations * tokens * x.size(-1) * 8);
  numbers(sums, "sum", 2 * iterations * tokens * 8);
}

}  // namespace require

}  // namespace softnpu::kernels
