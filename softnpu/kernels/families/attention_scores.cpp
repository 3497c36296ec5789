#include "kernels/families/attention_scores.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <bit>
#include <limits>

namespace softnpu::kernels::attention {

namespace {

constexpr int64_t kFar = int64_t{1} << 40;  // more tokens than any sequence has

constexpr float kHidden = -std::numeric_limits<float>::infinity();

// Without a branch for each score, as masked_fill_ has: masks are hard to predict.
void hide_marked(const Tensor& scores, const Tensor& given) {
  const auto mask = (given.element_size() == 1 ? given : given.to(at::kBool)).expand_as(scores);
  const auto* const marks = static_cast<const uint8_t*>(mask.const_data_ptr());
  auto* const numbers = scores.mutable_data_ptr<float>();
  const int64_t columns = scores.size(1), row_step = mask.stride(0), step = mask.stride(1);
  for (const auto row : c10::irange(scores.size(0))) {
    auto* const line = numbers + row * columns;
    const auto* const m = marks + row * row_step;
    for (int64_t j = 0; j < columns; j++) {
      const auto hidden = -static_cast<uint32_t>(m[j * step] != 0);  // all bits, or none
      line[j] = std::bit_cast<float>((std::bit_cast<uint32_t>(line[j]) & ~hidden) |
                                     (std::bit_cast<uint32_t>(kHidden) & hidden));
    }
  }
}

Tensor four_dimensions(Tensor t) {
  while (t.dim() < 4) t = t.unsqueeze(0);
  return t;
}

}  // namespace

Heads::Heads(const Tensor& t, const std::string& layout, int64_t heads, IntArrayRef ends)
    : in_a_row_(layout == "TND"), ends_(ends) {
  if (layout == "BNSD")
    view_ = t;
  else if (layout == "BSND")
    view_ = t.transpose(1, 2);
  else if (layout == "BSH")
    view_ = t.unflatten(2, {heads, t.size(2) / heads}).transpose(1, 2);
  else if (layout == "SBH")
    view_ = t.unflatten(2, {heads, t.size(2) / heads}).permute({1, 2, 0, 3});
  else
    view_ = t.transpose(0, 1).unsqueeze(0);
}

int64_t Heads::sequences() const { return in_a_row_ ? static_cast<int64_t>(ends_.size()) : view_.size(0); }
int64_t Heads::begin(int64_t sequence) const { return in_a_row_ && sequence ? ends_[sequence - 1] : 0; }
int64_t Heads::rows(int64_t sequence) const { return in_a_row_ ? ends_[sequence] - begin(sequence) : view_.size(2); }

Tensor Heads::at(int64_t sequence, int64_t head) const {
  if (!in_a_row_) return view_.select(0, sequence).select(0, head);
  return view_.select(0, 0).select(0, head).slice(0, begin(sequence), ends_[sequence]);
}

Tensor Heads::all(int64_t sequence) const {
  return in_a_row_ ? view_.slice(2, begin(sequence), ends_[sequence]) : view_;
}

Rows::Rows(const Tensor& t, const Heads& query, const std::string& softmax_layout) : t_(t), query_(query) {
  order_ = t.dim() == 4 ? kBatches : softmax_layout.empty() ? kEachSequence : kInARow;
}

Tensor Rows::at(int64_t sequence, int64_t head) const {
  if (order_ == kBatches) return t_.select(0, sequence).select(0, head);
  const int64_t begin = query_.begin(sequence), rows = query_.rows(sequence);
  if (order_ == kInARow) return t_.slice(0, begin, begin + rows).select(1, head);
  const int64_t first = begin * query_.heads() + head * rows;
  return t_.flatten(0, 1).slice(0, first, first + rows);
}

Tensor Rows::all(int64_t sequence) const {
  if (order_ == kBatches) return t_;
  const int64_t begin = query_.begin(sequence), rows = query_.rows(sequence), heads = query_.heads();
  if (order_ == kInARow) return t_.slice(0, begin, begin + rows).transpose(0, 1).unsqueeze(0);
  return t_.flatten(0, 1).slice(0, begin * heads, (begin + rows) * heads).unflatten(0, {heads, rows}).unsqueeze(0);
}

Problem::Problem(const Inputs& inputs) : in(inputs) {
  const auto& layout = in.layout;
  query = Heads(in.query, layout, in.heads, in.q_ends);
  const int64_t size = layout.size() == 3 && layout != "TND" ? in.query.size(2) / in.heads : 1;
  const int64_t kv_heads = size ? in.key.size(2) / size : 1;  // of BSH and SBH
  key = Heads(in.key, layout, kv_heads, in.kv_ends);
  value = Heads(in.value, layout, kv_heads, in.kv_ends);
  group = query.heads() / key.heads();
  if (in.query_rope) {
    query_rope = Heads(*in.query_rope, layout, in.heads, in.q_ends);
    key_rope = Heads(*in.key_rope, layout, kv_heads, in.kv_ends);
  }
  int64_t begin = 0;
  for (const auto sequence : c10::irange(query.sequences())) {
    drop_begin_.push_back(begin);
    begin += query.heads() * query.rows(sequence) * key.rows(sequence);
  }
}

Span Problem::Band::of(int64_t row, int64_t columns) const {
  const int64_t middle = row + shift;
  return {std::clamp(middle - before, int64_t{0}, columns), std::clamp(middle + after + 1, int64_t{0}, columns)};
}

// sparse_mode: 0 is the given mask and its band of tokens, 1 the mask, 2 causal from the first row, 3 causal to the
// last row, 4 the band counted from the last row, 5 and 6 causal to the last row with a prefix that all see, 7 and 8
// causal, but the band for the last (7, others as 3) or first (8, others as 2) sequence. Modes above 1 follow from the
// numbers alone: their mask argument has a fixed pattern for the hardware.
Problem::Band Problem::band(int64_t sequence) const {
  const int64_t last = key.rows(sequence) - query.rows(sequence), mode = in.sparse_mode;
  const Band given{std::clamp(in.pre_tokens, -kFar, kFar), std::clamp(in.next_tokens, -kFar, kFar), last, 0};
  const bool is_first = sequence == 0, is_last = sequence == query.sequences() - 1;
  if (mode == 0 && in.atten_mask) return {given.before, given.after, 0, 0};
  if (mode < 2) return {kFar, kFar, 0, 0};
  if (mode == 2 || (mode == 8 && !is_first)) return {kFar, 0, 0, 0};
  if (mode == 3 || (mode == 7 && !is_last)) return {kFar, 0, last, 0};
  if (mode == 5 || mode == 6) return {kFar, 0, last, in.prefix[sequence]};
  return given;
}

Problem::Shape Problem::shape(int64_t sequence) const {
  const Band b = band(sequence);
  if (b.before != kFar || b.prefix > 0) return Shape::kOther;
  if (b.after == kFar) return Shape::kAll;
  return b.after == 0 && b.shift == 0 ? Shape::kCausal : Shape::kOther;
}

Span Problem::seen(int64_t sequence, Span rows) const {
  const int64_t columns = key.rows(sequence);
  const Band b = band(sequence);
  const int64_t first = b.of(rows.begin, columns).begin, end = b.of(rows.end - 1, columns).end;
  if (b.prefix > 0) return {0, std::min(columns, std::max(end, b.prefix))};
  return {first, std::max(first, end)};
}

void Problem::hide(const Tensor& scores, int64_t sequence, Span rows, Span columns) const {
  const Band b = band(sequence);
  const auto inner = [&](int64_t row) {
    const Span s = b.of(row, key.rows(sequence));
    return Span{std::clamp(s.begin, columns.begin, columns.end), std::clamp(s.end, columns.begin, columns.end)};
  };
  if (columns.end <= b.prefix) return;
  if (inner(rows.end - 1).begin == columns.begin && inner(rows.begin).end == columns.end) return;
  auto* const numbers = scores.mutable_data_ptr<float>();
  for (int64_t row = rows.begin; row < rows.end; row++) {
    const Span s = inner(row);
    auto* const line = numbers + (row - rows.begin) * columns.size() - columns.begin;
    const int64_t from = std::clamp(b.prefix, columns.begin, columns.end);
    if (from < s.begin) std::fill(line + from, line + s.begin, kHidden);
    const int64_t after = std::max(from, s.begin < s.end ? s.end : s.begin);
    if (after < columns.end) std::fill(line + after, line + columns.end, kHidden);
  }
}

Tensor Problem::block(const Tensor& given, int64_t sequence, int64_t head, Span rows, Span columns) const {
  const auto t = four_dimensions(given);
  const auto part = t.select(0, t.size(0) == 1 ? 0 : sequence);
  const auto plane = part.select(0, part.size(0) == 1 ? 0 : head);
  const auto lines = plane.size(0) == 1 ? plane : plane.slice(0, rows.begin, rows.end);
  return lines.size(1) == 1 ? lines : lines.slice(1, columns.begin, columns.end);
}

Tensor block_memory(Span rows) { return at::empty({rows.size() * kColumns}, at::kFloat); }
Tensor as_block(const Tensor& memory, Span rows, Span columns) {
  return memory.slice(0, 0, rows.size() * columns.size()).view({rows.size(), columns.size()});
}

Tensor Problem::scores(const Tensor& memory, int64_t sequence, int64_t head, Span rows, Span columns, const Tensor& q,
                       const Tensor& q_rope) const {
  auto s = as_block(memory, rows, columns);
  at::addmm_out(s, s, q, wide_rows(key.at(sequence, head / group), columns).t(), /*beta=*/0, /*alpha=*/in.scale);
  if (q_rope.defined()) s.addmm_(q_rope, wide_rows(key_rope.at(sequence, head / group), columns).t(), 1, in.scale);
  if (in.pse) s.add_(block(*in.pse, sequence, head, rows, columns).to(at::kFloat), in.pse_type == 1 ? in.scale : 1.0);
  if (in.sparse_mode < 2 && in.atten_mask) hide_marked(s, block(*in.atten_mask, sequence, head, rows, columns));
  hide(s, sequence, rows, columns);
  return s;
}

// A mask of one dimension has a bit for each score, lowest first in each byte, as the device generates it; one of
// several dimensions has a byte.
Tensor Problem::kept(int64_t sequence, int64_t head, Span rows, Span columns) const {
  const auto factor = static_cast<float>(1 / in.keep_prob);
  if (in.drop_mask->dim() > 1)
    return block(*in.drop_mask, sequence, head, rows, columns).to(at::kBool).to(at::kFloat).mul_(factor);
  auto result = at::empty({rows.size(), columns.size()}, at::kFloat);
  const auto* const bytes = static_cast<const uint8_t*>(in.drop_mask->const_data_ptr());
  auto* out = result.mutable_data_ptr<float>();
  const int64_t length = key.rows(sequence), before = drop_begin_[sequence] + head * query.rows(sequence) * length;
  for (int64_t row = rows.begin; row < rows.end; row++) {
    const int64_t first = before + row * length;
    for (int64_t bit = first + columns.begin; bit < first + columns.end; bit++)
      *out++ = (bytes[bit / 8] >> (bit % 8) & 1) ? factor : 0.0F;
  }
  return result;
}

}  // namespace softnpu::kernels::attention
