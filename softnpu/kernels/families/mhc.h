// Manifold-constrained hyper-connections: n streams of width D a token, mixed by small matrices in float32.
#pragma once

#include "kernels/families/normalization.h"

namespace softnpu::kernels {

// What leaves the mixing in front of a layer; the last three are for the gradient.
struct MhcPre {
  Tensor &h_in, &h_post, &h_res;
  Optional inv_rms, h_mix, h_pre;
};
// `hf32`: the product with phi is one of numbers with 10 bits behind the point.
void mhc_pre(MhcPre out, const Tensor& x, const Tensor& phi, const Tensor& alpha, const Tensor& bias,
             const Optional& gamma, double norm_eps, double hc_eps, bool hf32);
// Gradients: {x, phi, alpha, bias, gamma}, of {h_in, h_post, h_res}. `more` comes to the one of x.
void mhc_pre_backward(std::array<Tensor, 5> grads, const Tensor& x, const Tensor& phi, const Tensor& alpha,
                      std::array<Tensor, 3> of, const Tensor& inv_rms, const Tensor& h_mix, const Tensor& h_pre,
                      const Tensor& h_post, const Optional& gamma, const Optional& more, double hc_eps);
// h_res^T x + h_post h_out; without h_res the streams stay as they are.
void mhc_post(Tensor& out, const Tensor& x, const Optional& h_res, const Tensor& h_out, const Tensor& h_post);
// Gradients: {x, h_res, h_out, h_post}; that of a missing h_res is zero.
void mhc_post_backward(std::array<Tensor, 4> grads, const Tensor& grad_out, const Tensor& x, const Optional& h_res,
                       const Tensor& h_out, const Tensor& h_post);

// Columns, then rows and columns in turn, are divided by their sums. `norms` has the matrix of every step, rows first,
// [2 iterations, n, tokens, 8]; `sums` the sums, [iterations, rows [8, tokens] and columns [tokens, 8]].
void sinkhorn(Tensor& out, Optional norms, Optional sums, const Tensor& x, double eps, int64_t iterations);
void sinkhorn_backward(Tensor& grad_x, const Tensor& grad_out, const Tensor& norms, const Tensor& sums);

namespace require {
void mhc_streams(const Tensor& x);
void mhc_pre(const Tensor& x, const Tensor& phi, const Tensor& alpha, const Tensor& bias, const Optional& gamma,
             const Tensor& h_in, const Tensor& h_post, const Tensor& h_res);
void mhc_post(const Tensor& x, const Optional& h_res, const Tensor& h_out, const Tensor& h_post);
void sinkhorn(const Tensor& x, int64_t iterations, const Optional& norms, const Optional& sums);
int64_t sinkhorn_iterations(const Tensor& x, const Tensor& sums);
}  // namespace require

}  // namespace softnpu::kernels
