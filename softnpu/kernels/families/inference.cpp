#include "kernels/families/inference.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <limits>

#include "kernels/engine/bounds.h"
#include "kernels/families/inference_shapes.h"

namespace softnpu::kernels::infer {

namespace {

constexpr int64_t kMostScores = int64_t{1} << 22;  // that are held at once
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor band(int64_t first, int64_t rows, int64_t columns, int64_t shift, int64_t before, int64_t after) {
  const auto row = at::arange(first, first + rows).unsqueeze(1) + shift, column = at::arange(columns).unsqueeze(0);
  return at::logical_or(column - row > after, row - column > before);
}

class Attention {
 public:
  explicit Attention(const Inputs& in) : in_(in), shapes_(shapes(in)) {}

  void run(Tensor& out, const Optional& lse) {
    auto result = apart(out, shapes_.layout.out, in_.heads);
    Tensor sums;
    if (lse && lse->numel()) sums = shapes_.ragged ? lse->transpose(0, 1).unsqueeze(0) : *lse;
    if (!shapes_.all_rows(in_)) {
      out.zero_();
      if (sums.defined()) sums.fill_(-kInfinity);
    }
    for (const auto b : c10::irange(shapes_.batch)) {
      const int64_t batch = shapes_.ragged ? 0 : b;
      auto own = result.select(0, batch);
      sequence(b, own, sums.defined() ? Optional(sums.select(0, batch)) : std::nullopt);
    }
  }

 private:
  void sequence(int64_t b, Tensor& out, const Optional& sums) {
    const Place q = placed(shapes_.queries[b], in_.query_padding, shapes_.q_rows, "query_padding_size");
    if (q.length == 0) return;
    auto query = slice(apart(in_.query, shapes_.layout.in, in_.heads), b, q);
    if (in_.query_rope) query = joined(query, slice(apart(*in_.query_rope, shapes_.layout.in, in_.heads), b, q));
    const auto key = keys(b), value = values(b);
    const int64_t columns = key.size(1),
                  step = std::max<int64_t>(1, kMostScores / std::max<int64_t>(1, in_.heads * columns));
    for (int64_t first = 0; first < q.length; first += step) {
      const int64_t rows = std::min(step, q.length - first);
      const auto [result, sum] = rows_of(b, query.narrow(1, first, rows), key, value, first, q);
      out.narrow(1, q.begin + first, rows).copy_(quantised(result));
      if (sums) sums->narrow(1, q.begin + first, rows).copy_(sum);
    }
  }

  std::pair<Tensor, Tensor> rows_of(int64_t b, const Tensor& query, const Tensor& key, const Tensor& value,
                                    int64_t first, const Place& q) {
    const int64_t heads = in_.heads, kv_heads = shapes_.kv_heads, rows = query.size(1), columns = key.size(1);
    auto scores = at::bmm(query.reshape({kv_heads, heads / kv_heads * rows, query.size(2)}), key.transpose(1, 2));
    scores = scores.view({heads, rows, columns}).mul_(in_.scale);
    if (in_.pse) scores.add_(cut(*in_.pse, b, row_of(q) + first, rows, columns));
    if (const auto hide = hidden(b, q, first, rows, columns)) scores.masked_fill_(*hide, -kInfinity);
    auto top = columns ? scores.amax({2}, true) : at::full({heads, rows, 1}, -kInfinity, at::kFloat);
    const auto sink = in_.sink ? in_.sink->to(at::kFloat).reshape({heads, 1, 1}) : Tensor();
    if (sink.defined()) top = at::maximum(top, sink);
    // A row that sees nothing gives zeros, not NaN.
    top = top.masked_fill(top == -kInfinity, 0);
    const auto weights = scores.sub_(top).exp_();
    auto total = weights.sum({2}, true);
    if (sink.defined()) total = total + (sink - top).exp();
    auto result =
        at::bmm(weights.view({kv_heads, heads / kv_heads * rows, columns}), value).view({heads, rows, value.size(2)});
    return {result.div_(total.masked_fill(total == 0, 1)), top + total.log()};
  }

  // A sequence that lies at the end of its row, rather than at the beginning.
  static Place placed(Place place, const Optional& padding, int64_t size, const char* name) {
    if (!padding || !padding->numel()) return place;
    place.begin = size - std::max<int64_t>(0, padding->flatten()[0].item<int64_t>()) - place.length;
    TORCH_CHECK(place.begin >= 0, name, " and a length of ", place.length, " are more than the ", size,
                " tokens of a row");
    return place;
  }

  Tensor slice(const Tensor& t, int64_t b, const Place& place) const {
    return t.select(0, shapes_.ragged || t.size(0) == 1 ? 0 : b).narrow(1, place.begin, place.length).to(at::kFloat);
  }
  static Tensor joined(const Tensor& a, const Tensor& b) { return at::cat({a, b}, -1); }

  // (heads, length, size) of a sequence's keys, values or rotary parts.
  Tensor stored(const std::vector<Tensor>& list, int64_t b) const {
    const auto& t = list[list.size() == 1 ? 0 : b];
    if (!in_.block_table) return slice(apart(t, shapes_.layout.in, shapes_.kv_heads), b, kv_place(b));
    auto found = paged(t, shapes_.kv_heads).index_select(0, blocks(b, t.size(0)));
    if (found.dim() == 5) found = found.flatten(3);
    const auto sizes = found.sizes().vec();
    return found.transpose(0, 1)
        .reshape({sizes[1], sizes[0] * sizes[2], sizes[3]})
        .narrow(1, 0, shapes_.keys[b].length)
        .to(at::kFloat);
  }
  Place kv_place(int64_t b) const {
    return placed(shapes_.keys[b], in_.kv_padding, shapes_.kv_rows, "kv_padding_size");
  }
  Tensor blocks(int64_t b, int64_t count) const {
    const int64_t used = (shapes_.keys[b].length + in_.block_size - 1) / in_.block_size;
    const auto ids = in_.block_table->select(0, b).narrow(0, 0, used).to(at::kLong);
    bounds::within(ids, "block_table", 0, count - 1);
    return ids;
  }

  Tensor keys(int64_t b) const {
    auto key = widened(stored(in_.keys, b), b, in_.key_scale, in_.key_offset, in_.key_mode, 0);
    if (in_.key_rope) key = joined(key, stored({*in_.key_rope}, b));
    return in_.key_prefix ? at::cat({prefix(*in_.key_prefix), key}, 1) : key;
  }
  Tensor values(int64_t b) const {
    const auto value = widened(stored(in_.values, b), b, in_.value_scale, in_.value_offset, in_.value_mode, 1);
    return in_.value_prefix ? at::cat({prefix(*in_.value_prefix), value}, 1) : value;
  }
  Tensor prefix(const Tensor& t) const {
    return apart(t, shapes_.layout.in, shapes_.kv_heads).select(0, 0).narrow(1, 0, shapes_.prefix).to(at::kFloat);
  }

  // (t + offset) * scale of quantised numbers.
  Tensor widened(Tensor t, int64_t b, const Optional& scale, const Optional& offset, int64_t mode, int64_t half) const {
    if (scale) {
      if (offset) t = t + factor(*offset, t, b, mode);
      return t * factor(*scale, t, b, mode);
    }
    if (!in_.antiquant_scale) return t;
    if (in_.antiquant_offset) t = t + factor(in_.antiquant_offset->select(0, half), t, b, in_.antiquant_mode);
    return t * factor(in_.antiquant_scale->select(0, half), t, b, in_.antiquant_mode);
  }
  Tensor factor(const Tensor& given, const Tensor& t, int64_t b, int64_t mode) const {
    const int64_t heads = t.size(0), length = t.size(1);
    const auto x = given.to(at::kFloat);
    const auto tokens = [&](const Tensor& all) {
      return all.narrow(-1, in_.block_table ? 0 : kv_place(b).begin, length);
    };
    switch (mode) {
      case 0:  // of each number of a head, or one for all
        return x.numel() == 1 ? x.reshape({1, 1, 1}) : x.reshape({heads, 1, t.size(2)});
      case 1:  // of each token
        return tokens(x.reshape({-1, x.size(-1)}).select(0, b)).reshape({1, length, 1});
      case 2:  // of each head
        return x.reshape({heads, 1, 1});
      case 3:  // of each token of each head
        return tokens(x.reshape({-1, heads, x.size(-1)}).select(0, b)).reshape({heads, length, 1});
      case 4:  // of each token, in pages
        return x.index_select(0, blocks(b, x.size(0))).reshape({1, -1, 1}).narrow(1, 0, length);
      case 5:  // of each token of each head, in pages
        return x.index_select(0, blocks(b, x.size(0))).transpose(0, 1).reshape({heads, -1, 1}).narrow(1, 0, length);
      default:
        TORCH_CHECK(false, "the mode of key_antiquant_scale or value_antiquant_scale is ", mode, ", expected 0 to 5");
    }
  }

  // Of a mask or bias, whose rows are those of each sequence.
  int64_t row_of(const Place& q) const { return shapes_.ragged ? 0 : q.begin; }

  // The part of a mask or bias (sequences, heads, rows, columns), of which the first two may be absent or one.
  Tensor cut(Tensor t, int64_t b, int64_t first, int64_t rows, int64_t columns) const {
    if (t.dim() == 2 && shapes_.q_rows == 1 && !shapes_.ragged && t.size(0) == shapes_.batch)
      t = t.unsqueeze(1).unsqueeze(1);
    if (t.dim() == 3) t = t.unsqueeze(1);
    if (t.dim() == 4) t = t.select(0, t.size(0) == 1 ? 0 : b);
    return t.narrow(-2, first, rows).narrow(-1, 0, columns);
  }

  // Scores that do not count. sparse_mode: 0 and 1 take the given mask (0 also its band of tokens), 2 is causal from
  // the first row, 3 causal to the last row, 4 the band counted from the last row.
  Optional hidden(int64_t b, const Place& q, int64_t first, int64_t rows, int64_t columns) const {
    const auto given = [&] { return cut(*in_.mask, b, row_of(q) + first, rows, columns).to(at::kBool); };
    const int64_t right = columns - q.length;
    if (in_.single_token && shapes_.single(in_))
      return in_.mask && in_.sparse_mode < 2 ? Optional(given()) : std::nullopt;
    switch (in_.sparse_mode) {
      case 0:
        if (!in_.mask) return std::nullopt;
        return at::logical_or(given(), band(first, rows, columns, 0, in_.pre_tokens, in_.next_tokens));
      case 1:
        return given();
      case 2:
        return band(first, rows, columns, 0, INT64_MAX, 0);
      case 3:
        return band(first, rows, columns, right, INT64_MAX, 0);
      default:
        return band(first, rows, columns, right, in_.pre_tokens, in_.next_tokens);
    }
  }

  Tensor quantised(const Tensor& t) const {
    if (!in_.quant_scale) return t;
    const auto each = [&](const Tensor& x) {
      return x.to(at::kFloat).reshape({x.numel() == 1 ? 1 : t.size(0), 1, x.numel() == 1 ? 1 : t.size(2)});
    };
    auto scaled = t * each(*in_.quant_scale);
    if (in_.quant_offset) scaled = scaled + each(*in_.quant_offset);
    return scaled.round_().clamp_(-128, 127);
  }

  const Inputs& in_;
  const Shapes shapes_;
};

}  // namespace

void attention(Tensor& out, const Optional& lse, const Inputs& in) { Attention(in).run(out, lse); }

}  // namespace softnpu::kernels::infer
