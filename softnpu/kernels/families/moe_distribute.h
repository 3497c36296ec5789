// Tokens go to the cards of their experts, and come back: a kernel, an exchange of equal blocks between the cards, and
// a kernel. A block has room for all rows that one card can send to another.
#pragma once

#include "kernels/engine/collective.h"

namespace softnpu::kernels {

using Optional = std::optional<Tensor>;

// Where the experts are: first the cards of shared experts, which every token goes to, then the others.
struct Experts {
  int64_t ranks, rank, count, shared, shared_ranks;
  int64_t tokens, choices;  // of a card, at most

  int64_t on_each() const { return count / (ranks - shared_ranks); }       // of the cards behind the shared ones
  int64_t local() const { return rank < shared_ranks ? 1 : on_each(); }    // on this card
  int64_t replicas() const { return shared ? shared_ranks / shared : 0; }  // of a shared expert
  int64_t slots() const { return tokens * std::max<int64_t>(std::min(on_each(), choices), shared_ranks > 0); }
};

// Checks what it is made of. `batch` is that of all cards, or zero for as many tokens on each as here.
Experts experts_on(const Tensor& expert_ids, int64_t ranks, int64_t rank, int64_t count, int64_t shared,
                   int64_t shared_ranks, int64_t shard_type, int64_t tp_ranks, int64_t batch);

// Of the workspace: the blocks that are sent and those that arrive, for rows as `rows` has them.
uint64_t exchange_bytes(const Experts& experts, const Tensor& rows);

// ---- Dispatch. quant_mode 0: rows as they are; 1: int8 by the scales; 2: int8 by scales and a scale of each row.

struct Received {
  Tensor &rows, &row_scales, &places, &expert_tokens, &counts, &tp_counts, &weights;
};
void send_tokens(const Call& call, const Experts& experts, const Tensor& x, const Tensor& expert_ids,
                 const Optional& scales, const Optional& mask, const Optional& weights, int64_t quant_mode,
                 int64_t special = 0);
// Rows by expert, then by the card that they came from. `places`: which row of its expert's a pair of token and choice
// is, among those of this card. `counts`: the ends of the rows of each expert and card.
void receive_tokens(const Call& call, const Experts& experts, const Received& out, const Tensor& expert_ids,
                    const Optional& mask, bool each);

// ---- Combine

// Experts behind the others that are no networks: nothing, the token itself, and alpha1 * token + alpha2 * v.
struct Special {
  int64_t zero, copy, constant;
  Optional tokens, alpha1, alpha2, v;
};
void send_results(const Call& call, const Experts& experts, const Tensor& rows, const Tensor& ends);
// float32 sums over the choices, times their weights; shared experts and `added` without.
Tensor combined(const Call& call, const Experts& experts, const Tensor& rows, const Tensor& expert_ids,
                const Tensor& places, const Tensor& weights, const Optional& mask, const Optional& added,
                const Special& special = {});
void add_and_norm(Tensor& y, Tensor& rstd, Tensor& sum, const Tensor& x, const Tensor& residual, const Tensor& gamma,
                  double eps);

namespace require {

void dispatch(Call& call, const Experts& experts, const Tensor& x, const Tensor& expert_ids, const Optional& scales,
              const Optional& mask, const Optional& weights, int64_t quant_mode, int64_t nums_type,
              const Received& out);
void combine(Call& call, const Experts& experts, const Tensor& rows, const Tensor& expert_ids, const Tensor& places,
             const Tensor& ends, const Tensor& weights, const Optional& mask, const Optional& added,
             int64_t comm_quant_mode, const Special& special = {});
void no_dequantisation(const Optional& activation_scale, const Optional& weight_scale, const Optional& group_list);

}  // namespace require
}  // namespace softnpu::kernels
