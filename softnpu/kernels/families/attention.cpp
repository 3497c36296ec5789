#include "kernels/families/attention.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/native/transformers/attention.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/engine/wide.h"
#include "kernels/families/dropout.h"

namespace softnpu::kernels::attention {

namespace {

// To and from (batch, heads, sequence, size).
Tensor split_heads(const Tensor& t, const std::string& layout, int64_t heads) {
  if (layout == "BNSD") return t;
  if (layout == "BSND") return t.transpose(1, 2);
  const auto parts = t.unflatten(2, {heads, -1});
  if (layout == "BSH") return parts.transpose(1, 2);
  if (layout == "SBH") return parts.permute({1, 2, 0, 3});
  TORCH_CHECK(false, "input_layout '", layout, "' is not one of BNSD, BSND, BSH, SBH");
}

void store(Tensor& out, const Tensor& result, const std::string& layout, int64_t heads) {
  auto view = split_heads(out, layout, heads);
  view.copy_(result);
}

// Which scores are left out, or nothing. sparse_mode: 0 and 1 take the given mask (0 also its band of tokens), 2 is
// causal from the first row, 3 causal to the last row, 4 the band counted from the last row.
Optional hidden(const Inputs& in, int64_t rows, int64_t columns) {
  const auto options = at::TensorOptions(at::kBool);
  const auto band = [&](int64_t shift) {
    const auto row = at::arange(rows).unsqueeze(1), column = at::arange(columns).unsqueeze(0);
    return at::logical_or(column - row - shift > in.next_tokens, row + shift - column > in.pre_tokens);
  };
  switch (in.sparse_mode) {
    case 0:
      return in.atten_mask ? Optional(at::logical_or(in.atten_mask->to(at::kBool), band(0))) : std::nullopt;
    case 1:
      TORCH_CHECK(in.atten_mask, "sparse_mode 1 needs an atten_mask");
      return in.atten_mask->to(at::kBool);
    case 2:
      return at::ones({rows, columns}, options).triu(1);
    case 3:
      return at::ones({rows, columns}, options).triu(columns - rows + 1);
    case 4:
      return band(columns - rows);
    default:
      TORCH_CHECK(false, "sparse_mode ", in.sparse_mode, " is not one of 0 to 4");
  }
}

struct Scores {
  Tensor query, key, value;  // (batch, heads, sequence, size) in float32; key and value repeated for grouped heads
  Tensor max, sum, probabilities;  // of the softmax
  Tensor dropped;                  // probabilities after dropout
  Tensor keep;                     // dropout's factor for each score, undefined without dropout
  int64_t kv_heads;
};

Tensor grouped(const Tensor& t, int64_t heads) {
  return t.size(1) == heads ? t : t.repeat_interleave(heads / t.size(1), 1);
}

int64_t key_heads(const Inputs& in, int64_t size) {
  return in.layout == "BNSD" ? in.key.size(1) : in.layout == "BSND" ? in.key.size(2) : in.key.size(2) / size;
}

Scores scores(const Inputs& in) {
  Scores s;
  s.query = split_heads(in.query, in.layout, in.heads).to(at::kFloat);
  const int64_t size = s.query.size(3);
  s.kv_heads = key_heads(in, size);
  s.key = grouped(split_heads(in.key, in.layout, s.kv_heads).to(at::kFloat), in.heads);
  s.value = grouped(split_heads(in.value, in.layout, s.kv_heads).to(at::kFloat), in.heads);
  auto x = at::matmul(s.query, s.key.transpose(2, 3)).mul_(in.scale);
  if (in.pse) x.add_(*in.pse);
  // A row that sees nothing gives zeros, not NaN: the smallest number instead of minus infinity, and its row cleared.
  const auto mask = hidden(in, x.size(2), x.size(3));
  if (mask) x.masked_fill_(*mask, std::numeric_limits<float>::lowest());
  s.max = x.amax({3}, true);
  const auto weights = (x - s.max).exp_();
  if (mask)
    weights.masked_fill_(at::logical_and(mask->expand_as(weights), s.max == std::numeric_limits<float>::lowest()), 0);
  s.sum = weights.sum({3}, true);
  s.probabilities = weights / at::where(s.sum == 0, at::ones_like(s.sum), s.sum);
  s.dropped = s.probabilities;
  if (in.drop_mask && in.keep_prob < 1) {
    s.keep = dropout::unpack(*in.drop_mask, s.probabilities.sizes()).to(at::kFloat).div_(in.keep_prob);
    s.dropped = s.probabilities * s.keep;
  }
  return s;
}

// The gradient of a head that several query heads shared.
Tensor ungrouped(const Tensor& t, int64_t kv_heads) {
  return t.size(1) == kv_heads ? t : t.unflatten(1, {kv_heads, -1}).sum({2});
}

// Without dropout the CPU's own fused kernel does it, never holding a whole matrix of scores. It gives the logarithm of
// a row's sum; as a maximum with the sum 1 that is the same softmax.
struct Fused {
  Tensor query, key, value;
  Optional mask;  // added to the scores
  bool causal = false;
  int64_t kv_heads = 0;
};

// From each row's first number to all of its repeats.
void spread(const Tensor& max, const Optional& sum) {
  const int64_t repeats = max.size(-1), rows = max.numel() / repeats;
  auto* const values = max.mutable_data_ptr<float>();
  for (int64_t row = 0; row < rows; row++) std::fill_n(values + row * repeats + 1, repeats - 1, values[row * repeats]);
  if (sum && sum->numel()) std::fill_n(sum->mutable_data_ptr<float>(), sum->numel(), 1.0F);
}

// The logarithm of each row's sum, as (batch, sequence, heads).
Tensor gathered(const Tensor& max, const Tensor& sum) {
  auto result = at::empty({max.size(0), max.size(1), max.size(2)}, at::kFloat);
  const int64_t repeats = max.size(-1);
  const auto maxima = max.contiguous(), sums = sum.contiguous();
  const auto *const m = maxima.const_data_ptr<float>(), *const s = sums.const_data_ptr<float>();
  auto* const out = result.mutable_data_ptr<float>();
  for (int64_t row = 0; row < result.numel(); row++) {
    const float total = s[row * repeats];
    out[row] = total == 1.0F ? m[row * repeats] : m[row * repeats] + std::log(total);
  }
  return result.transpose(1, 2);
}

// The fused kernels take a head for numbers that lie side by side.
bool dense(const Tensor& t) { return t.stride(-1) == 1 || t.size(-1) == 1; }

bool fits_fused(const Inputs& in) {
  return dense(in.query) && dense(in.key) && dense(in.value) && !(in.drop_mask && in.keep_prob < 1) &&
         in.query.numel() && in.key.numel() && in.query.size(-1) == in.key.size(-1) &&
         in.key.sizes() == in.value.sizes();
}

Fused fused(const Inputs& in) {
  Fused f;
  const bool wide = worth_widening({in.query, in.key, in.value});
  const auto heads = [&](const Tensor& t, int64_t count) {
    return split_heads(wide ? widened(t) : t, in.layout, count);
  };
  f.query = heads(in.query, in.heads);
  f.kv_heads = key_heads(in, f.query.size(3));
  f.key = grouped(heads(in.key, f.kv_heads), in.heads);
  f.value = grouped(heads(in.value, f.kv_heads), in.heads);
  f.causal = in.sparse_mode == 2 && !in.pse;
  if (in.pse) f.mask = in.pse->to(f.query.scalar_type());
  const auto hide = f.causal ? std::nullopt : hidden(in, f.query.size(2), f.key.size(2));
  if (hide) {
    const auto base = f.mask ? *f.mask : at::zeros({1, 1, f.query.size(2), f.key.size(2)}, f.query.options());
    f.mask = base.masked_fill(*hide, -std::numeric_limits<double>::infinity());
  }
  return f;
}

void forward_fused(Tensor& out, const Optional& softmax_max, const Optional& softmax_sum, const Inputs& in) {
  const Fused f = fused(in);
  // The kernel behind at::_scaled_dot_product_flash_attention_for_cpu, which would make an output and statistics of its
  // own.
  const bool keep = softmax_max && softmax_max->numel();
  const auto& q = f.query;
  const auto logsumexp = keep ? softmax_max->select(-1, 0) : at::empty({q.size(0), q.size(1), q.size(2)}, at::kFloat);
  const auto result = out.scalar_type() == q.scalar_type() && dense(out) ? out : at::empty(out.sizes(), q.options());
  at::native::flash_attention_kernel(at::kCPU, split_heads(result, in.layout, in.heads).transpose(1, 2),
                                     logsumexp.transpose(1, 2), q, f.key, f.value, 0.0, f.causal, f.mask, in.scale);
  if (!result.is_same(out)) out.copy_(result);
  if (keep) spread(*softmax_max, softmax_sum);
}

// A gradient while it is added up: in the output itself, unless that is shorter or has a head for several query heads.
class Gradient {
 public:
  Gradient(Tensor& out, const std::string& layout, int64_t heads, const Tensor& like)
      : out_(split_heads(out, layout, heads)),
        direct_(out_.sizes() == like.sizes() && out_.scalar_type() == like.scalar_type() && dense(out_)) {
    sum_ = direct_ ? out_.zero_() : at::zeros(like.sizes(), like.options());
  }
  Tensor sequence_first() const { return sum_.transpose(1, 2); }
  void finish() {
    if (!direct_) out_.copy_(ungrouped(sum_, out_.size(1)));
  }

 private:
  Tensor out_, sum_;
  bool direct_;
};

// Calls the kernel behind at::_scaled_dot_product_flash_attention_for_cpu_backward, for the same reason.
void backward_fused(Tensor& dq, Tensor& dk, Tensor& dv, const Tensor& dy, const Saved& saved, const Inputs& in) {
  const Fused f = fused(in);
  Gradient q(dq, in.layout, in.heads, f.query), k(dk, in.layout, f.kv_heads, f.key),
      v(dv, in.layout, f.kv_heads, f.value);
  const auto swap = [](const Tensor& t) { return t.transpose(1, 2); };
  const auto whole = [&](const Tensor& t) {
    const auto same = t.to(f.query.scalar_type());
    return swap(split_heads(dense(same) ? same : same.contiguous(), in.layout, in.heads));
  };
  at::native::flash_attention_backward_kernel(at::kCPU, q.sequence_first(), k.sequence_first(), v.sequence_first(),
                                              whole(dy), swap(f.query), swap(f.key), swap(f.value), whole(*saved.out),
                                              gathered(*saved.max, *saved.sum), 0.0, f.causal, f.mask, in.scale);
  q.finish();
  k.finish();
  v.finish();
}

}  // namespace

void forward(Tensor& out, const Optional& softmax_max, const Optional& softmax_sum, const Inputs& in) {
  const auto contiguous = [](const Optional& t) { return !t || t->is_contiguous(); };
  if (fits_fused(in) && contiguous(softmax_max) && contiguous(softmax_sum))
    return forward_fused(out, softmax_max, softmax_sum, in);
  const Scores s = scores(in);
  store(out, at::matmul(s.dropped, s.value), in.layout, in.heads);
  if (softmax_max && softmax_max->numel()) softmax_max->copy_(s.max.expand(softmax_max->sizes()));
  if (softmax_sum && softmax_sum->numel()) softmax_sum->copy_(s.sum.expand(softmax_sum->sizes()));
}

void backward(Tensor& dq, Tensor& dk, Tensor& dv, const Tensor& dy, const Saved& saved, const Inputs& in) {
  if (fits_fused(in) && saved.complete()) return backward_fused(dq, dk, dv, dy, saved, in);
  const Scores s = scores(in);
  const auto grad = split_heads(dy, in.layout, in.heads).to(at::kFloat);
  store(dv, ungrouped(at::matmul(s.dropped.transpose(2, 3), grad), s.kv_heads), in.layout, s.kv_heads);
  auto dp = at::matmul(grad, s.value.transpose(2, 3));
  if (s.keep.defined()) dp.mul_(s.keep);
  const auto ds = s.probabilities * (dp - (dp * s.probabilities).sum({3}, true)) * in.scale;
  store(dq, at::matmul(ds, s.key), in.layout, in.heads);
  store(dk, ungrouped(at::matmul(ds.transpose(2, 3), s.query), s.kv_heads), in.layout, s.kv_heads);
}

}  // namespace softnpu::kernels::attention
