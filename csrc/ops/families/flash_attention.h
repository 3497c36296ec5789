// The attention operators of training, npu_fusion_attention and its kin: what their rows share.
//
// Note [Dropout of attention]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A mask of one bit a score is drawn on the device from (seed, offset), which the operator returns as numbers, and the
// gradient draws it again. A call that gives none (0 and 0) takes them from the default generator; its offset is never
// 0. So (0, 0) in a gradient means that nobody drew: a traced graph, whose forward pass could not know. It is refused.
// The third version returns them as tensors of the card, which a traced graph hands on.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "ops/results.h"

namespace npu::ops {

using at::Tensor;

struct FlashAttention {
  const char* op;
  const Tensor &query, &key, &value;
  int64_t heads;
  std::string layout;
  std::optional<Tensor> pse, padding_mask, atten_mask;
  double scale, keep_prob;
  int64_t pre_tokens, next_tokens, inner_precise;
  at::OptionalIntArrayRef prefix, q_ends, kv_ends;
  int64_t sparse_mode;
  std::string softmax_layout;
  std::optional<Tensor> sink;
  int64_t seed = 0, offset = 0;
  std::optional<Tensor> dropout_mask = {};
  bool second = false;  // the second version of the operator, which has a pse_type
  int64_t pse_type = 1;
  std::optional<Tensor> query_rope = {}, key_rope = {};
  bool fifth = false;         // rows in the fifth version of the operator, the one whose workspace a graph may give
  bool unknown_ends = false;  // q_ends and kv_ends are tensors without data
  std::optional<Tensor> seed_tensor = {}, offset_tensor = {};

  void check();
  results::Result out() const;
  results::Result statistics() const;  // the maximum or the sum of each row's softmax
  results::Result state() const;       // seed or offset as a tensor
  int64_t scores() const;              // how many dropout may hide; 0 without dropout

  void forward(const Tensor& max, const Tensor& sum, const Tensor& softmax, const Tensor& out);
  void tell(const Tensor& seed_out, const Tensor& offset_out) const;
  // `dpse`, `dsink` and the gradients of the rotary parts have no elements where there is no such input.
  struct Gradients {
    const Tensor &query, &key, &value, &pse, &sink;
    std::optional<Tensor> query_rope = {}, key_rope = {};
  };
  struct Saved {
    const std::optional<Tensor>&max, &sum, &softmax, &out;
  };
  void backward(const Gradients& gradients, const Tensor& dy, const Saved& saved);

 private:
  bool in_a_row() const { return layout == "TND"; }
  void draw();
  std::optional<Tensor> drop_mask();
};

// What a node kept of the argument `dropout_mask`: a gradient cannot be told of it.
void check_no_dropout_mask(const char* op, const std::optional<Tensor>& dropout_mask);
// Places of a bias that pse_type 2 and 3 make, which is not supported.
void check_no_starts(const char* op, const at::OptionalIntArrayRef& q_start_idx,
                     const at::OptionalIntArrayRef& kv_start_idx);
void check_ring(const Tensor& prev, const Tensor& statistic, const Tensor& cur, at::ArrayRef<Tensor> statistics,
                const std::optional<Tensor>& ends, std::string_view layout, std::string_view softmax_layout);
void check_parts(at::TensorList lse, at::TensorList outs, int64_t update_type);
// A list that a node kept.
inline at::OptionalIntArrayRef list(const std::optional<std::vector<int64_t>>& kept) {
  return kept ? at::OptionalIntArrayRef(*kept) : at::OptionalIntArrayRef();
}
inline at::OptionalSymIntArrayRef list(const std::optional<std::vector<c10::SymInt>>& kept) {
  return kept ? at::OptionalSymIntArrayRef(*kept) : at::OptionalSymIntArrayRef();
}
std::optional<std::vector<int64_t>> numbers(const at::OptionalSymIntArrayRef& symbols);
// The ends of sequences from a tensor of integers; nothing, if `on` is on no card. One on the CPU is not waited for.
std::optional<std::vector<int64_t>> read_ends(const char* op, const char* argument, const std::optional<Tensor>& ends,
                                              const Tensor& on);
inline Tensor only_if(bool condition, const Tensor& t) { return condition ? t : Tensor(); }
// The gradient of something that may be absent.
inline results::Result like_or_none(const std::optional<Tensor>& t, at::ScalarType dtype) {
  return t ? results::like(*t) : results::none(dtype);
}

}  // namespace npu::ops
