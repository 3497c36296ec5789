// Mixture of experts: choosing experts, sorting tokens by expert and putting them back. A pair is a token and one of
// the experts that it goes to; pairs are counted token by token. Sums are float32; a result is rounded once.
#pragma once

#include <ATen/TensorOperators.h>

#include "kernels/families/normalization.h"

namespace softnpu::kernels {

// ---- Gates: moe_gate.cpp. Of equal scores the first expert wins.

// A finished token goes to the expert behind the last. `scores` gets the softmax over all experts; `renorm`: the
// weights are a softmax over the chosen ones. `rows` gets the number of each pair, counted choice by choice.
void gating_top_k_softmax(const Tensor& weights, const Tensor& experts, const Optional& rows, const Optional& scores,
                          const Tensor& x, const Optional& finished, int64_t k, bool renorm);

struct Gate {
  int64_t k_group, group_count, group_select_mode;  // mode 0: a group counts as its best score, 1: as its two best
  bool renorm;
  int64_t norm_type;  // 0: softmax, 1: sigmoid
  double scaling, eps;
};
void gating_top_k(const Tensor& weights, const Tensor& experts, const Tensor& scores, const Tensor& x,
                  const Optional& bias, int64_t k, const Gate& gate, bool keep_scores);
void gating_top_k_backward(const Tensor& grad_x, const Tensor& scores, const Tensor& grad_weights,
                           const Tensor& experts, bool renorm, int64_t norm_type, double scaling, double eps);

// ---- Routing: moe_routing.cpp

void init_routing(const Tensor& expanded_x, const Tensor& places, const Tensor& sorted_experts, const Tensor& x,
                  const Tensor& rows, const Tensor& experts);

struct Routing {
  int64_t first, end;  // experts of this rank
  int64_t capacity;    // tokens that an expert takes; 0 for all
  bool by_source;      // the indices say where a row came from instead of where a pair went
  int64_t quant_mode;  // -1 none, 0 with the scale that is given, 1 with a scale for each row
};
// Without a range all of them.
std::array<int64_t, 2> own_experts(at::IntArrayRef range, int64_t experts);
enum class Counts { none, ends, counts, pairs };  // `pairs`: (expert, its tokens) of the experts that have some
void init_routing(const Tensor& expanded_x, const Tensor& indices, const Optional& counted, const Optional& scales,
                  const Tensor& x, const Tensor& experts, const Optional& scale, const Optional& offset,
                  const Routing& routing, Counts how);

void expert_tokens(const Tensor& ends, const Tensor& sorted_experts, int64_t experts);
// Adds up a token's rows, which lie choice by choice or (`by_token`) token by token. A row of number -1 was dropped.
void finalize_routing(const Tensor& out, const Tensor& rows, const Tensor& places, const Optional& skip1,
                      const Optional& skip2, const Optional& bias, const Optional& scales, const Optional& experts,
                      bool by_token);
// Rows that lie by rank and expert, brought into the order of expert and rank.
void re_routing(const Tensor& out, const Tensor& out_scales, const Tensor& source, const Tensor& counts,
                const Tensor& tokens, const Tensor& per_rank, const Optional& scales);
// Table row e: how many copies of expert e there are, then the copies.
void update_expert(const Tensor& out, const Tensor& out_mask, const Tensor& experts, const Tensor& table,
                   const Optional& scales, const Optional& threshold, const Optional& active, int64_t rank,
                   int64_t world_size, bool by_token);

// ---- Tokens: moe_tokens.cpp. Places of pairs in the order of experts; one behind the last row was dropped.

void token_permute(const Tensor& out, const Tensor& places, const Tensor& tokens, const Tensor& experts);
void token_permute_backward(const Tensor& grad_tokens, const Tensor& grad, const Tensor& places, int64_t choices);
void token_unpermute(const Tensor& out, const Tensor& rows, const Tensor& places, const Optional& probs);
void token_unpermute_backward(const Tensor& grad_rows, const Optional& grad_probs, const Optional& rows,
                              const Tensor& grad, const Tensor& places, const Optional& probs);

// With a map [tokens, experts] of which token goes where. With `padded`, each expert takes as many tokens and
// `indices` names the token of each row; without, it is the place of each pair.
void map_permute(const Tensor& out, const Optional& out_probs, const Tensor& indices, const Tensor& tokens,
                 const Tensor& map, const Optional& probs, bool padded);
void map_permute_backward(const Tensor& grad_tokens, const Optional& grad_probs, const Tensor& grad,
                          const Optional& grad_out_probs, const Tensor& indices, const Tensor& map, bool padded);
// `order` and `owners`: row and token of each pair, token by token. `pair_probs` in the order of `indices`.
void map_unpermute(const Tensor& out, const Tensor& order, const Tensor& owners, const Optional& pair_probs,
                   const Tensor& rows, const Tensor& indices, const Optional& map, const Optional& probs, bool padded);
void map_unpermute_backward(const Tensor& grad_rows, const Optional& grad_probs, const Tensor& grad,
                            const Tensor& order, const Tensor& owners, const Optional& map, const Optional& rows,
                            const Optional& probs, bool padded);

}  // namespace softnpu::kernels

namespace softnpu::kernels::require {

// Two-dimensional experts, one row for each of x.
void routed(const Tensor& x, const Tensor& experts);
using softnpu::kernels::own_experts;
void chosen(int64_t k, int64_t experts);
void gate(const Tensor& x, int64_t k, const Gate& gate);
// Pairs, and rows of tokens for them.
void pairs(const Tensor& places, int64_t choices, int64_t tokens);

}  // namespace softnpu::kernels::require
