#include "kernels/families/nsa.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/util/irange.h>

#include <limits>

#include "kernels/engine/bounds.h"
#include "kernels/engine/require.h"

namespace softnpu::kernels::nsa {

namespace {

using sparse::listed;
using sparse::Sequences;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kCopies = 8;                     // of each statistic
constexpr int64_t kMostScores = int64_t{1} << 22;  // that are held at once

Sequences in_a_row(const Tensor& t, IntArrayRef ends, const char* name) { return {"TND", t, listed(ends), name}; }

int64_t windows(int64_t length, int64_t block, int64_t stride) {
  return length < block ? 0 : (length - block) / stride + 1;
}

// visit(sequence, its windows (windows, heads, size, block), their first row among all).
template <class Visit>
void for_windows(const Tensor& t, const Windows& in, Visit&& visit) {
  const auto sequences = in_a_row(in.input, in.ends, "actual_seq_len");
  int64_t row = 0;
  for (const auto s : c10::irange(sequences.count())) {
    const int64_t count = windows(sequences.length(s), in.block, in.stride);
    if (count) visit(sequences.of(t, s).unfold(0, in.block, in.stride), row, count);
    row += count;
  }
}

void check_windows(const Windows& in) {
  using namespace require;
  that(in.block > 0 && in.stride > 0, "arguments 'compress_block_size' and 'compress_stride' are not positive");
  shape(in.weight, "weight", {in.block, in.input.size(-2)});
  that(!in.ends.empty(), "argument 'actual_seq_len' is empty");
}

// How much each block of `select` tokens counts, of the probabilities (rows, compressed keys).
Tensor importance(const Tensor& weights, int64_t blocks, int64_t block, int64_t stride, int64_t select) {
  const int64_t m = select / stride, n = block / stride, keys = weights.size(1);
  auto sums = at::zeros({weights.size(0), blocks}, at::kFloat);
  const auto last = at::arange(1, blocks + 1) * m;
  for (const auto j : c10::irange(m + n - 1)) {
    const auto at = last - j;
    const auto kept = at::nonzero(at::logical_and(at >= 0, at < keys)).flatten();
    sums.index_add_(1, kept, weights.index_select(1, at.index_select(0, kept)), std::min({j + 1, m + n - 1 - j, n}));
  }
  return sums;
}

// Probabilities (rows, group, keys) of queries (rows, group, size), with maxima and sums; rows may see nothing.
struct Scores {
  Tensor weights, max, sum;
};
Scores scores(const Tensor& query, const Tensor& key, double scale, const Optional& hidden) {
  auto found = at::matmul(query, key.t()).mul_(scale);
  if (hidden) found.masked_fill_(hidden->unsqueeze(1), -kInfinity);
  auto max = found.amax({2}, true);
  max = max.masked_fill(max == -kInfinity, 0);
  found.sub_(max).exp_();
  const auto sum = found.sum({2}, true);
  return {found.div_(sum.masked_fill(sum == 0, 1)), max, sum};
}

}  // namespace

void check_sizes(int64_t block, int64_t stride, int64_t select) {
  constexpr int64_t kMost = 1 << 16;  // far more than any chip takes, and nothing overflows
  require::that(stride > 0 && block >= stride && select >= block && select % stride == 0 && select <= kMost,
                "the sizes of windows and blocks do not fit each other");
}

void check_compress(const Windows& in, const Tensor& out) {
  using namespace require;
  rank(in.input, "input", 3, 3);
  check_windows(in);
  int64_t rows = 0, begin = 0;
  for (const int64_t end : in.ends) {
    that(end >= begin && end <= in.input.size(0), "argument 'actual_seq_len' does not rise up to the rows of input");
    rows += windows(end - begin, in.block, in.stride);
    begin = end;
  }
  shape(out, "the compressed tensor", {rows, in.input.size(1), in.input.size(2)});
}

void compress(Tensor& out, const Windows& in) {
  const auto weight = in.weight.to(at::kFloat).t().unsqueeze(2);  // (heads, block, 1)
  for_windows(in.input, in, [&](const Tensor& parts, int64_t row, int64_t count) {
    out.narrow(0, row, count).copy_(at::matmul(parts.to(at::kFloat), weight).squeeze(3));
  });
}

void compress_backward(Tensor& d_input, Tensor& d_weight, const Tensor& grad, const Windows& in) {
  const auto inputs = at::zeros(in.input.sizes(), at::kFloat), weights = at::zeros(in.weight.sizes(), at::kFloat);
  const auto weight = in.weight.to(at::kFloat);
  for_windows(in.input, in, [&](const Tensor& parts, int64_t row, int64_t count) {
    const auto own = grad.narrow(0, row, count).to(at::kFloat);  // (windows, heads, size)
    weights.add_(at::einsum("chd,chdw->wh", {own, parts.to(at::kFloat)}));
  });
  for_windows(inputs, in, [&](const Tensor& parts, int64_t row, int64_t count) {
    const auto own = grad.narrow(0, row, count).to(at::kFloat);
    for (const auto w : c10::irange(in.block)) parts.select(3, w).add_(own * weight[w].unsqueeze(1));
  });
  d_input.copy_(inputs);
  d_weight.copy_(weights);
}

void check_compress_last(const Tensor& cache, const Windows& in, const Tensor& slots, const Optional& block_table,
                         int64_t page) {
  using namespace require;
  rank(in.input, "input", 4, 4);
  that(in.input.size(1) == page, "argument 'page_block_size' is not the size of the blocks of input");
  check_windows(in);
  const auto batch = static_cast<int64_t>(in.ends.size());
  that(block_table.has_value(), "argument 'block_table' is absent");
  rank(*block_table, "block_table", 2, 2);
  that(block_table->size(0) == batch, "argument 'block_table' has no row of each sequence");
  shape(slots, "slot_mapping", {batch});
  rank(cache, "cache", 3, 3);
  last_sizes(cache, "cache", cache, {in.input.size(2), in.input.size(3)});
}

void compress_last(Tensor& cache, const Windows& in, const Tensor& slots, const Optional& block_table) {
  const Sequences sequences("PA_BSND", in.input, listed(in.ends), "actual_seq_len", block_table);
  const auto weight = in.weight.to(at::kFloat).unsqueeze(2);
  bounds::within(slots, "slot_mapping", 0, cache.size(0) - 1);
  for (const auto s : c10::irange(sequences.count())) {
    const int64_t length = sequences.length(s);
    if (length < in.block || (length - in.block) % in.stride) continue;
    const auto last = sequences.of(in.input, s).narrow(0, length - in.block, in.block).to(at::kFloat);
    cache[slots[s].item<int64_t>()].copy_((last * weight).sum({0}));
  }
}

void check_compressed(const Compressed& in, int64_t heads, const Tensor& out, const Tensor& indices, const Tensor& max,
                      const Tensor& sum) {
  using namespace require;
  for (const auto& t : {in.query, in.key, in.value, indices}) rank(t, "query, key, value or indices", 3, 3);
  one_type({in.query, in.key, in.value, out});
  const int64_t kv_heads = in.key.size(1), rows = in.query.size(0);
  that(heads == in.query.size(1) && kv_heads > 0 && heads % kv_heads == 0, "the heads do not fit 'head_num'");
  that(in.query.size(2) == in.key.size(2), "the heads of query and key have different sizes");
  last_sizes(in.value, "value", in.key, {in.value.size(2)});
  shape(out, "the result", {rows, heads, in.value.size(2)});
  shape(indices, "topk_indices", {rows, kv_heads, indices.size(2)});
  shape(max, "softmax_max", {rows, heads, kCopies});
  shape(sum, "softmax_sum", {rows, heads, kCopies});
  check_sizes(in.block, in.stride, in.select);
  that(!in.q_ends.empty() && in.q_ends.size() == in.k_ends.size() && in.k_ends.size() == in.block_ends.size(),
       "the lists of lengths have different lengths");
  int64_t most_rows = 0, most_keys = 0, most_blocks = 0;
  for (const auto s : c10::irange(in.q_ends.size())) {
    const auto length = [&](IntArrayRef ends) { return ends[s] - (s ? ends[s - 1] : 0); };
    that(length(in.q_ends) >= 0 && length(in.k_ends) >= 0 && length(in.block_ends) >= indices.size(2),
         "a sequence has fewer blocks than are selected, or a negative length");
    that(length(in.block_ends) <= length(in.k_ends) + 1, "a sequence has more blocks than compressed tokens");
    most_rows = std::max(most_rows, length(in.q_ends));
    most_keys = std::max(most_keys, length(in.k_ends));
    most_blocks = std::max(most_blocks, length(in.block_ends));
  }
  const auto covers = [&](const Optional& t, int64_t columns) {
    return !t || (t->dim() == 2 && t->size(0) >= most_rows && t->size(1) >= columns);
  };
  that(covers(in.mask, most_keys) && covers(in.chosen, most_blocks), "a mask is smaller than the longest sequence");
}

void compressed_attention(Tensor& out, Tensor& indices, Tensor& max, Tensor& sum, const Compressed& in) {
  const auto queries = in_a_row(in.query, in.q_ends, "actual_seq_qlen");
  const auto keys = in_a_row(in.key, in.k_ends, "actual_cmp_seq_kvlen");
  const int64_t heads = in.query.size(1), kv_heads = in.key.size(1), group = heads / kv_heads;
  const auto maxima = at::zeros({in.query.size(0) * heads, kCopies}, at::kFloat), sums = at::zeros_like(maxima);
  out.zero_(), indices.fill_(-1);
  int64_t begin = 0;
  for (const auto s : c10::irange(queries.count())) {
    const int64_t rows = queries.length(s), length = keys.length(s),
                  blocks = in.block_ends[s] - (s ? in.block_ends[s - 1] : 0);
    const auto own = [&](const Tensor& t) {
      return t.narrow(0, begin * heads, rows * heads).view({heads, rows, kCopies});
    };
    const int64_t step = std::max<int64_t>(1, kMostScores / std::max<int64_t>(1, group * length));
    for (const auto head : c10::irange(kv_heads))
      for (int64_t first = 0; first < rows && length > 0; first += step) {
        const int64_t count = std::min(step, rows - first);
        const auto part = [&](const Tensor& t) { return queries.of(t, s).narrow(0, first, count); };
        const auto of_head = [&](const Tensor& t) { return keys.of(t, s).select(1, head).to(at::kFloat); };
        const auto cut = [&](const Tensor& t, int64_t columns) {
          return t.narrow(0, first, count).narrow(1, 0, columns).to(at::kBool);
        };
        const auto found = scores(part(in.query).narrow(1, head * group, group).to(at::kFloat), of_head(in.key),
                                  in.scale, in.mask ? Optional(cut(*in.mask, length)) : std::nullopt);
        part(out).narrow(1, head * group, group).copy_(at::matmul(found.weights, of_head(in.value)));
        const auto into = [&](const Tensor& t) {
          return own(t).narrow(0, head * group, group).narrow(1, first, count);
        };
        into(maxima).copy_(found.max.transpose(0, 1));
        into(sums).copy_(found.sum.transpose(0, 1));
        auto counts = importance(found.weights.sum({1}), blocks, in.block, in.stride, in.select);
        if (in.chosen) counts.masked_fill_(cut(*in.chosen, blocks), kInfinity);
        const auto order = std::get<1>(at::sort(counts, /*stable=*/true, 1, /*descending=*/true));
        part(indices).select(1, head).copy_(order.narrow(1, 0, indices.size(2)));
      }
    begin += rows;
  }
  max.copy_(maxima.view_as(max));
  sum.copy_(sums.view_as(sum));
}

void compressed_step(Tensor& out, Tensor& indices, const Step& in, int64_t block, int64_t stride, int64_t select) {
  const int64_t group = in.heads / in.kv_heads, batch = static_cast<int64_t>(in.lengths.size());
  const auto key = in.key.reshape({in.key.size(0), in.page, in.kv_heads, -1}),
             value = in.value.reshape({in.value.size(0), in.page, in.kv_heads, -1});
  const Sequences sequences("PA_BSND", key, listed(in.lengths), "actual_cmp_seq_kvlen", in.block_table);
  const auto query = in.query.reshape({batch, in.heads, -1});
  const auto result = at::zeros({batch, in.heads, value.size(3)}, at::kFloat);
  const auto order = at::full({batch, in.kv_heads, indices.size(-1)}, -1, at::kLong);
  for (const auto s : c10::irange(batch))
    for (const auto head : c10::irange(in.kv_heads)) {
      const auto of_head = [&](const Tensor& t) { return sequences.of(t, s).select(1, head).to(at::kFloat); };
      const int64_t length = sequences.length(s),
                    blocks = length ? ((length - 1) * stride + block + select - 1) / select : 0;
      if (blocks == 0) continue;
      const auto found =
          scores(query[s].narrow(0, head * group, group).to(at::kFloat).unsqueeze(0), of_head(key), in.scale, {});
      result[s].narrow(0, head * group, group).copy_(at::mm(found.weights[0], of_head(value)));
      const auto counts = importance(found.weights.sum({1}), blocks, block, stride, select)[0];
      for (const int64_t always : {int64_t{0}, blocks - 2, blocks - 1})
        counts[std::max<int64_t>(always, 0)].fill_(kInfinity);
      const auto best = std::get<1>(at::sort(counts, /*stable=*/true, 0, /*descending=*/true));
      const int64_t kept = std::min(blocks, indices.size(-1));
      order[s][head].narrow(0, 0, kept).copy_(best.narrow(0, 0, kept));
    }
  out.copy_(result.view_as(out));
  indices.copy_(order.view_as(indices));
}

}  // namespace softnpu::kernels::nsa
