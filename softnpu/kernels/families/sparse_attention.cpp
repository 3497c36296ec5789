#include "kernels/families/sparse_attention.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <limits>

#include "kernels/engine/bounds.h"
#include "kernels/engine/require.h"

namespace softnpu::kernels::sparse {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<int64_t> numbers(const Tensor& t) {
  const auto wide = t.to(at::kLong).contiguous();
  return {wide.const_data_ptr<int64_t>(), wide.const_data_ptr<int64_t>() + wide.numel()};
}

}  // namespace

Sequences::Sequences(const std::string& layout, const Tensor& t, const Optional& lengths, const char* name,
                     const Optional& block_table)
    : in_a_row_(layout == "TND"), block_table_(block_table) {
  if (in_a_row_) {
    bounds::ascending(lengths, name, t.size(0));
    int64_t begin = 0;
    for (const auto end : numbers(*lengths)) {
      begins_.push_back(begin);
      lengths_.push_back(end - begin);
      begin = end;
    }
  } else if (lengths) {
    bounds::within(lengths, name, 0, block_table ? block_table->size(1) * t.size(1) : t.size(1));
    lengths_ = numbers(*lengths);
    TORCH_CHECK(count() == (block_table ? *block_table : t).size(0), name, " has another length than the batch");
  } else {
    lengths_.assign(t.size(0), t.size(1));
  }
}

Tensor Sequences::of(const Tensor& t, int64_t s) const {
  if (in_a_row_) return t.narrow(0, begins_[s], lengths_[s]);
  if (!block_table_) return t.select(0, s).narrow(0, 0, lengths_[s]);
  const int64_t block = t.size(1), blocks = block ? (lengths_[s] + block - 1) / block : 0;
  const auto chosen = block_table_->select(0, s).narrow(0, 0, blocks);
  bounds::within(chosen, "block_table", 0, t.size(0) - 1);
  return t.index_select(0, chosen).flatten(0, 1).narrow(0, 0, lengths_[s]);
}

Tensor Sequences::statistics(const Tensor& t, int64_t s) const {
  return in_a_row_ ? t.narrow(1, begins_[s], lengths_[s]) : t.select(0, s).narrow(1, 0, lengths_[s]);
}

Optional listed(IntArrayRef lengths) { return lengths.empty() ? Optional() : Optional(at::tensor(lengths, at::kLong)); }

void check_layouts(const Tensor& query, const std::string& layout, bool q_lengths, const Tensor& key,
                   const std::string& kv_layout, bool kv_lengths, const Optional& block_table) {
  using namespace require;
  that(layout == "BSND" || layout == "TND", "the layout of the query is neither BSND nor TND");
  that(kv_layout == layout || kv_layout == "PA_BSND", "the layout of the keys is neither the query's nor PA_BSND");
  rank(query, "query", layout == "TND" ? 3 : 4, layout == "TND" ? 3 : 4);
  rank(key, "key", kv_layout == "TND" ? 3 : 4, kv_layout == "TND" ? 3 : 4);
  that(layout != "TND" || q_lengths, "the layout TND needs the ends of the query's sequences");
  that(kv_layout == "BSND" || kv_lengths, "the layouts TND and PA_BSND need the lengths of the keys' sequences");
  that((kv_layout == "PA_BSND") == block_table.has_value(), "a block table belongs to the layout PA_BSND");
  if (block_table) rank(*block_table, "block_table", 2, 2);
  that(layout != "BSND" || (block_table ? *block_table : key).size(0) == query.size(0),
       "query and keys have batches of different length");
  const int64_t heads = key.size(-2);
  that(heads > 0 && query.size(-2) % heads == 0, "the heads of the query are not a multiple of the keys'");
}

void check_mode(int64_t sparse_mode, int64_t pre_tokens, int64_t next_tokens, const Tensor& key) {
  require::that(sparse_mode == 0 || sparse_mode == 3, "argument 'sparse_mode' is neither 0 nor 3");
  const int64_t keys = key.dim() == 3 ? key.size(0) : key.size(0) * key.size(1);  // no sequence has more
  require::that(sparse_mode == 3 || (pre_tokens >= keys && next_tokens >= keys),
                "arguments 'pre_tokens' and 'next_tokens' hide keys");
}

Tensor positions(const Tensor& indices, int64_t block, int64_t end) {
  std::vector<int64_t> found;
  block = std::min(block, std::max<int64_t>(end, 1));  // behind the first block there is nothing then
  for (const auto index : numbers(indices)) {
    if (index < 0) break;
    if (index >= end) continue;
    for (int64_t at = index * block; at < std::min(index * block + block, end); ++at) found.push_back(at);
  }
  return at::tensor(found, at::kLong);
}

Attended attend(const Tensor& query, const Tensor& key, const Tensor& value, double scale, const Tensor& sink) {
  const auto scores = at::mm(query, key.t()).mul_(scale);
  auto top = key.size(0) ? scores.amax({1}) : at::full({query.size(0)}, -kInfinity, at::kFloat);
  if (sink.defined()) top = at::maximum(top, sink);
  top = top.masked_fill(top == -kInfinity, 0);
  const auto weights = (scores - top.unsqueeze(1)).exp_();
  auto total = weights.sum({1});
  if (sink.defined()) total = total + (sink - top).exp();
  return {at::mm(weights, value).div_(total.masked_fill(total == 0, 1).unsqueeze(1)), top, total};
}

Slopes slopes(const Tensor& query, const Tensor& key, const Tensor& value, double scale, const Tensor& dy,
              const Tensor& out, const Tensor& max, const Tensor& sum) {
  const auto weights = (at::mm(query, key.t()) * scale - max.unsqueeze(1)).exp_().div_(sum.unsqueeze(1));
  const auto slope = (at::mm(dy, value.t()) - (dy * out).sum({1}, true)) * weights * scale;
  return {at::mm(slope, key), at::mm(slope.t(), query), at::mm(weights.t(), dy)};
}

}  // namespace softnpu::kernels::sparse
