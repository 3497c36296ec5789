// What fused attention requires of its arguments' shapes.
#include <c10/util/irange.h>

#include <algorithm>

#include "kernels/engine/require.h"
#include "kernels/families/attention.h"

namespace softnpu::kernels::attention {

namespace {

using require::that;

struct Sizes {
  int64_t batch, heads, length, size;  // TND: one batch, all rows
};

// `heads` for the layouts that do not tell.
Sizes sizes_of(const Tensor& t, const char* name, const std::string& layout, int64_t heads) {
  const int64_t rank = layout.size() == 4 ? 4 : 3;
  require::rank(t, name, rank, rank);
  if (layout == "BNSD") return {t.size(0), t.size(1), t.size(2), t.size(3)};
  if (layout == "BSND") return {t.size(0), t.size(2), t.size(1), t.size(3)};
  if (layout == "TND") return {1, t.size(1), t.size(0), t.size(2)};
  that(heads > 0 && t.size(2) % heads == 0, "the last sizes of query, key and value are not whole numbers of heads");
  if (layout == "BSH") return {t.size(0), heads, t.size(1), t.size(2) / heads};
  return {t.size(1), heads, t.size(0), t.size(2) / heads};
}

// The longest sequence.
int64_t check_ends(IntArrayRef ends, const char* text, int64_t rows) {
  int64_t before = 0, longest = 0;
  for (const auto end : ends) {
    that(end >= before && end <= rows, text);
    longest = std::max(longest, end - before);
    before = end;
  }
  return longest;
}

// What is broadcast over scores of these sizes; a part of it is taken for the shorter sequences of TND.
void spreads_over(const Optional& t, const char* name, IntArrayRef sizes, bool in_parts) {
  if (!t || !t->defined()) return;
  require::rank(*t, name, in_parts ? 2 : 0, static_cast<int64_t>(sizes.size()));
  std::vector<int64_t> expected(sizes.end() - t->dim(), sizes.end());
  for (const auto d : c10::irange(t->dim()))
    if (t->size(d) == 1 || (in_parts && d >= t->dim() - 2 && t->size(d) > expected[d])) expected[d] = t->size(d);
  require::shape(t, name, expected);
}

void check_drops(const Inputs& in, IntArrayRef scores, bool in_a_row, int64_t count) {
  that(in.keep_prob > 0 && in.keep_prob <= 1, "argument 'keep_prob' is not above 0 and at most 1");
  if (!in.drop_mask || in.keep_prob == 1) return;
  const auto& mask = *in.drop_mask;
  that(mask.scalar_type() == at::kByte || mask.scalar_type() == at::kBool, "argument 'drop_mask' is not uint8");
  if (mask.dim() > 1) {
    that(!in_a_row, "argument 'drop_mask' of layout TND is not one row of bits");
    return spreads_over(mask, "drop_mask", scores, false);
  }
  that(mask.is_contiguous() && mask.numel() * 8 >= count, "argument 'drop_mask' has fewer bits than there are scores");
}

}  // namespace

void check(const Inputs& in, std::initializer_list<Optional> results, const Statistics& statistics) {
  const auto& layout = in.layout;
  const bool in_a_row = layout == "TND";
  that(layout == "BNSD" || layout == "BSND" || layout == "BSH" || layout == "SBH" || in_a_row,
       "argument 'input_layout' is not one of BNSD, BSND, BSH, SBH, TND");
  that(in_a_row == !in.q_ends.empty() && in.q_ends.size() == in.kv_ends.size(),
       "argument 'input_layout' is TND without the ends of its sequences, or another one with them");
  require::one_type({in.query, in.key, in.value});
  const Sizes q = sizes_of(in.query, "query", layout, in.heads);
  that(q.heads == in.heads && in.heads > 0, "argument 'head_num' is not the number of query's heads");
  require::rank(in.key, "key", in.query.dim(), in.query.dim());
  const int64_t kv_heads = layout == "BNSD" || in_a_row ? in.key.size(1)
                           : layout == "BSND"           ? in.key.size(2)
                           : q.size > 0                 ? in.key.size(2) / q.size
                                                        : 0;
  that(kv_heads > 0 && in.heads % kv_heads == 0, "the number of key's heads does not divide that of query's");
  const Sizes k = sizes_of(in.key, "key", layout, kv_heads), v = sizes_of(in.value, "value", layout, kv_heads);
  that(k.batch == q.batch && k.size == q.size, "key has another batch or size of heads than query");
  that(v.batch == k.batch && v.heads == k.heads && v.length == k.length,
       "value has another batch, length or number of heads than key");
  const int64_t last = layout.size() == 4 || in_a_row ? v.size : v.size * in.heads;
  for (const auto& result : results)
    if (result && result->numel()) require::last_sizes(*result, "attention_out or dy", in.query, {last});

  const int64_t sequences = in_a_row ? static_cast<int64_t>(in.q_ends.size()) : q.batch;
  const int64_t rows =
      in_a_row ? check_ends(in.q_ends, "actual_seq_qlen does not rise within query", q.length) : q.length;
  const int64_t columns =
      in_a_row ? check_ends(in.kv_ends, "actual_seq_kvlen does not rise within key", k.length) : k.length;
  const std::vector<int64_t> scores{sequences, q.heads, rows, columns};
  spreads_over(in.pse, "pse", scores, in_a_row);
  that(in.pse_type == 0 || in.pse_type == 1, "argument 'pse_type' is not 0 or 1");
  that(in.sparse_mode >= 0 && in.sparse_mode <= 8, "argument 'sparse_mode' is not one of 0 to 8");
  that(in.sparse_mode != 1 || in.atten_mask, "sparse_mode 1 needs an atten_mask");
  if (in.sparse_mode < 2) spreads_over(in.atten_mask, "atten_mask", scores, in_a_row);
  if (in.sparse_mode == 5 || in.sparse_mode == 6)
    that(static_cast<int64_t>(in.prefix.size()) == sequences, "argument 'prefix' has not one number for each sequence");
  int64_t count = sequences * q.heads * rows * columns;
  if (in_a_row) {
    count = 0;
    for (const auto i : c10::irange(in.q_ends.size()))
      count += (in.q_ends[i] - (i ? in.q_ends[i - 1] : 0)) * (in.kv_ends[i] - (i ? in.kv_ends[i - 1] : 0));
    count *= q.heads;
  }
  check_drops(in, scores, in_a_row, count);
  if (in.sink) require::numbers(in.sink, "sink", in.heads);
  if (in.sink) require::rank(*in.sink, "sink", 1, 1);
  that(in.query_rope.has_value() == in.key_rope.has_value(), "query_rope and key_rope are not given together");
  if (in.query_rope) {
    that(layout.size() == 4 || in_a_row, "query_rope needs a layout with a dimension for heads");
    require::rank(*in.query_rope, "query_rope", in.query.dim(), in.query.dim());
    require::last_sizes(*in.query_rope, "query_rope", in.query, {in.query_rope->size(-1)});
    require::last_sizes(*in.key_rope, "key_rope", in.key, {in.query_rope->size(-1)});
  }
  for (const auto& t : {statistics.max, statistics.sum}) {
    if (!t || t->numel() == 0) continue;
    require::rank(*t, "softmax_max or softmax_sum", in_a_row ? 3 : 4, in_a_row ? 3 : 4);
    std::vector<int64_t> expected{q.batch, q.heads, q.length, t->size(-1)};
    if (in_a_row) expected = {q.length, q.heads, t->size(-1)};
    require::shape(t, "softmax_max or softmax_sum", expected);
    that(t->scalar_type() == at::kFloat, "softmax_max or softmax_sum is not float32");
    that(!in_a_row || t->is_contiguous(), "softmax_max or softmax_sum is not contiguous");
    if (statistics.max) require::numbers(t, "softmax_sum", statistics.max->numel());
  }
}

void no_padding(const Optional& padding_mask) {
  that(!padding_mask || !padding_mask->numel(), "argument 'padding_mask' is not supported");
}

// Places of a bias that the operator makes itself, with a pse_type above 1; the official client gives {0} otherwise.
void no_starts(IntArrayRef q_start_idx, IntArrayRef kv_start_idx) {
  for (const auto starts : {q_start_idx, kv_start_idx})
    that(std::all_of(starts.begin(), starts.end(), [](int64_t i) { return i == 0; }),
         "q_start_idx and kv_start_idx are not supported");
}

void check(const Inputs& in, const Gradients& gradients, const Tensor& dy, const Optional& out,
           const Statistics& statistics) {
  check(in, {dy, out}, statistics);
  const auto like = [](const Optional& t, const char* name, const Optional& other) {
    if (t && t->numel()) that(other.has_value(), "a gradient is asked for of an argument that is not given");
    if (t && t->numel()) require::like(t, name, *other);
  };
  require::like(gradients.query, "dq", in.query);
  require::like(gradients.key, "dk", in.key);
  require::like(gradients.value, "dv", in.value);
  that(dy.numel() || !in.query.numel(), "dy is empty");
  like(gradients.pse, "dpse", in.pse);
  like(gradients.sink, "dsink", in.sink);
  that(!in.query_rope || (gradients.query_rope && gradients.key_rope), "dq_rope or dk_rope is missing");
  if (in.query_rope) require::like(gradients.query_rope, "dq_rope", *in.query_rope);
  if (in.query_rope) require::like(gradients.key_rope, "dk_rope", *in.key_rope);
}

}  // namespace softnpu::kernels::attention
