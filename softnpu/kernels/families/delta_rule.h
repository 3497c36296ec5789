// The gated delta rule, token by token: S = S exp(g); S += beta (v - S k) k^T; out = S q scale. Query and key have
// fewer heads than value: consecutive heads share one.
#pragma once

#include "kernels/families/normalization.h"

namespace softnpu::kernels {

// Every sequence has a state of its own, the initial one; the last one goes to `final_state`.
void chunk_delta_rule(Tensor& out, Tensor& final_state, std::array<Tensor, 3> qkv, const Optional& beta,
                      const Tensor& initial, const Tensor& lengths, const Optional& g, double scale);
// `indices` names the state that each token writes. A sequence begins with that of its first token, or of the last one
// that was accepted before.
void recurrent_delta_rule(Tensor& out, Tensor& state, std::array<Tensor, 3> qkv, const Optional& beta,
                          const Tensor& lengths, const Tensor& indices, const Optional& g, const Optional& accepted,
                          double scale);

namespace require {
void delta_rule(const Tensor& query, const Tensor& key, const Tensor& value, const Optional& state,
                const Optional& lengths, const Optional& beta, const Optional& g, const Tensor& out);
}  // namespace require

}  // namespace softnpu::kernels
