#include "kernels/families/floyd_attention.h"

#include <ATen/ExpandUtils.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/util/irange.h>

#include <limits>

#include "kernels/engine/require.h"

namespace softnpu::kernels::floyd {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// All edges of one i: (k, j) of (k, size) with (j, size), and of (k, size) with (j, k, size).
Tensor both(const Tensor& rows, const Tensor& ij, const Tensor& jk) {
  return at::mm(rows, ij.t()) + at::bmm(rows.unsqueeze(1), jk.permute({1, 2, 0})).squeeze(1);
}
// (k, size) of weights (k, j).
Tensor gathered(const Tensor& weights, const Tensor& ij, const Tensor& jk) {
  return at::mm(weights, ij) + at::bmm(weights.unsqueeze(1), jk.transpose(0, 1)).squeeze(1);
}

// visit(b, h, i, scaled scores (k, j)).
template <class Visit>
void each(const Inputs& in, Visit&& visit) {
  const auto sizes = in.query.sizes();
  Tensor mask;
  if (in.mask) mask = in.mask->to(at::kBool).expand({sizes[0], sizes[1], sizes[2], sizes[3], in.key_ij.size(3)});
  for (const auto b : c10::irange(sizes[0]))
    for (const auto h : c10::irange(sizes[1])) {
      const auto key_jk = in.key_jk[b][h].to(at::kFloat);
      for (const auto i : c10::irange(sizes[2])) {
        auto scores = both(in.query[b][h][i].to(at::kFloat), in.key_ij[b][h][i].to(at::kFloat), key_jk).mul_(in.scale);
        if (mask.defined()) scores.masked_fill_(mask[b][h][i], -kInfinity);
        visit(b, h, i, scores);
      }
    }
}

}  // namespace

void check(const Inputs& in, const Tensor& max, const Tensor& sum, const Tensor& out) {
  using namespace require;
  for (const auto& t : {in.query, in.key_ij, in.key_jk}) rank(t, "query_ik, key_ij or key_jk", 5, 5);
  one_type({in.query, in.key_ij, in.value_ij, in.key_jk, in.value_jk, out});
  const auto q = in.query.sizes();
  const int64_t j = in.key_ij.size(3);
  shape(in.key_ij, "key_ij", {q[0], q[1], q[2], j, q[4]});
  like(in.value_ij, "value_ij", in.key_ij);
  shape(in.key_jk, "key_jk", {q[0], q[1], j, q[3], q[4]});
  like(in.value_jk, "value_jk", in.key_jk);
  like(out, "attention_out", in.query);
  last_sizes(max, "softmax_max", in.query, {8});
  last_sizes(sum, "softmax_sum", in.query, {8});
  const std::vector<int64_t> all{q[0], q[1], q[2], q[3], j};
  that(!in.mask || at::is_expandable_to(in.mask->sizes(), all), "argument 'atten_mask' does not fit the scores");
}

void forward(Tensor& max, Tensor& sum, Tensor& out, const Inputs& in) {
  each(in, [&](int64_t b, int64_t h, int64_t i, Tensor& scores) {
    auto top = scores.size(1) ? scores.amax({1}, true) : at::full({scores.size(0), 1}, -kInfinity, at::kFloat);
    top = top.masked_fill(top == -kInfinity, 0);
    scores.sub_(top).exp_();
    const auto total = scores.sum({1}, true);
    scores.div_(total.masked_fill(total == 0, 1));
    max[b][h][i].copy_(top);
    sum[b][h][i].copy_(total);
    out[b][h][i].copy_(gathered(scores, in.value_ij[b][h][i].to(at::kFloat), in.value_jk[b][h].to(at::kFloat)));
  });
}

void backward(const Gradients& gradients, const Tensor& dy, const Tensor& max, const Tensor& sum, const Tensor& out,
              const Inputs& in) {
  const auto keys = at::zeros(in.key_jk.sizes(), at::kFloat), values = at::zeros(in.value_jk.sizes(), at::kFloat);
  each(in, [&](int64_t b, int64_t h, int64_t i, Tensor& scores) {
    const auto wide = [&](const Tensor& t) { return t[b][h][i].to(at::kFloat); };
    const auto query = wide(in.query), grad = wide(dy);
    const auto weights =
        scores.sub_(wide(max).select(1, 0).unsqueeze(1)).exp_().div_(wide(sum).select(1, 0).unsqueeze(1));
    const auto slope = both(grad, wide(in.value_ij), in.value_jk[b][h].to(at::kFloat))
                           .sub_((grad * wide(out)).sum({1}, true))
                           .mul_(weights)
                           .mul_(in.scale);
    gradients.query[b][h][i].copy_(gathered(slope, wide(in.key_ij), in.key_jk[b][h].to(at::kFloat)));
    gradients.key_ij[b][h][i].copy_(at::mm(slope.t(), query));
    gradients.value_ij[b][h][i].copy_(at::mm(weights.t(), grad));
    keys[b][h].addcmul_(slope.t().unsqueeze(2), query.unsqueeze(0));
    values[b][h].addcmul_(weights.t().unsqueeze(2), grad.unsqueeze(0));
  });
  gradients.key_jk.copy_(keys);
  gradients.value_jk.copy_(values);
}

}  // namespace softnpu::kernels::floyd
