#include "ops/families/flash_attention.h"

#include <ATen/ops/cat.h>
#include <c10/util/irange.h>

#include <algorithm>

#include "aclnn/op.h"
#include "ops/checks/custom.h"
#include "ops/tensor.h"
#include "runtime/generator.h"

namespace npu::ops {

namespace {

constexpr int64_t kRepeats = 8;  // of the softmax statistics

at::IntArrayRef given(const at::OptionalIntArrayRef& list) { return list ? *list : at::IntArrayRef(); }

c10::SymInt length(const Tensor& t, const std::string& layout) {
  return t.sym_size(layout == "BNSD" ? 2 : layout == "SBH" ? 0 : 1);
}

}  // namespace

void check_no_dropout_mask(const char* op, const std::optional<Tensor>& dropout_mask) {
  TORCH_CHECK(!dropout_mask, op, ": there is no gradient with dropout_mask; give seed and offset instead");
}

void check_no_starts(const char* op, const at::OptionalIntArrayRef& q_start_idx,
                     const at::OptionalIntArrayRef& kv_start_idx) {
  TORCH_CHECK(!q_start_idx && !kv_start_idx, op,
              ": q_start_idx and kv_start_idx place the bias of pse_type 2 and 3, which are not supported; give pse");
}

void check_ring(const Tensor& prev, const Tensor& statistic, const Tensor& cur, at::ArrayRef<Tensor> statistics,
                const std::optional<Tensor>& ends, std::string_view layout, std::string_view softmax_layout) {
  constexpr const char* kOp = "npu_ring_attention_update";
  check_one_of(kOp, "input_layout", layout, {"SBH", "TND"});
  check_one_of(kOp, "input_softmax_layout", softmax_layout, {"", "SBH", "TND"});
  const bool in_a_row = layout == "TND";
  TORCH_CHECK(!in_a_row || ends, kOp, ": input_layout TND needs actual_seq_qlen, the ends of the sequences");
  TORCH_CHECK(prev.dim() == 3 && prev.sym_sizes() == cur.sym_sizes() && prev.scalar_type() == cur.scalar_type(), kOp,
              ": prev_attn_out and cur_attn_out must have three dimensions, and one shape and type");
  TORCH_CHECK(statistic.dim() == (in_a_row ? 3 : 4), kOp, ": prev_softmax_max of layout ", layout, " must have ",
              in_a_row ? 3 : 4, " dimensions, but has ", statistic.dim());
  for (const auto& t : statistics)
    TORCH_CHECK(t.sym_sizes() == statistic.sym_sizes() && t.scalar_type() == at::kFloat &&
                    statistic.scalar_type() == at::kFloat,
                kOp, ": the softmax's maxima and sums must be float32 and of one shape");
}

void check_parts(at::TensorList lse, at::TensorList outs, int64_t update_type) {
  constexpr const char* kOp = "npu_attention_update";
  TORCH_CHECK(!lse.empty() && lse.size() == outs.size(), kOp, ": lse has ", lse.size(), " parts and local_out ",
              outs.size(), ", expected as many, and at least one");
  TORCH_CHECK(update_type == 0 || update_type == 1, kOp, ": update_type must be 0 or 1, not ", update_type);
}

std::optional<std::vector<int64_t>> numbers(const at::OptionalSymIntArrayRef& symbols) {
  if (!symbols) return std::nullopt;
  std::vector<int64_t> result;
  for (const auto& s : *symbols) result.push_back(s.guard_int(__FILE__, __LINE__));
  return result;
}

std::optional<std::vector<int64_t>> read_ends(const char* op, const char* argument, const std::optional<Tensor>& ends,
                                              const Tensor& on) {
  if (!ends) return std::nullopt;
  TORCH_CHECK(ends->dim() == 1 && c10::isIntegralType(ends->scalar_type(), false), op, ": ", argument,
              " must be a list of integers, a tensor of one dimension");
  if (!is_npu(on)) return std::nullopt;
  const auto host = ends->cpu().to(at::kLong).contiguous();
  return std::vector<int64_t>(host.const_data_ptr<int64_t>(), host.const_data_ptr<int64_t>() + host.numel());
}

void FlashAttention::check() {
  std::transform(layout.begin(), layout.end(), layout.begin(), [](unsigned char c) { return std::toupper(c); });
  check_one_of(op, "input_layout", layout, {"BSH", "SBH", "BSND", "BNSD", "TND"});  // any case
  check_one_of(op, "softmax_layout", softmax_layout, {"", "TND"});
  TORCH_CHECK(softmax_layout.empty() || in_a_row(), op, ": softmax_layout TND needs input_layout TND, not ", layout);
  TORCH_CHECK(heads > 0, op, ": head_num must be positive, but is ", heads);
  TORCH_CHECK(keep_prob > 0 && keep_prob <= 1, op, ": keep_prob must be above 0 and at most 1, but is ", keep_prob);
  TORCH_CHECK(sparse_mode >= 0 && sparse_mode <= 8, op, ": sparse_mode must be 0 to 8, not ", sparse_mode);
  TORCH_CHECK(sparse_mode < 7 || in_a_row(), op, ": sparse_mode ", sparse_mode, " needs input_layout TND, not ",
              layout);
  TORCH_CHECK(sparse_mode != 1 || atten_mask, op, ": sparse_mode 1 needs atten_mask");
  TORCH_CHECK(!padding_mask, op, ": padding_mask is not supported; hide the padding with atten_mask");
  TORCH_CHECK(pse_type == 0 || pse_type == 1, op, ": pse_type must be 0 or 1, not ", pse_type);
  const auto q = given(q_ends), kv = given(kv_ends);
  TORCH_CHECK(!in_a_row() || unknown_ends || (!q.empty() && q.size() == kv.size()), op,
              ": layout TND needs actual_seq_qlen and actual_seq_kvlen, the ends of the sequences, of one length");
  TORCH_CHECK(in_a_row() || (!unknown_ends && q.empty() && kv.empty()), op,
              ": actual_seq_qlen and actual_seq_kvlen need input_layout TND, not ", layout);
  const int64_t rank = layout.size() == 4 ? 4 : 3;
  for (const auto& [name, t] : {std::pair{"query", &query}, {"key", &key}, {"value", &value}})
    TORCH_CHECK(t->dim() == rank, op, ": ", name, " of layout ", layout, " must have ", rank, " dimensions, but has ",
                t->dim());
  if ((sparse_mode == 5 || sparse_mode == 6) && !unknown_ends) {
    const auto batch = in_a_row() ? c10::SymInt(static_cast<int64_t>(q.size())) : query.sym_size(layout == "SBH");
    TORCH_CHECK(batch == static_cast<int64_t>(given(prefix).size()), op, ": sparse_mode ", sparse_mode,
                " needs prefix, one number for each of the ", batch, " sequences");
  }
  TORCH_CHECK(query_rope.has_value() == key_rope.has_value(), op, ": query_rope and key_rope must be given together");
  TORCH_CHECK(!query_rope || rank == 4 || in_a_row(), op,
              ": query_rope needs a layout with a dimension for heads: BSND, BNSD or TND, not ", layout);
}

results::Result FlashAttention::out() const {
  auto sizes = results::dims(query);
  if (layout != "BSH" && layout != "SBH") {
    sizes.back() = value.sym_size(-1);
  } else if (query.sym_size(-1) != 0 && key.sym_size(-1) != 0) {
    // As many times value's width as query has more heads than key.
    sizes.back() = value.sym_size(-1) * query.sym_size(-1) / key.sym_size(-1);
  }
  return results::sized(std::move(sizes), query);
}

results::Result FlashAttention::statistics() const {
  if (in_a_row()) return results::sized({query.sym_size(0), heads, kRepeats}, at::kFloat);
  return results::sized({query.sym_size(layout == "SBH"), heads, length(query, layout), kRepeats}, at::kFloat);
}

results::Result FlashAttention::state() const {
  return keep_prob == 1 ? results::none(at::kLong) : results::sized({1}, at::kLong);
}

int64_t FlashAttention::scores() const {
  if (keep_prob == 1) return 0;
  if (!in_a_row())
    return (query.sym_size(layout == "SBH") * heads * length(query, layout) * length(key, layout))
        .guard_int(__FILE__, __LINE__);
  int64_t count = 0;
  const auto q = given(q_ends), kv = given(kv_ends);
  for (const auto i : c10::irange(q.size())) count += (q[i] - (i ? q[i - 1] : 0)) * (kv[i] - (i ? kv[i - 1] : 0));
  return count * heads;
}

void FlashAttention::draw() {
  if (keep_prob == 1 || dropout_mask || seed || offset) return;
  constexpr uint64_t kSkipped = 4;
  const auto state = philox_state(std::nullopt, 4 * static_cast<uint64_t>(scores()) + kSkipped);
  seed = static_cast<int64_t>(state.first);
  offset = static_cast<int64_t>(state.second + kSkipped);
}

void FlashAttention::tell(const Tensor& seed_out, const Tensor& offset_out) const {
  if (keep_prob == 1) return;
  seed_out.fill_(seed);
  offset_out.fill_(offset);
}

// One bit a score, in whole words of 128 bits.
std::optional<Tensor> FlashAttention::drop_mask() {
  if (keep_prob == 1) return std::nullopt;
  if (dropout_mask) return dropout_mask;
  const int64_t count = scores();
  const auto mask = empty({(count + 127) / 128 * 16}, at::kByte);
  const float dropped = 1.0F - static_cast<float>(keep_prob);
  if (seed_tensor && is_npu(*seed_tensor)) {
    NPU_EXEC(aclnnDropoutGenMaskV2Tensor, at::IntArrayRef(count), dropped, seed_tensor, offset_tensor, uint64_t{0},
             query.scalar_type(), mask);
    return mask;
  }
  if (seed_tensor) seed = seed_tensor->item<int64_t>(), offset = offset_tensor->item<int64_t>();
  NPU_EXEC(aclnnDropoutGenMaskV2, at::IntArrayRef(count), dropped, seed, offset, query.scalar_type(), mask);
  return mask;
}

// See the versions of the operator in abi/aclnn.yaml. The first ones add pse before scaling, as pse_type 1 does.
void FlashAttention::forward(const Tensor& max, const Tensor& sum, const Tensor& softmax, const Tensor& result) {
  draw();
  const auto mask = drop_mask();
  const auto ends = given(prefix), q = given(q_ends), kv = given(kv_ends);
  const at::IntArrayRef none;
  if (!in_a_row()) {
    const auto full_query = query_rope ? at::cat({query, *query_rope}, -1) : query;
    const auto full_key = key_rope ? at::cat({key, *key_rope}, -1) : key;
    if (sink)
      NPU_EXEC(aclnnFlashAttentionScoreV3, full_query, full_key, value, pse, mask, std::nullopt, atten_mask, sink, ends,
               none, none, scale, keep_prob, pre_tokens, next_tokens, heads, layout, inner_precise, sparse_mode,
               pse_type, max, sum, softmax, result);
    else if (second)
      NPU_EXEC(aclnnFlashAttentionScoreV2, full_query, full_key, value, pse, mask, std::nullopt, atten_mask, ends, none,
               none, scale, keep_prob, pre_tokens, next_tokens, heads, layout, inner_precise, sparse_mode, pse_type,
               max, sum, softmax, result);
    else
      NPU_EXEC(aclnnFlashAttentionScore, full_query, full_key, value, pse, mask, std::nullopt, atten_mask, ends, scale,
               keep_prob, pre_tokens, next_tokens, heads, layout, inner_precise, sparse_mode, max, sum, softmax,
               result);
    return;
  }
  const char* const order = softmax_layout.empty() ? "" : "same_as_input";
  if (fifth || sink || (!softmax_layout.empty() && (query_rope || pse_type != 1)))
    NPU_EXEC(aclnnFlashAttentionVarLenScoreV5, query, query_rope, key, key_rope, value, pse, mask, std::nullopt,
             atten_mask, sink, ends, q, kv, none, none, scale, keep_prob, pre_tokens, next_tokens, heads, layout,
             inner_precise, sparse_mode, pse_type, order, max, sum, softmax, result);
  else if (query_rope)
    NPU_EXEC(aclnnFlashAttentionVarLenScoreV3, query, query_rope, key, key_rope, value, pse, mask, std::nullopt,
             atten_mask, ends, q, kv, none, none, scale, keep_prob, pre_tokens, next_tokens, heads, layout,
             inner_precise, sparse_mode, pse_type, max, sum, softmax, result);
  else if (!softmax_layout.empty())
    NPU_EXEC(aclnnFlashAttentionVarLenScoreV4, query, key, value, pse, mask, std::nullopt, atten_mask, ends, q, kv,
             scale, keep_prob, pre_tokens, next_tokens, heads, layout, inner_precise, sparse_mode, order, max, sum,
             softmax, result);
  else if (second)
    NPU_EXEC(aclnnFlashAttentionVarLenScoreV2, query, key, value, pse, mask, std::nullopt, atten_mask, ends, q, kv,
             none, none, scale, keep_prob, pre_tokens, next_tokens, heads, layout, inner_precise, sparse_mode, pse_type,
             max, sum, softmax, result);
  else
    NPU_EXEC(aclnnFlashAttentionVarLenScore, query, key, value, pse, mask, std::nullopt, atten_mask, ends, q, kv, scale,
             keep_prob, pre_tokens, next_tokens, heads, layout, inner_precise, sparse_mode, max, sum, softmax, result);
}

void FlashAttention::backward(const Gradients& d, const Tensor& dy, const Saved& saved) {
  TORCH_CHECK(keep_prob == 1 || seed || offset || (seed_tensor && offset_tensor), op,
              ": keep_prob needs the seed and offset that the forward pass returned; a compiled program gets them from "
              "npu_fusion_attention_v3, or by giving the forward pass a seed");
  const auto mask = drop_mask();
  const auto ends = given(prefix), q = given(q_ends), kv = given(kv_ends);
  const at::IntArrayRef none;
  if (!in_a_row()) {
    const auto full_query = query_rope ? at::cat({query, *query_rope}, -1) : query;
    const auto full_key = key_rope ? at::cat({key, *key_rope}, -1) : key;
    const auto dq = query_rope ? empty_same(full_query, full_query.scalar_type()) : d.query;
    const auto dk = key_rope ? empty_same(full_key, full_key.scalar_type()) : d.key;
    if (sink)
      NPU_EXEC(aclnnFlashAttentionScoreGradV3, full_query, full_key, value, dy, pse, mask, std::nullopt, atten_mask,
               saved.max, saved.sum, saved.softmax, saved.out, sink, ends, none, none, scale, keep_prob, pre_tokens,
               next_tokens, heads, layout, inner_precise, sparse_mode, pse_type, dq, dk, d.value, d.pse, d.sink);
    else if (second)
      NPU_EXEC(aclnnFlashAttentionScoreGradV2, full_query, full_key, value, dy, pse, mask, std::nullopt, atten_mask,
               saved.max, saved.sum, saved.softmax, saved.out, ends, none, none, scale, keep_prob, pre_tokens,
               next_tokens, heads, layout, inner_precise, sparse_mode, pse_type, dq, dk, d.value, d.pse);
    else
      NPU_EXEC(aclnnFlashAttentionScoreGrad, full_query, full_key, value, dy, pse, mask, std::nullopt, atten_mask,
               saved.max, saved.sum, saved.softmax, saved.out, ends, scale, keep_prob, pre_tokens, next_tokens, heads,
               layout, inner_precise, sparse_mode, dq, dk, d.value, d.pse);
    if (query_rope) {
      const int64_t size = query.size(-1), more = query_rope->size(-1);
      d.query.copy_(dq.narrow(-1, 0, size)), d.query_rope->copy_(dq.narrow(-1, size, more));
      d.key.copy_(dk.narrow(-1, 0, size)), d.key_rope->copy_(dk.narrow(-1, size, more));
    }
    return;
  }
  const char* const order = softmax_layout.empty() ? "" : "same_as_input";
  // The first version has no rotary parts, and results without elements for them.
  const auto rope = [&](const std::optional<Tensor>& gradient) {
    if (!second) return empty({0}, query.scalar_type());
    return query_rope ? gradient.value_or(Tensor()) : Tensor();
  };
  if (fifth || sink || (!softmax_layout.empty() && (query_rope || pse_type != 1)))
    NPU_EXEC(aclnnFlashAttentionUnpaddingScoreGradV5, query, query_rope, key, key_rope, value, dy, pse, mask,
             std::nullopt, atten_mask, saved.max, saved.sum, saved.softmax, saved.out, sink, ends, q, kv, none, none,
             scale, keep_prob, pre_tokens, next_tokens, heads, layout, inner_precise, sparse_mode, pse_type, order,
             d.query, rope(d.query_rope), d.key, rope(d.key_rope), d.value, d.pse, d.sink);
  else if (query_rope)
    NPU_EXEC(aclnnFlashAttentionUnpaddingScoreGradV3, query, query_rope, key, key_rope, value, dy, pse, mask,
             std::nullopt, atten_mask, saved.max, saved.sum, saved.softmax, saved.out, ends, q, kv, none, none, scale,
             keep_prob, pre_tokens, next_tokens, heads, layout, inner_precise, sparse_mode, pse_type, d.query,
             d.query_rope, d.key, d.key_rope, d.value, d.pse);
  else if (!softmax_layout.empty())
    NPU_EXEC(aclnnFlashAttentionUnpaddingScoreGradV4, query, key, value, dy, pse, mask, std::nullopt, atten_mask,
             saved.max, saved.sum, saved.softmax, saved.out, ends, q, kv, scale, keep_prob, pre_tokens, next_tokens,
             heads, layout, inner_precise, sparse_mode, d.query, d.key, d.value, d.pse, order);
  else if (second)
    NPU_EXEC(aclnnFlashAttentionUnpaddingScoreGradV2, query, key, value, dy, pse, mask, std::nullopt, atten_mask,
             saved.max, saved.sum, saved.softmax, saved.out, ends, q, kv, none, none, scale, keep_prob, pre_tokens,
             next_tokens, heads, layout, inner_precise, sparse_mode, pse_type, d.query, d.key, d.value, d.pse);
  else
    NPU_EXEC(aclnnFlashAttentionUnpaddingScoreGrad, query, key, value, dy, pse, mask, std::nullopt, atten_mask,
             saved.max, saved.sum, saved.softmax, saved.out, ends, q, kv, scale, keep_prob, pre_tokens, next_tokens,
             heads, layout, inner_precise, sparse_mode, d.query, d.key, d.value, d.pse);
}

}  // namespace npu::ops
