// Caches of keys and values: writing tokens at their slots, reading them back, and what is fused with that.
#pragma once

#include <string_view>

#include "kernels/families/normalization.h"

namespace softnpu::kernels::cache {

// out[i] gets updates[i] from place indices[i] of the axis on.
void scatter_update(Tensor& out, const Tensor& indices, const Tensor& updates, int64_t axis);
void check_scatter_update(const Tensor& out, const Tensor& indices, const Tensor& updates, int64_t axis);
void scatter_list(std::vector<Tensor>& out, const Tensor& indices, const Tensor& updates, const Optional& mask,
                  int64_t axis);
void check_scatter_list(const std::vector<Tensor>& out, const Tensor& indices, const Tensor& updates,
                        const Optional& mask, const std::string& reduce, int64_t axis);
void scatter_nd_update(Tensor& out, const Tensor& indices, const Tensor& updates);
void check_scatter_nd_update(const Tensor& out, const Tensor& indices, const Tensor& updates);

// Paged caches. Norm: (blocks, tokens of a block, heads, size). PA_NZ: (blocks, heads * size / 16, tokens, 16), where
// 16 may be another number. Tokens whose slot is negative are left out.
void scatter(Tensor& cache, const Tensor& tokens, const Tensor& slots, std::string_view mode);
void check_scatter(const Tensor& cache, const Tensor& tokens, const Tensor& slots, std::string_view mode);
// The tokens of each sequence, one sequence after the other. A block that is not there gives zeros.
void gather(Tensor& out, const Tensor& cache, const Tensor& block_tables, const Tensor& seq_lens,
            const Optional& seq_offset, std::string_view mode, bool cumulative);
void check_gather(const Tensor& out, const Tensor& cache, const Tensor& block_tables, const Tensor& seq_lens,
                  const Optional& seq_offset, std::string_view mode, bool cumulative);

// Root-mean-square norm of the first numbers of kv, rotation of the others, and both into caches.
struct KvNormRope {
  const Tensor &kv, &gamma, &cos, &sin, &index;
  Tensor &k_cache, &ckv_cache;
  const Optional &k_scale, &ckv_scale;
  double epsilon;
  const std::string& mode;
  bool output;
};
void kv_norm_rope(const KvNormRope& in, Tensor& k_rope, Tensor& c_kv);
void check_kv_norm_rope(const KvNormRope& in, const Tensor& k_rope, const Tensor& c_kv);

struct QkvNormRope {
  const Tensor &qkv, &q_gamma, &k_gamma, &cos, &sin, &index;
  Tensor &q_out, &k_cache, &v_cache;
  const Optional &k_scale, &v_scale, &k_offset, &v_offset;
  IntArrayRef size, heads;
  double epsilon;
  const std::string& mode;
};
void qkv_norm_rope(const QkvNormRope& in, const Optional& q, const Optional& k, const Optional& v);
void check_qkv_norm_rope(const QkvNormRope& in, const Optional& q, const Optional& k, const Optional& v);

// What comes before latent attention: query and query_rope of new tokens, and their latent keys into caches.
struct MlaProlog {
  const Tensor &x, &weight_dq, &weight_uq_qr, &weight_uk, &weight_dkv_kr, &gamma_cq, &gamma_ckv, &sin, &cos;
  const Optional& index;
  Tensor &kv_cache, &kr_cache;
  double epsilon_cq, epsilon_ckv;
  const std::string& mode;
  double query_scale = 1, key_scale = 1;
};
void mla_prolog(const MlaProlog& in, Tensor& query, Tensor& query_rope, const Optional& query_norm = std::nullopt);
void check_mla_prolog(const MlaProlog& in, const Tensor& query, const Tensor& query_rope,
                      const Optional& query_norm = std::nullopt);

}  // namespace softnpu::kernels::cache
