#include <ATen/Functions.h>

#include "kernels/engine/require.h"
#include "kernels/families/moe.h"

namespace softnpu::kernels {

namespace {

// Number of tokens of each expert from `first`.
Tensor count(const Tensor& experts, int64_t first, int64_t end) {
  const auto own = experts.masked_select(experts.ge(first).logical_and_(experts.lt(end)));
  return at::bincount(own - first, {}, end - first);
}

Tensor numbers(int64_t end) { return at::arange(end, at::kLong); }

// int8 of rows in float32, and the scale of each row where it follows from the row.
std::tuple<Tensor, Optional> quantized(Tensor rows, const Tensor& experts, const Optional& scale,
                                       const Optional& offset, const Routing& routing) {
  if (routing.quant_mode == 0) {
    TORCH_CHECK(scale.has_value(), "quant_mode 0 needs a scale");
    rows = rows * scale->flatten().narrow(0, 0, 1).to(at::kFloat);
    if (offset) rows = rows + offset->flatten().narrow(0, 0, 1).to(at::kFloat);
    return {rows.round_().clamp_(-128, 127).to(at::kChar), std::nullopt};
  }
  if (scale)
    rows = rows * scale->to(at::kFloat).index_select(0, scale->size(0) == 1 ? at::zeros_like(experts) : experts);
  const auto step = rows.abs().amax(-1) / 127;
  const auto divisor = step.masked_fill(step.eq(0), 1).unsqueeze(-1);
  return {(rows / divisor).round_().clamp_(-128, 127).to(at::kChar), step};
}

}  // namespace

void init_routing(const Tensor& expanded_x, const Tensor& places, const Tensor& sorted_experts, const Tensor& x,
                  const Tensor& rows, const Tensor& experts) {
  const auto [sorted, order] = at::sort(experts.flatten(), /*stable=*/true, 0, false);
  const auto source = rows.flatten().index_select(0, order).to(at::kLong);
  expanded_x.copy_(
      x.index_select(0, source.narrow(0, 0, expanded_x.size(0)).remainder(std::max<int64_t>(x.size(0), 1))));
  places.copy_(at::zeros_like(source).scatter_(0, source, numbers(source.numel())));
  sorted_experts.copy_(sorted);
}

std::array<int64_t, 2> own_experts(at::IntArrayRef range, int64_t experts) {
  if (range.empty()) return {0, experts};
  TORCH_CHECK(range.size() == 2, "active_expert_range has ", range.size(), " numbers, expected 2");
  return {range[0], range[1]};
}

void init_routing(const Tensor& expanded_x, const Tensor& indices, const Optional& counted, const Optional& scales,
                  const Tensor& x, const Tensor& experts, const Optional& scale, const Optional& offset,
                  const Routing& routing, Counts how) {
  const int64_t choices = experts.size(1), width = x.size(1);
  const auto flat = experts.flatten().to(at::kLong).clone();
  // Experts before this rank's come last.
  const auto order = at::argsort(flat.masked_fill(flat.lt(routing.first), INT64_MAX), /*stable=*/true);
  const auto totals = count(flat, routing.first, routing.end);
  const int64_t own = totals.sum().item<int64_t>();
  auto pairs = order.narrow(0, 0, own);
  auto places = numbers(own);  // of these pairs in the result
  const int64_t slots = expanded_x.dim() == 3 ? expanded_x.size(0) * expanded_x.size(1) : expanded_x.size(0);
  if (routing.capacity > 0) {
    const auto expert = flat.index_select(0, pairs);
    const auto begins = (totals.cumsum(0) - totals).index_select(0, expert - routing.first);
    const auto kept = at::nonzero((places - begins).lt(routing.capacity)).flatten();
    places = (expert * routing.capacity + places - begins).index_select(0, kept);
    pairs = pairs.index_select(0, kept);
  }
  indices.copy_(routing.by_source ? order : at::full_like(flat, -1).scatter_(0, pairs, places));

  if (routing.capacity == 0 && slots < own) {  // only the first tokens are active
    pairs = pairs.narrow(0, 0, slots);
    places = places.narrow(0, 0, slots);
  }
  const auto source = pairs.floor_divide(std::max<int64_t>(choices, 1));
  auto rows = x.index_select(0, source);
  Optional steps;
  if (routing.quant_mode >= 0)
    std::tie(rows, steps) =
        quantized(rows.to(at::kFloat), flat.index_select(0, pairs) - routing.first, scale, offset, routing);
  else if (scale)
    steps = scale->index_select(0, source);
  expanded_x.copy_(at::zeros({slots, width}, rows.options()).index_copy_(0, places, rows).view(expanded_x.sizes()));
  if (scales) {
    scales->zero_();
    if (steps) scales->index_copy_(0, places, steps->to(scales->scalar_type()));
  }

  if (!counted) return;
  counted->zero_();
  if (how == Counts::counts) counted->copy_(totals);
  if (how == Counts::ends) counted->copy_(totals.cumsum(0));
  if (how == Counts::pairs) {
    const auto some = at::nonzero(totals).flatten();
    counted->narrow(0, 0, some.numel()).copy_(at::stack({some + routing.first, totals.index_select(0, some)}, 1));
  }
}

void expert_tokens(const Tensor& ends, const Tensor& sorted_experts, int64_t experts) {
  ends.copy_(sorted_experts.flatten().unsqueeze(0).le(numbers(experts).unsqueeze(1)).sum(1));
}

void finalize_routing(const Tensor& out, const Tensor& rows, const Tensor& places, const Optional& skip1,
                      const Optional& skip2, const Optional& bias, const Optional& scales, const Optional& experts,
                      bool by_token) {
  const int64_t tokens = out.size(0), choices = places.numel() / std::max<int64_t>(tokens, 1), width = out.size(1);
  auto index = places.flatten().to(at::kLong).clone();
  if (!by_token) index = index.view({choices, tokens}).t().reshape(-1);
  const auto dropped = index.eq(-1);
  auto each = wide(rows).reshape({-1, width}).index_select(0, index.masked_fill(dropped, 0));
  each = each.masked_fill_(dropped.unsqueeze(-1), 0);
  if (bias) {
    TORCH_CHECK(experts.has_value(), "bias needs expert_for_source_row");
    each = each + wide(*bias).index_select(0, experts->flatten().to(at::kLong));
  }
  if (scales) each = each * wide(*scales).reshape({-1, 1});
  auto sum = each.view({tokens, choices, width}).sum(1);
  if (skip1) sum = sum + wide(*skip1);
  if (skip2) sum = sum + wide(*skip2);
  out.copy_(sum);
}

void re_routing(const Tensor& out, const Tensor& out_scales, const Tensor& source, const Tensor& counts,
                const Tensor& tokens, const Tensor& per_rank, const Optional& scales) {
  const auto each = per_rank.to(at::kLong).clone();
  const int64_t rows = tokens.size(0), experts = each.size(1);
  const auto total = each.clamp_min(0).sum().item<int64_t>();
  TORCH_CHECK(total <= rows && each.ge(0).all().item<bool>(), "expert_token_num_per_rank adds up to ", total, " of ",
              rows, " tokens");
  // Expert of each token; what is not counted stays at the end.
  const auto expert = numbers(experts).repeat({each.size(0)}).repeat_interleave(each.flatten());
  const auto order = at::argsort(at::cat({expert, at::full({rows - total}, experts, at::kLong)}), /*stable=*/true);
  out.copy_(tokens.index_select(0, order));
  scales ? out_scales.copy_(scales->index_select(0, order)) : out_scales.zero_();
  source.copy_(order);
  counts.copy_(each.sum(0));
}

void update_expert(const Tensor& out, const Tensor& out_mask, const Tensor& experts, const Tensor& table,
                   const Optional& scales, const Optional& threshold, const Optional& active, int64_t rank,
                   int64_t world_size, bool by_token) {
  const int64_t tokens = experts.size(0), choices = experts.size(1);
  const auto copies = table.to(at::kLong).index_select(0, experts.flatten().to(at::kLong));
  const auto count = copies.select(1, 0).clamp_min(1);
  // A copy serves as many neighbouring ranks as there are for each, or every so many tokens.
  const auto ranks = (count + (world_size - 1)).floor_divide(count);
  const auto choice = by_token ? numbers(tokens).repeat_interleave(choices).remainder(count)
                               : at::full_like(count, rank).floor_divide(ranks);
  out.copy_(copies.gather(1, (choice + 1).unsqueeze(1)).view({tokens, choices}));
  auto mask = at::ones({tokens, choices}, at::kBool);
  if (scales && threshold) {
    const auto s = wide(*scales);
    mask = s.ge(wide(*threshold).reshape({1, -1}) * s.sum(1, true));
  }
  if (active) mask = mask.logical_and(active->to(at::kBool).reshape({tokens, 1}));
  out_mask.copy_(mask);
}

namespace require {

void routed(const Tensor& x, const Tensor& experts) {
  rank(x, "x", 2, 2);
  rank(experts, "expert_idx", 2, 2);
  TORCH_CHECK(x.size(0) == experts.size(0), "expert_idx has ", experts.size(0), " rows, expected one for each of ",
              x.size(0), " tokens");
}

}  // namespace require

}  // namespace softnpu::kernels
