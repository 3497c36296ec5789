#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/engine/require.h"
#include "kernels/engine/rows.h"
#include "kernels/families/moe.h"

namespace softnpu::kernels {

namespace {

constexpr int64_t kFew = 32;

// (values, places) of the largest in a row, NaN being larger than all, the first one of equals. The rest of the row, of
// which there is much, is not put in order.
std::tuple<Tensor, Tensor> largest(const Tensor& t, int64_t k) {
  if (t.scalar_type() != at::kFloat) {
    const auto [values, places] = at::sort(t, /*stable=*/true, -1, /*descending=*/true);
    return {values.narrow(-1, 0, k), places.narrow(-1, 0, k)};
  }
  const auto from = t.contiguous();
  const int64_t n = t.size(-1), count = n ? t.numel() / n : 0;
  auto shape = t.sizes().vec();
  shape.back() = k;
  const auto places = at::empty(shape, at::kLong);
  auto* chosen = places.mutable_data_ptr<int64_t>();
  const float* data = from.const_data_ptr<float>();
  rows::in_parallel(count, n, [&](int64_t begin, int64_t end) {
    if (k <= kFew) {
      std::vector<int32_t> buffer(n);
      for (int64_t i = begin; i < end; i++)
        rows::all_loops().largest(chosen + i * k, data + i * n, buffer.data(), k, n);
      return;
    }
    std::vector<int64_t> order(n);
    for (int64_t i = begin; i < end; i++) {
      const float* row = data + i * n;
      std::iota(order.begin(), order.end(), 0);
      std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int64_t a, int64_t b) {
        const bool a_nan = std::isnan(row[a]), b_nan = std::isnan(row[b]);
        if (a_nan || b_nan) return a_nan && (!b_nan || a < b);
        return row[a] > row[b] || (row[a] == row[b] && a < b);
      });
      std::copy_n(order.begin(), k, chosen + i * k);
    }
  });
  return {from.gather(-1, places), places};
}

}  // namespace

void gating_top_k_softmax(const Tensor& weights, const Tensor& experts, const Optional& rows, const Optional& scores,
                          const Tensor& x, const Optional& finished, int64_t k, bool renorm) {
  const auto probs = at::softmax(wide(x), -1);
  const auto [logits, places] = largest(wide(x), k);
  weights.copy_(renorm ? at::softmax(logits, -1) : probs.gather(-1, places));
  experts.copy_(finished ? places.masked_fill(finished->to(at::kBool).unsqueeze(-1), x.size(-1)) : places);
  if (rows) rows->copy_(at::arange(rows->numel(), at::kInt).view({k, -1}).t().reshape(rows->sizes()));
  if (scores && scores->numel() == probs.numel()) scores->copy_(probs);
}

void gating_top_k(const Tensor& weights, const Tensor& experts, const Tensor& scores, const Tensor& x,
                  const Optional& bias, int64_t k, const Gate& gate, bool keep_scores) {
  const auto all = gate.norm_type == 1 ? at::sigmoid(wide(x)) : at::softmax(wide(x), -1);
  auto choice = bias ? all + wide(*bias) : all;
  if (gate.group_count > 1) {
    const auto groups = choice.view({x.size(0), gate.group_count, -1});
    const auto rank = gate.group_select_mode == 1 ? std::get<0>(largest(groups, 2)).sum(-1) : groups.amax(-1);
    const auto best = std::get<1>(largest(rank, gate.k_group));
    const auto left = at::ones_like(rank, at::kBool).scatter_(-1, best, false);
    choice = groups.masked_fill(left.unsqueeze(-1), -std::numeric_limits<double>::infinity()).flatten(-2);
  }
  const auto places = std::get<1>(largest(choice, k));
  auto chosen = all.gather(-1, places);
  if (gate.norm_type == 1 || gate.renorm) chosen = chosen / (chosen.sum(-1, true) + gate.eps);
  weights.copy_(chosen * gate.scaling);
  experts.copy_(places);
  keep_scores ? scores.copy_(all) : scores.zero_();
}

void gating_top_k_backward(const Tensor& grad_x, const Tensor& scores, const Tensor& grad_weights,
                           const Tensor& experts, bool renorm, int64_t norm_type, double scaling, double eps) {
  const auto s = wide(scores), places = experts.to(at::kLong);
  auto grad = wide(grad_weights) * scaling;
  if (norm_type == 1 || renorm) {
    const auto chosen = s.gather(-1, places), total = chosen.sum(-1, true) + eps;
    grad = (grad - (grad * chosen).sum(-1, true) / total) / total;
  }
  const auto each = at::zeros_like(s).scatter_(-1, places, grad);
  grad_x.copy_(norm_type == 1 ? s * (1 - s) * each : s * (each - (each * s).sum(-1, true)));
}

namespace require {

void chosen(int64_t k, int64_t experts) {
  TORCH_CHECK(k > 0 && k <= experts, "k is ", k, ", expected 1 to ", experts, ", the number of experts");
}

void gate(const Tensor& x, int64_t k, const Gate& gate) {
  rank(x, "x", 2, 2);
  chosen(k, x.size(1));
  TORCH_CHECK(gate.group_count > 0 && x.size(1) % gate.group_count == 0, "group_count ", gate.group_count,
              " does not divide ", x.size(1), " experts");
  TORCH_CHECK(gate.k_group > 0 && gate.k_group <= gate.group_count, "k_group is ", gate.k_group, ", expected 1 to ",
              gate.group_count);
  const int64_t in_group = x.size(1) / gate.group_count;
  TORCH_CHECK(gate.group_count == 1 || gate.group_select_mode != 1 || in_group >= 2,
              "group_select_mode 1 needs two experts in a group");
  TORCH_CHECK(gate.group_count == 1 || k <= gate.k_group * in_group, "k is ", k, ", the chosen groups have ",
              gate.k_group * in_group, " experts");
  TORCH_CHECK(gate.norm_type == 0 || gate.norm_type == 1, "norm_type is ", gate.norm_type, ", expected 0 or 1");
  TORCH_CHECK(gate.group_select_mode == 0 || gate.group_select_mode == 1, "group_select_mode is ",
              gate.group_select_mode, ", expected 0 or 1");
}

}  // namespace require

}  // namespace softnpu::kernels
