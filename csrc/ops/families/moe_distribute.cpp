#include "ops/families/moe_distribute.h"

namespace npu::ops {

void check_cards(const char* op, const ExpertCards& cards, const Tensor& tokens, const Tensor& expert_ids) {
  check_rank(op, "x", tokens, 2, 2), check_rank(op, "expert_ids", expert_ids, 2, 2);
  check_in(op, "ep_world_size", cards.ranks, 1, INT32_MAX);
  check_in(op, "ep_rank_id", cards.rank, 0, cards.ranks - 1);
  check_in(op, "shared_expert_rank_num", cards.shared_ranks, 0, cards.ranks - 1);
  check_in(op, "shared_expert_num", cards.shared, 0, INT32_MAX);
  check_in(op, "expert_shard_type", cards.shard_type, 0, 0);
  check_in(op, "tp_world_size", cards.tp_ranks, 0, 2);
  TORCH_CHECK(cards.shared_ranks ? cards.shared > 0 && cards.shared_ranks % cards.shared == 0 : cards.shared <= 1, op,
              ": shared_expert_rank_num is ", cards.shared_ranks, " and shared_expert_num ", cards.shared,
              ", expected a multiple of it, or 0 cards");
  TORCH_CHECK(cards.experts > 0 && cards.experts % (cards.ranks - cards.shared_ranks) == 0, op, ": moe_expert_num is ",
              cards.experts, ", expected a multiple of the ", cards.ranks - cards.shared_ranks, " cards for them");
}

void check_dispatch(const char* op, const Tensor& x, const std::optional<Tensor>& scales, int64_t quant_mode,
                    int64_t nums_type) {
  TORCH_CHECK(x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kFloat, op,
              ": x is ", x.scalar_type(), ", expected float16 or bfloat16");
  TORCH_CHECK_NOT_IMPLEMENTED(quant_mode >= 0 && quant_mode <= 2, op, " does not support quant_mode ", quant_mode,
                              ", only 0, 1 and 2");
  TORCH_CHECK(!scales || quant_mode, op, ": scales needs quant_mode 1 or 2");
  check_in(op, "expert_token_nums_type", nums_type, 0, 1);
}

int64_t local_experts(const ExpertCards& cards) {
  return cards.rank < cards.shared_ranks ? 1 : cards.experts / (cards.ranks - cards.shared_ranks);
}

c10::SymInt arriving_rows(const ExpertCards& cards, const Tensor& expert_ids, int64_t global_bs, bool spread) {
  const auto batch = whole_batch(expert_ids, cards.ranks, global_bs);
  if (cards.rank >= cards.shared_ranks) return batch * expert_ids.sym_size(1).min(local_experts(cards));
  if (!spread) return batch / cards.shared_ranks;
  const int64_t replicas = cards.shared_ranks / cards.shared;
  return batch / cards.ranks * ((cards.ranks + replicas - 1) / replicas);
}

c10::SymInt arriving_counts(const ExpertCards& cards, const Tensor& expert_ids, int64_t global_bs, bool hierarchical) {
  const c10::SymInt counts = cards.ranks * local_experts(cards);
  if (!hierarchical) return cards.tp_ranks == 2 ? counts * 2 : counts;
  return counts + whole_batch(expert_ids, cards.ranks, global_bs) * 2 * expert_ids.sym_size(1) * (cards.ranks / 8);
}

}  // namespace npu::ops
