// Hyper-connections: x is [batch, sequence, n, D] or [tokens, n, D]; phi has the rows of pre (n), post (n) and, where
// alpha has three numbers, res (n * n).
#pragma once

#include <optional>
#include <string_view>

#include "ops/results.h"

namespace npu::ops {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

void check_mhc_pre(const Tensor& x, const Tensor& phi, const Tensor& alpha, const Tensor& bias,
                   const OptionalTensor& gamma, int64_t out_flag, int64_t inner_precise);
void check_mhc_pre_backward(const Tensor& x, const Tensor& phi, const Tensor& alpha, const Tensor& inv_rms,
                            const Tensor& h_mix, const Tensor& h_pre, int64_t inner_precise);
void check_mhc_post(const char* op, const Tensor& x, const OptionalTensor& h_res, const Tensor& h_out,
                    const Tensor& h_post);
void check_sinkhorn(const Tensor& x, const c10::SymInt& num_iters, int64_t out_flag);

// A result that this call does not have is none for Python.
inline Tensor only_if(int64_t flag, const Tensor& t) { return flag ? t : Tensor(); }

results::Dims token_dims(const Tensor& x);
results::Dims mixed_dims(const Tensor& x, const Tensor& phi);
// One number: two steps an iteration, rows of eight for each of n (matrices), or one such row (sums), for every token.
results::Dims kept_rows(const Tensor& x, const c10::SymInt& num_iters, int64_t out_flag, bool matrices);

}  // namespace npu::ops
