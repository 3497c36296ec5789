#include "kernels/families/attention_fused.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/native/transformers/attention.h>
#include <c10/util/irange.h>

namespace softnpu::kernels::attention {

namespace {

// The kernels take a head for numbers that lie side by side.
bool dense(const Tensor& t) { return t.stride(-1) == 1 || t.size(-1) == 1; }
Tensor made_dense(const Tensor& t) { return dense(t) ? t : t.contiguous(); }

Tensor repeated(const Tensor& t, int64_t group) { return group == 1 ? t : t.repeat_interleave(group, 1); }

// The calls of the kernel: one for all batches, or one for each sequence of TND.
int64_t calls(const Problem& p) { return p.in.layout == "TND" ? p.query.sequences() : 1; }

// A gradient while it is added up: in the output itself, unless that is shorter or has a head for several query heads.
class Sum {
 public:
  Sum(const Tensor& out, const Tensor& like)
      : out_(out), direct_(out.sizes() == like.sizes() && out.scalar_type() == like.scalar_type() && dense(out)) {
    sum_ = direct_ ? out_.zero_() : at::zeros(like.sizes(), like.options());
  }
  Tensor sequence_first() const { return sum_.transpose(1, 2); }
  void finish() {
    if (direct_) return;
    out_.copy_(out_.size(1) == sum_.size(1) ? sum_ : sum_.unflatten(1, {out_.size(1), -1}).sum({2}));
  }

 private:
  Tensor out_, sum_;
  bool direct_;
};

Tensor logarithm(const Rows& max, const Rows& sum, int64_t call) {
  const auto total = sum.all(call).select(-1, 0), best = max.all(call).select(-1, 0);
  return best + total.log();
}

std::optional<Tensor> bias_of(const Problem& p) { return p.in.pse; }

bool causal(const Problem& p, int64_t call) { return p.shape(call) == Problem::Shape::kCausal; }

}  // namespace

bool fits_fused(const Problem& p) {
  const auto& in = p.in;
  const auto type = in.query.scalar_type();
  if (p.drops() || in.sink || in.query_rope || (in.atten_mask && in.sparse_mode < 2)) return false;
  if (type != at::kFloat && type != at::kDouble && type != at::kBFloat16) return false;
  for (const auto* t : {&in.query, &in.key, &in.value})
    if (!dense(*t) || !t->numel()) return false;
  if (p.query.size() != p.value.size()) return false;
  const bool biased = in.pse.has_value();
  if (biased && (in.pse_type == 1 && in.scale != 1)) return false;
  if (biased && (in.layout == "TND" || in.pse->scalar_type() != type || in.pse->dim() != 4 || !dense(*in.pse)))
    return false;
  for (const auto i : c10::irange(p.query.sequences())) {
    if (!p.query.rows(i) || !p.key.rows(i)) return false;
    const auto shape = p.shape(i);
    if (shape == Problem::Shape::kOther || (biased && shape != Problem::Shape::kAll)) return false;
  }
  return true;
}

// Calls the kernel behind at::_scaled_dot_product_flash_attention_for_cpu, which would make an output of its own.
void forward_fused(const Tensor& out, const Statistics& statistics, const Problem& p) {
  const Heads results(out, p.in.layout, p.in.heads, p.in.q_ends);
  for (const auto i : c10::irange(calls(p))) {
    const auto q = p.query.all(i), k = repeated(p.key.all(i), p.group), v = repeated(p.value.all(i), p.group);
    const auto logarithms = at::empty({q.size(0), q.size(2), q.size(1)}, at::kFloat).transpose(1, 2);
    auto view = results.all(i);
    const auto result =
        out.scalar_type() == q.scalar_type() && dense(out) ? view : at::empty(view.sizes(), q.options());
    at::native::flash_attention_kernel(at::kCPU, result.transpose(1, 2), logarithms.transpose(1, 2), q, k, v, 0.0,
                                       causal(p, i), bias_of(p), p.in.scale);
    if (!result.is_same(view)) view.copy_(result);
    if (statistics.max && statistics.max->numel()) {
      auto rows = Rows(*statistics.max, p.query, p.in.softmax_layout).all(i);
      rows.copy_(logarithms.unsqueeze(-1).expand_as(rows));
    }
  }
  if (statistics.sum && statistics.sum->numel()) statistics.sum->fill_(1);
}

// Calls the kernel behind at::_scaled_dot_product_flash_attention_for_cpu_backward, for the same reason.
void backward_fused(const Gradients& gradients, const Tensor& dy, const Tensor& out, const Statistics& statistics,
                    const Problem& p) {
  const auto& in = p.in;
  const auto like_query = [&](const Tensor& t) { return Heads(t, in.layout, in.heads, in.q_ends); };
  const auto like_key = [&](const Tensor& t) { return Heads(t, in.layout, p.key.heads(), in.kv_ends); };
  const auto type = in.query.scalar_type();
  const auto upper = made_dense(dy.to(type)), below = made_dense(out.to(type));
  const Heads dq = like_query(gradients.query), dk = like_key(gradients.key), dv = like_key(gradients.value),
              grads = like_query(upper), outs = like_query(below);
  const Rows max(*statistics.max, p.query, in.softmax_layout), sum(*statistics.sum, p.query, in.softmax_layout);
  const auto swap = [](const Tensor& t) { return t.transpose(1, 2); };
  for (const auto i : c10::irange(calls(p))) {
    const auto q = p.query.all(i), k = repeated(p.key.all(i), p.group), v = repeated(p.value.all(i), p.group);
    Sum of_q(dq.all(i), q), of_k(dk.all(i), k), of_v(dv.all(i), v);
    at::native::flash_attention_backward_kernel(at::kCPU, of_q.sequence_first(), of_k.sequence_first(),
                                                of_v.sequence_first(), swap(grads.all(i)), swap(q), swap(k), swap(v),
                                                swap(outs.all(i)), swap(logarithm(max, sum, i).contiguous()), 0.0,
                                                causal(p, i), bias_of(p), in.scale);
    of_q.finish();
    of_k.finish();
    of_v.finish();
  }
}

}  // namespace softnpu::kernels::attention
