#include "ops/families/moe.h"

#include <ATen/ops/argsort.h>
#include <ATen/ops/sort.h>

namespace npu::ops {

void check_choices(const char* op, const Tensor& x, int64_t k) {
  check_rank(op, "x", x, 2, 3);
  TORCH_CHECK(k > 0 && k <= x.sym_size(-1), op, ": k is ", k, ", expected 1 to ", x.sym_size(-1),
              ", the number of experts");
}

void check_gate(const char* op, const Tensor& x, int64_t k, int64_t k_group, int64_t group_count,
                int64_t group_select_mode, int64_t norm_type) {
  check_rank(op, "x", x, 2, 2);
  check_choices(op, x, k);
  check_in(op, "norm_type", norm_type, 0, 1);
  check_in(op, "group_select_mode", group_select_mode, 0, 1);
  TORCH_CHECK(group_count > 0 && x.sym_size(1) % group_count == 0, op, ": group_count is ", group_count,
              ", expected a number that divides ", x.sym_size(1), " experts");
  check_in(op, "k_group", k_group, 1, group_count);
  const auto in_group = x.sym_size(1) / group_count;
  TORCH_CHECK(group_count == 1 || k <= in_group * k_group, op, ": k is ", k, ", but the chosen groups have ",
              in_group * k_group, " experts");
  TORCH_CHECK(group_count == 1 || group_select_mode == 0 || in_group >= 2, op,
              ": group_select_mode 1 needs two experts in a group");
}

void check_rank(const char* op, const char* name, const Tensor& t, int64_t least, int64_t most) {
  TORCH_CHECK(t.dim() >= least && t.dim() <= most, op, ": ", name, " has ", t.dim(), " dimensions, expected ", least,
              least == most ? "" : " or ", least == most ? "" : std::to_string(most));
}

void check_in(const char* op, const char* name, int64_t value, int64_t least, int64_t most) {
  TORCH_CHECK(value >= least && value <= most, op, ": ", name, " is ", value, ", expected ", least, " to ", most);
}

void check_absent(const char* op, const char* name, bool given) {
  TORCH_CHECK_NOT_IMPLEMENTED(!given, op, " does not support ", name);
}

void check_routing(const char* op, const Tensor& x, const Tensor& expert_idx, int64_t drop_pad_mode, int64_t capacity,
                   int64_t expert_num) {
  check_rank(op, "x", x, 2, 2);
  check_rank(op, "expert_idx", expert_idx, 2, 2);
  TORCH_CHECK(x.sym_size(0) == expert_idx.sym_size(0), op, ": expert_idx has ", expert_idx.sym_size(0),
              " rows, expected one for each of ", x.sym_size(0), " tokens");
  check_in(op, "drop_pad_mode", drop_pad_mode, 0, 1);
  TORCH_CHECK(drop_pad_mode == 0 || (capacity > 0 && expert_num > 0), op,
              ": drop_pad_mode 1 needs expert_capacity and expert_num");
}

void check_pairs(const char* op, const Tensor& sorted_indices, const c10::SymInt& choices) {
  check_rank(op, "sorted_indices", sorted_indices, 1, 1);
  TORCH_CHECK(choices > 0 && sorted_indices.sym_size(0) % choices == 0, op, ": sorted_indices has ",
              sorted_indices.sym_size(0), " numbers, expected ", choices, " for each token");
}

void check_routing_map(const char* op, const Tensor& tokens, const Tensor& routing_map,
                       const std::optional<Tensor>& probs) {
  check_rank(op, "tokens", tokens, 2, 2);
  check_rank(op, "routing_map", routing_map, 2, 2);
  TORCH_CHECK(routing_map.sym_size(0) == tokens.sym_size(0), op, ": routing_map has ", routing_map.sym_size(0),
              " rows, expected one for each of ", tokens.sym_size(0), " tokens");
  TORCH_CHECK(!probs || probs->sym_sizes() == routing_map.sym_sizes(), op, ": probs and routing_map differ in shape");
}

void check_restored(const char* op, at::IntArrayRef restore_shape, const std::optional<Tensor>& probs,
                    const std::optional<Tensor>& routing_map) {
  TORCH_CHECK(restore_shape.size() == 2, op, ": restore_shape has ", restore_shape.size(), " numbers, expected 2");
  TORCH_CHECK(!probs || routing_map, op, ": probs need a routing_map");
}

void check_init_routing(const char* op, int64_t expert_tokens_num_type, int64_t quant_mode, int64_t row_idx_type,
                        int64_t drop_pad_mode, std::array<int64_t, 2> range) {
  check_in(op, "expert_tokens_num_type", expert_tokens_num_type, 0, 2);
  check_in(op, "row_idx_type", row_idx_type, 0, 1);
  TORCH_CHECK_NOT_IMPLEMENTED(quant_mode >= -1 && quant_mode <= 1, op, " does not support quant_mode ", quant_mode);
  TORCH_CHECK(range[1] > range[0], op, ": neither expert_num nor active_expert_range says how many experts there are");
  TORCH_CHECK(drop_pad_mode == 0 || (expert_tokens_num_type == 1 && row_idx_type == 0), op,
              ": drop_pad_mode 1 needs expert_tokens_num_type 1 and row_idx_type 0");
}

void check_scale(const char* op, const Tensor& x, const std::optional<Tensor>& scale,
                 const std::optional<Tensor>& offset, int64_t quant_mode) {
  TORCH_CHECK(quant_mode == 0 || !offset, op, ": offset is for quant_mode 0, not ", quant_mode);
  TORCH_CHECK(quant_mode != 0 || scale, op, ": quant_mode 0 needs a scale");
  if (!scale) return;
  if (quant_mode == 0) {
    TORCH_CHECK(scale->sym_numel() == 1 && (!offset || offset->sym_numel() == 1), op,
                ": scale and offset have one number in quant_mode 0");
  } else if (quant_mode == 1) {
    TORCH_CHECK(scale->dim() == 2 && scale->sym_size(1) == x.sym_size(1), op,
                ": scale has a row for each expert, or one, in quant_mode 1");
  } else {
    TORCH_CHECK(scale->dim() == 1 && scale->sym_size(0) == x.sym_size(0), op,
                ": scale has a number for each token where nothing is quantized");
  }
}

void check_finalize(const char* op, const Tensor& rows, const Tensor& places, const std::optional<Tensor>& bias,
                    const std::optional<Tensor>& scales, const std::optional<Tensor>& experts, int64_t drop_pad_mode,
                    int64_t k) {
  check_in(op, "drop_pad_mode", drop_pad_mode, 0, 3);
  const bool padded = drop_pad_mode % 2 == 1;
  check_rank(op, "expanded_permuted_rows", rows, padded ? 3 : 2, padded ? 3 : 2);
  TORCH_CHECK(!bias || experts, op, ": bias needs export_for_source_row");
  TORCH_CHECK_NOT_IMPLEMENTED(!bias || !padded, op, " does not support bias with drop_pad_mode ", drop_pad_mode);
  if (scales) {
    check_rank(op, "scales", *scales, 2, 2);
    TORCH_CHECK(scales->sym_numel() == places.sym_numel(), op, ": scales has ", scales->sym_numel(),
                " numbers, expected one for each of ", places.sym_numel(), " rows");
  } else {
    TORCH_CHECK(k > 0 && places.sym_numel() % k == 0, op, ": k is ", k, ", but expanded_src_to_dst_row has ",
                places.sym_numel(), " numbers");
  }
}

c10::SymInt permuted_rows(const Tensor& indices, std::optional<int64_t> num_out_tokens) {
  const c10::SymInt asked = num_out_tokens.value_or(0), all = indices.sym_numel();
  return asked > 0 ? asked.min(all) : (asked + all).max(0);
}

c10::SymInt choices_of(const Tensor& indices) { return indices.dim() == 1 ? c10::SymInt(1) : indices.sym_size(1); }

c10::SymInt mapped_rows(const Tensor& tokens, const Tensor& routing_map, std::optional<int64_t> num_out_tokens,
                        bool padded) {
  const c10::SymInt asked = num_out_tokens ? c10::SymInt(*num_out_tokens) : tokens.sym_size(0);
  const auto unit = routing_map.sym_size(padded ? 1 : 0);
  return unit == 0 ? c10::SymInt(0) : asked / unit * unit;
}

Dims expanded_rows(const Tensor& x, const Tensor& expert_idx, int64_t active_num, int64_t expert_num, int64_t capacity,
                   bool padded, bool with_width) {
  if (padded) return with_width ? Dims{expert_num, capacity, x.sym_size(1)} : Dims{c10::SymInt(expert_num * capacity)};
  const auto pairs = expert_idx.sym_numel();
  const auto rows = active_num > 0 ? pairs.min(active_num) : pairs;
  return with_width ? Dims{rows, x.sym_size(1)} : Dims{rows};
}

Dims counted_tokens(int64_t type, int64_t expert_num, at::IntArrayRef range) {
  if (type == 2) return {expert_num, 2};
  const auto [first, end] = expert_range(range, expert_num);
  return {c10::SymInt(end - first)};
}

c10::SymInt finalized_rows(const Tensor& places, const std::optional<Tensor>& scales, std::optional<int64_t> k) {
  if (scales) return scales->sym_size(0);
  return places.sym_numel() / std::max<int64_t>(k.value_or(1), 1);
}

Tensor order_of(const Tensor& sorted_indices, bool padded) {
  return padded ? at::argsort(sorted_indices, /*stable=*/true).to(sorted_indices.scalar_type()) : sorted_indices;
}

Tensor owners_of(const Tensor& sorted_indices, bool padded) {
  return padded ? std::get<0>(at::sort(sorted_indices)) : sorted_indices;
}

std::array<int64_t, 2> expert_range(at::IntArrayRef range, int64_t expert_num) {
  if (range.empty()) return {0, expert_num};
  TORCH_CHECK(range.size() == 2 && range[0] >= 0 && range[0] < range[1],
              "npu_moe_init_routing_v2: active_expert_range is ", range, ", expected the first expert and the end");
  return {range[0], range[1]};
}

}  // namespace npu::ops
