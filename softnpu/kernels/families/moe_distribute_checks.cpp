#include "kernels/engine/require.h"
#include "kernels/families/moe_distribute.h"

namespace softnpu::kernels {

namespace require {

namespace {

void mask_of(const Optional& mask, const Tensor& expert_ids) {
  if (!mask) return;
  that(mask->scalar_type() == at::kBool, "x_active_mask is not bool");
  if (mask->dim() == 1)
    shape(mask, "x_active_mask", {expert_ids.size(0)});
  else
    shape(mask, "x_active_mask", expert_ids.sizes());
}

}  // namespace

void dispatch(Call& call, const Experts& experts, const Tensor& x, const Tensor& expert_ids, const Optional& scales,
              const Optional& mask, const Optional& weights, int64_t quant_mode, int64_t nums_type,
              const Received& out) {
  rank(x, "x", 2, 2);
  that(x.size(0) == expert_ids.size(0), "x and expert_ids have other rows");
  that(x.is_floating_point() && x.element_size() > 1, "x is not of a floating type");
  that(quant_mode >= 0 && quant_mode <= 2, "quant_mode is not 0, 1 or 2");
  that(nums_type == 0 || nums_type == 1, "expert_token_nums_type is not 0 or 1");
  that(quant_mode != 0 || !scales, "scales need quant_mode 1 or 2");
  that(quant_mode != 1 || scales, "quant_mode 1 needs scales");
  const int64_t rows_of_scales = experts.count + (experts.shared_ranks ? experts.shared : 0);
  shape(scales, "scales", {rows_of_scales, x.size(1)}), shape(weights, "expert_scales", expert_ids.sizes());
  mask_of(mask, expert_ids);
  rank(out.rows, "expand_x", 2, 2);
  that(out.rows.size(1) == x.size(1), "expand_x has another width than x");
  that(out.rows.scalar_type() == (quant_mode ? at::kChar : x.scalar_type()), "expand_x has another type");
  that(out.row_scales.numel() == 0 || out.row_scales.numel() == out.rows.size(0), "dynamic_scales has other rows");
  that(out.weights.numel() == 0 || out.weights.numel() == out.rows.size(0), "expand_scales has other rows");
  shape(out.expert_tokens, "expert_token_nums", {experts.local()});
  that(out.counts.dim() == 1 && out.counts.numel() >= experts.local() * experts.ranks, "ep_recv_counts is too short");
  that(out.places.dim() == 1 && out.places.numel() >= expert_ids.numel(), "expand_idx is too short");
  scratch(call, exchange_bytes(experts, out.rows));
}

void combine(Call& call, const Experts& experts, const Tensor& rows, const Tensor& expert_ids, const Tensor& places,
             const Tensor& ends, const Tensor& weights, const Optional& mask, const Optional& added,
             int64_t comm_quant_mode, const Special& special) {
  rank(rows, "expand_x", 2, 2);
  that(rows.is_floating_point() && rows.element_size() > 1, "expand_x is not of a floating type");
  that(comm_quant_mode == 0, "comm_quant_mode is not 0");
  that(places.dim() == 1 && places.numel() >= expert_ids.numel(), "expand_idx is too short");
  that(ends.dim() == 1 && ends.numel() >= experts.local() * experts.ranks, "ep_send_counts is too short");
  shape(weights, "expert_scales", expert_ids.sizes());
  numbers(added, "shared_expert_x", expert_ids.size(0) * rows.size(1));
  mask_of(mask, expert_ids);
  that(special.zero >= 0 && special.copy >= 0 && special.constant >= 0, "a number of experts is negative");
  that(special.copy + special.constant == 0 || special.tokens, "ori_x is NULL");
  shape(special.tokens, "ori_x", {expert_ids.size(0), rows.size(1)});
  that(special.constant == 0 || (special.alpha1 && special.alpha2 && special.v), "const_expert_alpha or v is NULL");
  for (const auto* t : {&special.alpha1, &special.alpha2, &special.v})
    if (special.constant) shape(*t, "const_expert_alpha_1, _2 or v", {special.constant, rows.size(1)});
  scratch(call, exchange_bytes(experts, rows));
}

void no_dequantisation(const Optional& activation_scale, const Optional& weight_scale, const Optional& group_list) {
  that(!activation_scale && !weight_scale && !group_list,
       "activation_scale, weight_scale and group_list are not implemented");
}

}  // namespace require
}  // namespace softnpu::kernels
