#include "ops/families/mhc.h"

namespace npu::ops {

namespace {

void check_streams(const char* op, const Tensor& x) {
  TORCH_CHECK(x.dim() == 3 || x.dim() == 4, op, ": x has shape ", x.sym_sizes(),
              ", expected [tokens, n, D] or [batch, sequence, n, D]");
}

// The sizes of `t` are those of x without dimension `dim`.
void check_without(const char* op, const char* name, const Tensor& t, const Tensor& x, int64_t dim) {
  const auto expected = results::without_dim(x, dim);
  TORCH_CHECK(t.sym_sizes() == c10::SymIntArrayRef(expected), op, ": ", name, " has shape ", t.sym_sizes(),
              ", expected ", c10::SymIntArrayRef(expected));
}

}  // namespace

void check_mhc_pre(const Tensor& x, const Tensor& phi, const Tensor& alpha, const Tensor& bias,
                   const OptionalTensor& gamma, int64_t out_flag, int64_t inner_precise) {
  constexpr const char* op = "npu_mhc_pre";
  check_streams(op, x);
  TORCH_CHECK(out_flag == 0 || out_flag == 1, op, ": out_flag is ", out_flag, ", expected 0 or 1");
  TORCH_CHECK(inner_precise == 0 || inner_precise == 1, op, ": inner_precise is ", inner_precise,
              ", expected 0 (float32 products) or 1 (HF32 products)");
  TORCH_CHECK(alpha.sym_numel() == 2 || alpha.sym_numel() == 3, op, ": alpha has ", alpha.sym_numel(),
              " numbers, expected 3, or 2 for no h_res");
  const auto n = x.sym_size(-2), rows = alpha.sym_numel() == 3 ? n * n + 2 * n : 2 * n;
  TORCH_CHECK(phi.dim() == 2 && phi.sym_size(0) == rows && phi.sym_size(1) == n * x.sym_size(-1), op,
              ": phi has shape ", phi.sym_sizes(), ", expected [", rows, ", ", n * x.sym_size(-1), "]");
  TORCH_CHECK(bias.dim() == 1 && bias.sym_size(0) == rows, op, ": bias has shape ", bias.sym_sizes(), ", expected [",
              rows, "]");
  TORCH_CHECK(!gamma || gamma->sym_numel() == n * x.sym_size(-1), op, ": gamma has shape ", gamma->sym_sizes(),
              ", expected [", n, ", ", x.sym_size(-1), "]");
}

void check_mhc_pre_backward(const Tensor& x, const Tensor& phi, const Tensor& alpha, const Tensor& inv_rms,
                            const Tensor& h_mix, const Tensor& h_pre, int64_t inner_precise) {
  constexpr const char* op = "npu_mhc_pre_backward";
  check_streams(op, x);
  TORCH_CHECK(inv_rms.defined() && h_mix.defined() && h_pre.defined(), op,
              " needs inv_rms, h_mix and h_pre: call npu_mhc_pre with out_flag=1");
  TORCH_CHECK(inner_precise == 0, op, ": inner_precise is ", inner_precise,
              ", expected 0; the operator for HF32 products, aclnnMhcPreBackwardV2, has no published signature");
  TORCH_CHECK(alpha.sym_numel() == 3, op, ": alpha has ", alpha.sym_numel(), " numbers, expected 3");
  const auto n = x.sym_size(-2);
  TORCH_CHECK(phi.dim() == 2 && phi.sym_size(0) == n * n + 2 * n && phi.sym_size(1) == n * x.sym_size(-1), op,
              ": phi has shape ", phi.sym_sizes(), ", expected [", n * n + 2 * n, ", ", n * x.sym_size(-1), "]");
}

void check_mhc_post(const char* op, const Tensor& x, const OptionalTensor& h_res, const Tensor& h_out,
                    const Tensor& h_post) {
  check_streams(op, x);
  check_without(op, "h_out", h_out, x, -2);
  check_without(op, "h_post", h_post, x, -1);
  if (!h_res) return;
  const auto expected = results::with_dim(x, -1, x.sym_size(-2));
  TORCH_CHECK(h_res->sym_sizes() == c10::SymIntArrayRef(expected), op, ": h_res has shape ", h_res->sym_sizes(),
              ", expected ", c10::SymIntArrayRef(expected));
}

void check_sinkhorn(const Tensor& x, const c10::SymInt& num_iters, int64_t out_flag) {
  constexpr const char* op = "npu_mhc_sinkhorn";
  TORCH_CHECK((x.dim() == 3 || x.dim() == 4) && x.sym_size(-1) == x.sym_size(-2) &&
                  (x.sym_size(-1) == 4 || x.sym_size(-1) == 6 || x.sym_size(-1) == 8),
              op, ": x has shape ", x.sym_sizes(),
              ", expected [tokens, n, n] or [batch, sequence, n, n] with n of 4, 6 or 8");
  TORCH_CHECK(num_iters >= 1 && num_iters <= 100, op, ": num_iters is ", num_iters, ", expected 1 to 100");
  TORCH_CHECK(out_flag == 0 || out_flag == 1, op, ": out_flag is ", out_flag, ", expected 0 or 1");
}

results::Dims token_dims(const Tensor& x) {
  const auto sizes = x.sym_sizes();
  return results::Dims(sizes.begin(), sizes.end() - 2);
}

results::Dims mixed_dims(const Tensor& x, const Tensor& phi) {
  auto sizes = token_dims(x);
  sizes.push_back(phi.sym_size(0));
  return sizes;
}

results::Dims kept_rows(const Tensor& x, const c10::SymInt& num_iters, int64_t out_flag, bool matrices) {
  if (!out_flag) return {0};
  c10::SymInt tokens = 1;
  for (const auto& size : token_dims(x)) tokens = tokens * size;
  return {2 * num_iters * tokens * 8 * (matrices ? x.sym_size(-1) : c10::SymInt(1))};
}

}  // namespace npu::ops
