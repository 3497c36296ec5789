#include <ATen/Functions.h>

#include "kernels/engine/require.h"
#include "kernels/families/moe.h"

namespace softnpu::kernels {

namespace {

// Rows by number; zeros for a number behind the last.
Tensor rows_or_zeros(const Tensor& rows, const Tensor& places) {
  const auto index = places.flatten().to(at::kLong);
  if (rows.size(0) == 0) return at::zeros({index.numel(), rows.size(1)}, rows.options());
  const auto picked = rows.index_select(0, index.clamp_max(rows.size(0) - 1));
  return picked.masked_fill_(index.ge(rows.size(0)).unsqueeze(-1), 0);
}

// Column e of [tokens, experts] behind column e - 1.
Tensor by_expert(const Tensor& t) { return t.t().reshape(-1); }
// A copy: what is counted and then read must not change in between.
Tensor marks(const Tensor& map) { return map.ne(0); }

int64_t choices_of_each(int64_t pairs, int64_t tokens) {
  TORCH_CHECK(pairs % std::max<int64_t>(tokens, 1) == 0 && (tokens > 0 || pairs == 0), pairs,
              " rows are not as many for each of ", tokens, " tokens");
  return tokens > 0 ? pairs / tokens : 0;
}

// Place of each row of a padded order in by_expert([tokens, experts]).
Tensor padded_places(const Tensor& indices, int64_t tokens, int64_t experts) {
  const auto owners = indices.flatten().to(at::kLong).clone();
  TORCH_CHECK(owners.numel() == 0 || (owners.min().item<int64_t>() >= 0 && owners.max().item<int64_t>() < tokens),
              "sorted_indices names a token that does not exist; there are ", tokens);
  TORCH_CHECK(experts > 0 && owners.numel() % experts == 0, "rows do not divide into ", experts, " experts");
  return owners + (at::arange(experts, at::kLong) * tokens).repeat_interleave(owners.numel() / experts);
}

}  // namespace

void token_permute(const Tensor& out, const Tensor& places, const Tensor& tokens, const Tensor& experts) {
  const auto flat = experts.flatten();
  const int64_t choices = experts.dim() == 1 ? 1 : experts.size(1);
  const auto order = at::argsort(flat, /*stable=*/true);
  out.copy_(tokens.index_select(0, order.narrow(0, 0, out.size(0)).floor_divide(choices)));
  places.copy_(at::empty_like(order).scatter_(0, order, at::arange(order.numel(), at::kLong)));
}

void token_permute_backward(const Tensor& grad_tokens, const Tensor& grad, const Tensor& places, int64_t choices) {
  grad_tokens.copy_(rows_or_zeros(wide(grad), places).view({grad_tokens.size(0), choices, grad.size(1)}).sum(1));
}

void token_unpermute(const Tensor& out, const Tensor& rows, const Tensor& places, const Optional& probs) {
  auto picked = rows_or_zeros(wide(rows), places);
  if (probs) picked = (picked.view({probs->size(0), probs->size(1), rows.size(1)}) * wide(*probs).unsqueeze(-1)).sum(1);
  out.copy_(picked);
}

void token_unpermute_backward(const Tensor& grad_rows, const Optional& grad_probs, const Optional& rows,
                              const Tensor& grad, const Tensor& places, const Optional& probs) {
  const auto g = wide(grad), index = places.flatten().to(at::kLong);
  auto each = probs ? (g.unsqueeze(1) * wide(*probs).unsqueeze(-1)).flatten(0, 1) : g;
  const auto kept = at::nonzero(index.lt(grad_rows.size(0))).flatten();
  grad_rows.copy_(at::zeros(grad_rows.sizes(), g.options())
                      .index_copy_(0, index.index_select(0, kept), each.index_select(0, kept)));
  if (!probs || !grad_probs) return;
  const auto picked = rows_or_zeros(wide(*rows), places).view({probs->size(0), probs->size(1), g.size(1)});
  grad_probs->copy_((picked * g.unsqueeze(1)).sum(-1));
}

void map_permute(const Tensor& out, const Optional& out_probs, const Tensor& indices, const Tensor& tokens,
                 const Tensor& map, const Optional& probs, bool padded) {
  const int64_t count = out.size(0), rows = map.size(0), experts = map.size(1);
  Tensor places;  // in the map, expert by expert
  if (padded) {
    TORCH_CHECK(experts > 0, "routing_map has no experts");
    const auto order = at::argsort(marks(map).t().to(at::kInt), /*stable=*/true, -1, /*descending=*/true);
    const auto owners = order.narrow(1, 0, count / experts).flatten();
    indices.copy_(owners);
    places = padded_places(owners, rows, experts);
  } else {
    places = at::nonzero(by_expert(marks(map))).flatten();
    TORCH_CHECK(places.numel() >= count, "routing_map sends ", places.numel(), " tokens, fewer than the ", count,
                " rows of the result");
    places = places.narrow(0, 0, count);
    indices.copy_(at::argsort(places.remainder(rows), /*stable=*/true));
  }
  out.copy_(tokens.index_select(0, places.remainder(rows)));
  if (probs && out_probs) out_probs->copy_(by_expert(*probs).index_select(0, places));
}

void map_permute_backward(const Tensor& grad_tokens, const Optional& grad_probs, const Tensor& grad,
                          const Optional& grad_out_probs, const Tensor& indices, const Tensor& map, bool padded) {
  const int64_t rows = map.size(0), experts = map.size(1), count = grad.size(0);
  const auto g = wide(grad);
  if (padded) {
    grad_tokens.copy_(at::zeros(grad_tokens.sizes(), g.options()).index_add_(0, indices.flatten().to(at::kLong), g));
  } else {
    token_permute_backward(grad_tokens, grad, indices, choices_of_each(count, rows));
  }
  if (!grad_probs || !grad_out_probs) return;
  const auto places =
      padded ? padded_places(indices, rows, experts) : at::nonzero(by_expert(marks(map))).flatten().narrow(0, 0, count);
  const auto flat = at::zeros({experts * rows}, at::kFloat).index_add_(0, places, grad_out_probs->to(at::kFloat));
  grad_probs->copy_(flat.view({experts, rows}).t());
}

void map_unpermute(const Tensor& out, const Tensor& order, const Tensor& owners, const Optional& pair_probs,
                   const Tensor& rows, const Tensor& indices, const Optional& map, const Optional& probs, bool padded) {
  const auto index = indices.flatten().to(at::kLong);
  const int64_t pairs = index.numel(), tokens = out.size(0);
  auto each = wide(rows);
  Optional weights;
  if (padded) {
    const auto [owner, row] = at::sort(index, /*stable=*/true, 0, false);
    order.copy_(row);
    owners.copy_(owner);
    if (probs) weights = by_expert(*probs).index_select(0, padded_places(index, probs->size(0), probs->size(1)));
    if (weights) each = each * wide(*weights).unsqueeze(-1);
    out.copy_(at::zeros(out.sizes(), each.options()).index_add_(0, index, each));
  } else {
    const int64_t choices = choices_of_each(pairs, tokens);
    order.copy_(index);
    owners.copy_(at::arange(tokens, at::kLong).repeat_interleave(choices));
    if (probs) {
      TORCH_CHECK(map.has_value(), "probs need a routing_map");
      weights = probs->masked_select(marks(*map));
    }
    each = each.index_select(0, index);
    if (weights) each = each * wide(*weights).unsqueeze(-1);
    out.copy_(each.view({tokens, choices, rows.size(1)}).sum(1));
  }
  if (weights && pair_probs) pair_probs->copy_(*weights);
}

void map_unpermute_backward(const Tensor& grad_rows, const Optional& grad_probs, const Tensor& grad,
                            const Tensor& order, const Tensor& owners, const Optional& map, const Optional& rows,
                            const Optional& probs, bool padded) {
  const auto g = wide(grad), row = order.flatten().to(at::kLong);
  const int64_t pairs = row.numel(), tokens = g.size(0);
  const auto owner = padded ? owners.flatten().to(at::kLong)
                            : at::arange(tokens, at::kLong).repeat_interleave(choices_of_each(pairs, tokens));
  auto each = g.index_select(0, owner);
  const auto result = at::zeros(grad_rows.sizes(), g.options());
  if (!probs) {
    grad_rows.copy_(result.index_copy_(0, row, each));
    return;
  }
  TORCH_CHECK(rows.has_value() && map.has_value(), "probs need permuted_tokens and a routing_map");
  // Where the probability of each pair stands in probs, token by token.
  const int64_t experts = probs->size(1);
  TORCH_CHECK(!padded || (experts > 0 && pairs % experts == 0), pairs, " rows do not divide into ", experts,
              " experts");
  const auto places = padded ? owner * experts + row.floor_divide(std::max<int64_t>(pairs / experts, 1))
                             : at::nonzero(marks(*map).flatten()).flatten();
  const auto weights = wide(*probs).flatten().index_select(0, places);
  grad_rows.copy_(result.index_copy_(0, row, each * weights.unsqueeze(-1)));
  if (!grad_probs) return;
  const auto products = (wide(*rows).index_select(0, row) * each).sum(-1);
  grad_probs->copy_(
      at::zeros({probs->numel()}, products.options()).index_add_(0, places, products).view(probs->sizes()));
}

namespace require {

void pairs(const Tensor& places, int64_t choices, int64_t tokens) {
  TORCH_CHECK(choices > 0 && places.numel() == choices * tokens, "sorted_indices has ", places.numel(),
              " numbers, expected ", choices, " for each of ", tokens, " tokens");
}

}  // namespace require

}  // namespace softnpu::kernels
