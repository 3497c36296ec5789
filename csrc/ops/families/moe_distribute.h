// Tokens that go to the cards of their experts and come back: sizes of what arrives, and what the rows of
// csrc/ops/tables/moe_distribute.yaml refuse. Sizes may be symbolic.
#pragma once

#include "aclnn/op.h"
#include "ops/families/moe.h"
#include "ops/families/quant.h"

namespace npu::ops {

// Where the experts are, as the arguments say.
struct ExpertCards {
  int64_t ranks, rank, experts, shared, shared_ranks, shard_type, tp_ranks;
};
void check_cards(const char* op, const ExpertCards& cards, const Tensor& tokens, const Tensor& expert_ids);
void check_dispatch(const char* op, const Tensor& x, const std::optional<Tensor>& scales, int64_t quant_mode,
                    int64_t nums_type);

inline c10::SymInt whole_batch(const Tensor& expert_ids, int64_t ranks, int64_t global_bs) {
  return global_bs ? c10::SymInt(global_bs) : expert_ids.sym_size(0) * ranks;
}
int64_t local_experts(const ExpertCards& cards);
// The rows that may arrive at this card. `spread`: the second version has room for a shared expert whose cards do not
// divide all cards.
c10::SymInt arriving_rows(const ExpertCards& cards, const Tensor& expert_ids, int64_t global_bs, bool spread);
// Of ep_recv_counts; with `hierarchical`, where weights go along, it has room for two numbers of each pair and server.
c10::SymInt arriving_counts(const ExpertCards& cards, const Tensor& expert_ids, int64_t global_bs, bool hierarchical);
inline int64_t tp_rows(const ExpertCards& cards) { return cards.tp_ranks > 1 ? cards.tp_ranks : 1; }

}  // namespace npu::ops
