// Norm and rotation of new tokens, and their way into caches of keys and values.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/util/irange.h>

#include "kernels/engine/bounds.h"
#include "kernels/engine/require.h"
#include "kernels/families/cache.h"

namespace softnpu::kernels::cache {

namespace {

using require::that;

Tensor rms(const Tensor& x, const Tensor& gamma, double eps) {
  return x * x.square().mean({-1}, true).add_(eps).rsqrt_() * gamma.to(at::kFloat);
}

Tensor rotated(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const auto halves = x.chunk(2, -1);
  return x * cos.to(at::kFloat) + at::cat({-halves[1], halves[0]}, -1) * sin.to(at::kFloat);
}

Tensor int8(const Tensor& x) { return x.round().clamp_(-128, 127).to(at::kChar); }

bool in_blocks(const std::string& mode) { return mode.starts_with("PA_BLK"); }
bool fractal(const std::string& mode) { return mode.ends_with("NZ"); }

// A cache (blocks, tokens, heads, size) whose memory holds (blocks, heads * size / 16, tokens, 16), or 32 for int8.
Tensor as_fractal(const Tensor& cache) {
  const int64_t last = cache.scalar_type() == at::kChar ? 32 : 16;
  return cache.view({cache.size(0), cache.size(2) * cache.size(3) / last, cache.size(1), last});
}

// The slot of each token, where the mode gives those of blocks.
Tensor slots(const Tensor& index, int64_t batch, int64_t length, int64_t block) {
  const auto token = at::arange(length);
  const auto starts = index.to(at::kLong).reshape({batch, -1}).index_select(1, token.div(block, "floor"));
  const auto found = starts.div(block, "floor") * block + token.remainder(block);
  return found.masked_fill(starts < 0, -1).flatten();
}

void into(Tensor& cache, const Tensor& values, const KvNormRope& in) {  // values: (batch, heads, length, size)
  if (in.mode == "Norm") {
    const auto index = in.index.to(at::kLong);
    bounds::within(index, "index", 0, cache.size(2) - 1);
    const auto places = index.unsqueeze(1).unsqueeze(3).expand(values.sizes());
    cache.scatter_(2, places, values.to(cache.scalar_type()));
    return;
  }
  const auto tokens = values.transpose(1, 2).flatten(0, 1);
  const auto at_slots = in_blocks(in.mode) ? slots(in.index, in.kv.size(0), in.kv.size(2), cache.size(1)) : in.index;
  auto memory = fractal(in.mode) ? as_fractal(cache) : cache;
  scatter(memory, tokens, at_slots, fractal(in.mode) ? "PA_NZ" : "Norm");
}

}  // namespace

void kv_norm_rope(const KvNormRope& in, Tensor& k_rope, Tensor& c_kv) {
  const auto kv = in.kv.to(at::kFloat);
  const int64_t split = in.gamma.size(0);
  const auto y = rms(kv.narrow(-1, 0, split), in.gamma, in.epsilon);
  const auto pairs = kv.narrow(-1, split, kv.size(-1) - split).unflatten(-1, {-1, 2}).transpose(-1, -2).flatten(-2);
  const auto k = rotated(pairs, in.cos, in.sin);
  into(in.k_cache, in.k_scale ? int8(k * in.k_scale->to(at::kFloat)) : k, in);
  into(in.ckv_cache, in.ckv_scale ? int8(y * in.ckv_scale->to(at::kFloat)) : y, in);
  in.output ? k_rope.copy_(k) : k_rope.zero_();
  in.output ? c_kv.copy_(y) : c_kv.zero_();
}

void check_kv_norm_rope(const KvNormRope& in, const Tensor& k_rope, const Tensor& c_kv) {
  const auto& mode = in.mode;
  that(mode == "Norm" || mode == "PA" || mode == "PA_BNSD" || mode == "PA_NZ" || mode == "PA_BLK_BNSD" ||
           mode == "PA_BLK_NZ",
       "argument 'cache_mode' is not one of Norm, PA, PA_BNSD, PA_NZ, PA_BLK_BNSD, PA_BLK_NZ");
  require::rank(in.kv, "kv", 4, 4);
  require::rank(in.gamma, "gamma", 1, 1);
  const int64_t batch = in.kv.size(0), heads = in.kv.size(1), length = in.kv.size(2);
  const int64_t rms_size = in.gamma.size(0), rope_size = in.kv.size(3) - rms_size;
  that(rope_size > 0 && rope_size % 2 == 0, "kv has no even number of numbers behind those that gamma scales");
  for (const auto& t : {in.cos, in.sin}) {
    require::rank(t, "cos or sin", 4, 4);
    that(t.size(3) == rope_size && t.size(0) == batch && t.size(1) == 1 && (t.size(2) == length || t.size(2) == 1),
         "cos or sin is not (batch, 1, length or 1, rotated numbers)");
  }
  require::shape(k_rope, "k_rope", {batch, heads, length, rope_size});
  require::shape(c_kv, "c_kv", {batch, heads, length, rms_size});
  require::numbers(in.k_scale, "k_rope_scale", rope_size);
  require::numbers(in.ckv_scale, "c_kv_scale", rms_size);
  for (const auto& [cache, size] :
       {std::pair<const Tensor&, int64_t>(in.k_cache, rope_size), {in.ckv_cache, rms_size}}) {
    require::rank(cache, "k_cache or ckv_cache", 4, 4);
    that(cache.size(3) == size, "k_cache or ckv_cache has tokens of another size than kv");
    if (mode == "Norm") {
      that(cache.size(0) == batch && cache.size(1) == heads,
           "k_cache or ckv_cache is not (batch, heads, cache length, size)");
      require::shape(in.index, "index", {batch, length});
      continue;
    }
    that(cache.size(1) > 0 && cache.size(2) == heads,
         "k_cache or ckv_cache is not (blocks, tokens of a block, heads, size)");
    const int64_t pages = (length + cache.size(1) - 1) / cache.size(1);
    require::numbers(in.index, "index", batch * (in_blocks(mode) ? pages : length));
    if (!fractal(mode)) continue;
    that(cache.is_contiguous(), "a cache in mode PA_NZ or PA_BLK_NZ is not contiguous");
    that(heads * size % (cache.scalar_type() == at::kChar ? 32 : 16) == 0,
         "a token in mode PA_NZ or PA_BLK_NZ is not a multiple of 32 bytes");
  }
}

void qkv_norm_rope(const QkvNormRope& in, const Optional& q_plain, const Optional& k_plain, const Optional& v_plain) {
  const int64_t size = in.size[3];
  const auto qkv = in.qkv.to(at::kFloat).unflatten(1, {-1, size});
  const auto cos = in.cos.unsqueeze(1), sin = in.sin.unsqueeze(1);
  const auto q = rotated(rms(qkv.narrow(1, 0, in.heads[0]), in.q_gamma, in.epsilon), cos, sin);
  const auto k = rotated(rms(qkv.narrow(1, in.heads[0], in.heads[1]), in.k_gamma, in.epsilon), cos, sin);
  const auto v = qkv.narrow(1, in.heads[0] + in.heads[1], in.heads[2]);
  const auto quantised = [&](const Tensor& x, const Optional& scale, const Optional& offset) {
    if (!scale) return x;
    const auto scaled = x / scale->to(at::kFloat).reshape({x.size(1), size});
    return int8(offset ? scaled + offset->to(at::kFloat).reshape({x.size(1), size}) : scaled);
  };
  in.q_out.copy_(q.flatten(1));
  scatter(in.k_cache, quantised(k, in.k_scale, in.k_offset), in.index, "PA_NZ");
  scatter(in.v_cache, quantised(v, in.v_scale, in.v_offset), in.index, "PA_NZ");
  if (q_plain) q_plain->copy_(q.flatten(1));
  if (k_plain) k_plain->copy_(k.flatten(1));
  if (v_plain) v_plain->copy_(v.flatten(1));
}

void check_qkv_norm_rope(const QkvNormRope& in, const Optional& q, const Optional& k, const Optional& v) {
  require::entries(in.size, "qkv_size", 4);
  require::entries(in.heads, "head_nums", 3);
  that(in.mode == "PA_NZ", "argument 'cache_mode' is not PA_NZ");
  require::rank(in.qkv, "qkv", 2, 2);
  const int64_t tokens = in.qkv.size(0), size = in.size[3];
  that(in.heads[0] > 0 && in.heads[1] > 0 && in.heads[2] > 0 && size > 0 && size % 2 == 0,
       "head_nums has a number below one, or qkv_size an odd size of heads");
  require::shape(in.qkv, "qkv", {tokens, (in.heads[0] + in.heads[1] + in.heads[2]) * size});
  for (const auto& t : {in.q_gamma, in.k_gamma}) require::shape(t, "q_gamma or k_gamma", {size});
  for (const auto& t : {in.cos, in.sin}) require::shape(t, "cos or sin", {tokens, size});
  require::shape(in.q_out, "q_out", {tokens, in.heads[0] * size});
  require::shape(q, "q_out_before_quant", {tokens, in.heads[0] * size});
  require::shape(k, "k_out_before_quant", {tokens, in.heads[1] * size});
  require::shape(v, "v_out_before_quant", {tokens, in.heads[2] * size});
  for (const auto& t : {in.k_scale, in.k_offset}) require::numbers(t, "k_scale or k_offset", in.heads[1] * size);
  for (const auto& t : {in.v_scale, in.v_offset}) require::numbers(t, "v_scale or v_offset", in.heads[2] * size);
  check_scatter(in.k_cache, at::empty({tokens, in.heads[1] * size}, at::device(at::kMeta).dtype(at::kFloat)), in.index,
                "PA_NZ");
  check_scatter(in.v_cache, at::empty({tokens, in.heads[2] * size}, at::device(at::kMeta).dtype(at::kFloat)), in.index,
                "PA_NZ");
}

void mla_prolog(const MlaProlog& in, Tensor& query, Tensor& query_rope, const Optional& query_norm) {
  const auto wide = [](const Tensor& t) { return t.to(at::kFloat); };
  const int64_t heads = in.weight_uk.size(0), size = in.weight_uk.size(1), latent = in.weight_uk.size(2);
  const int64_t turned = in.weight_dkv_kr.size(1) - latent;
  const auto x = wide(in.x).reshape({-1, in.x.size(-1)});
  const auto cos = in.cos.reshape({-1, 1, turned}), sin = in.sin.reshape({-1, 1, turned});
  const auto rope = [&](const Tensor& t) {  // (tokens, heads, rotated numbers), in pairs
    return rotated(t.unflatten(-1, {turned / 2, 2}).transpose(-1, -2).flatten(-2), cos, sin);
  };
  const auto normed = rms(at::matmul(x, wide(in.weight_dq)), in.gamma_cq, in.epsilon_cq);
  const auto q = at::matmul(normed, wide(in.weight_uq_qr)).mul_(in.query_scale).view({x.size(0), heads, size + turned});
  query.copy_(at::bmm(q.narrow(2, 0, size).transpose(0, 1), wide(in.weight_uk)).transpose(0, 1).reshape(query.sizes()));
  query_rope.copy_(rope(q.narrow(2, size, turned)).reshape(query_rope.sizes()));
  if (query_norm && query_norm->numel()) query_norm->copy_(normed.view(query_norm->sizes()));
  const auto kv = at::matmul(x, wide(in.weight_dkv_kr));
  const auto ckv = rms(kv.narrow(1, 0, latent), in.gamma_ckv, in.epsilon_ckv).mul_(in.key_scale);
  const auto kr = rope(kv.narrow(1, latent, turned).unsqueeze(1));
  for (const auto& [cache, values] : {std::pair<Tensor&, const Tensor&>(in.kv_cache, ckv), {in.kr_cache, kr}}) {
    if (!in.mode.starts_with("PA")) {
      cache.copy_(values.reshape(cache.sizes()));
    } else if (cache.numel()) {
      auto memory = fractal(in.mode) ? as_fractal(cache) : cache;
      scatter(memory, values, *in.index, fractal(in.mode) ? "PA_NZ" : "Norm");
    }
  }
}

void check_mla_prolog(const MlaProlog& in, const Tensor& query, const Tensor& query_rope, const Optional& query_norm) {
  require::rank(in.x, "token_x", 2, 3);
  require::rank(in.weight_uk, "weight_uk", 3, 3);
  require::rank(in.weight_dq, "weight_dq", 2, 2);
  require::rank(in.weight_dkv_kr, "weight_dkv_kr", 2, 2);
  for (const auto& t : {in.x, in.weight_dq, in.weight_uq_qr, in.weight_uk, in.weight_dkv_kr, in.kv_cache, in.kr_cache})
    that(t.is_floating_point(), "quantised tokens, weights and caches are not computed here");
  const int64_t hidden = in.x.size(-1), rank = in.weight_dq.size(1);
  const int64_t heads = in.weight_uk.size(0), size = in.weight_uk.size(1), latent = in.weight_uk.size(2);
  const int64_t turned = in.weight_dkv_kr.size(1) - latent;
  that(turned > 0 && turned % 2 == 0, "weight_dkv_kr has no even number of columns behind those of weight_uk");
  require::shape(in.weight_dq, "weight_dq", {hidden, rank});
  require::shape(in.weight_uq_qr, "weight_uq_qr", {rank, heads * (size + turned)});
  require::shape(in.weight_dkv_kr, "weight_dkv_kr", {hidden, latent + turned});
  require::shape(in.gamma_cq, "rmsnorm_gamma_cq", {rank});
  require::shape(in.gamma_ckv, "rmsnorm_gamma_ckv", {latent});
  auto tokens = in.x.sizes().vec();
  const auto with = [&](std::initializer_list<int64_t> last) {
    auto sizes = tokens;
    sizes.pop_back();
    sizes.insert(sizes.end(), last);
    return sizes;
  };
  for (const auto& t : {in.cos, in.sin}) require::shape(t, "rope_cos or rope_sin", with({turned}));
  require::shape(query, "query", with({heads, latent}));
  require::shape(query_rope, "query_rope", with({heads, turned}));
  const bool keep = query_norm && query_norm->numel();
  if (keep) require::shape(query_norm, "query_norm", with({rank}));
  that(!keep || in.query_scale == 1, "query_norm together with qc_qr_scale is not computed here");
  const int64_t count = hidden ? in.x.numel() / hidden : 0;
  const auto& mode = in.mode;
  that(mode == "PA_BSND" || mode == "PA_NZ" || mode == "BSND" || mode == "TND",
       "argument 'cache_mode' is not one of PA_BSND, PA_NZ, BSND, TND");
  for (const auto& [cache, last] : {std::pair<const Tensor&, int64_t>(in.kv_cache, latent), {in.kr_cache, turned}}) {
    if (mode == "BSND" || mode == "TND") {
      require::shape(cache, "kv_cache or kr_cache", with({1, last}));
      continue;
    }
    require::rank(cache, "kv_cache or kr_cache", 4, 4);
    that(cache.size(2) == 1 && cache.size(3) == last,
         "kv_cache or kr_cache is not (blocks, tokens of a block, 1, size)");
    that(in.index.has_value(), "argument 'cache_index' is missing");
    require::numbers(in.index, "cache_index", count);
    that(!cache.numel() || cache.size(1) > 0, "kv_cache or kr_cache has blocks without tokens");
    that(mode != "PA_NZ" || (cache.is_contiguous() && last % 16 == 0),
         "a cache in mode PA_NZ is not contiguous, or has a size that is not a multiple of 16");
  }
}

}  // namespace softnpu::kernels::cache
