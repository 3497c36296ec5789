// Attention of blocks of rows to the blocks of keys that a mask chooses.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/util/irange.h>

#include <numeric>

#include "kernels/engine/require.h"
#include "kernels/families/sparse_attention.h"

namespace softnpu::kernels::sparse {

namespace {

std::vector<int64_t> ends(IntArrayRef lengths) {
  std::vector<int64_t> sums(lengths.size());
  std::partial_sum(lengths.begin(), lengths.end(), sums.begin());
  return sums;
}

class Call {
 public:
  explicit Call(const Blocks& in)
      : in_(in), queries_(places(in.query, in.q_lengths)), keys_(places(in.key, in.kv_lengths)) {}

  // visit(rows of the query, keys, their first row, their number, positions of keys) for every block of rows.
  template <class Visit>
  void blocks(Visit&& visit) const {
    const int64_t group = heads(in_.query) / heads(in_.key);
    for (const auto s : c10::irange(queries_.count()))
      for (const auto head : c10::irange(heads(in_.query)))
        for (int64_t first = 0, block = 0; first < queries_.length(s); first += in_.shape[0], ++block)
          visit(s, head, head / group, first, std::min(in_.shape[0], queries_.length(s) - first),
                positions(at::nonzero(in_.mask[s][head][block]).flatten(), in_.shape[1], keys_.length(s)));
  }
  Tensor query(const Tensor& t, int64_t s, int64_t head) const { return of(queries_, t, s).select(1, head); }
  Tensor key(const Tensor& t, int64_t s, int64_t head) const { return of(keys_, t, s).select(1, head); }

 private:
  bool in_a_row() const { return in_.layout == "TND"; }
  Tensor by_rows(const Tensor& t) const { return in_a_row() ? t : t.transpose(1, 2); }  // (..., rows, heads, size)
  int64_t heads(const Tensor& t) const { return t.size(1); }
  Tensor of(const Sequences& places, const Tensor& t, int64_t s) const { return places.of(by_rows(t), s); }
  Sequences places(const Tensor& t, IntArrayRef lengths) const {
    return in_a_row() ? Sequences("TND", t, listed(ends(lengths)), "actual_seq_lengths")
                      : Sequences("BSND", by_rows(t), listed(lengths), "actual_seq_lengths");
  }

  const Blocks& in_;
  Sequences queries_, keys_;
};

int64_t longest(const Blocks& in, const Tensor& t, IntArrayRef lengths) {
  return in.layout == "BNSD" ? t.size(2) : *std::max_element(lengths.begin(), lengths.end());
}

}  // namespace

void check_blocks(const Blocks& in, const Tensor& out, const Tensor& lse, const Optional& atten_mask,
                  const Optional& block_table, int64_t mask_type) {
  using namespace require;
  that(!atten_mask && !block_table && mask_type == 0, "masks of scores and block tables are not computed here");
  that(in.layout == "BNSD" || in.layout == "TND", "the layout is neither BNSD nor TND");
  that(in.layout == in.kv_layout, "query and keys have different layouts");
  const int64_t dims = in.layout == "TND" ? 3 : 4;
  for (const auto& t : {in.query, in.key, in.value, out}) rank(t, "query, key, value or result", dims, dims);
  one_type({in.query, in.key, in.value, out});
  that(in.shape.size() >= 2 && in.shape[0] > 0 && in.shape[1] > 0, "argument 'block_shape' has no two positive sizes");
  that(dims == 4 || (!in.q_lengths.empty() && in.q_lengths.size() == in.kv_lengths.size()),
       "the layout TND needs the lengths of the sequences of query and keys");
  for (const auto list : {in.q_lengths, in.kv_lengths})
    for (const int64_t length : list) that(length >= 0, "a sequence has a negative length");
  const int64_t heads = in.query.size(1), kv_heads = in.key.size(1),
                batch = dims == 4 ? in.query.size(0) : static_cast<int64_t>(in.q_lengths.size());
  that(kv_heads > 0 && kv_heads == in.kv_heads && heads % kv_heads == 0, "the heads do not fit 'num_key_value_heads'");
  that(dims == 3 || in.key.size(0) == batch, "query and keys have batches of different length");
  that(in.query.size(-1) == in.key.size(-1), "the heads of query and key have different sizes");
  last_sizes(in.value, "value", in.key, {in.value.size(-1)});
  last_sizes(out, "the result", in.query, {in.value.size(-1)});
  last_sizes(lse, "softmax_lse", in.query, {1});
  const auto blocks = [&](int64_t length, int64_t size) { return (length + size - 1) / size; };
  shape(in.mask, "block_sparse_mask",
        {batch, heads, blocks(longest(in, in.query, in.q_lengths), in.shape[0]),
         blocks(longest(in, in.key, in.kv_lengths), in.shape[1])});
}

void block_attention(Tensor& out, Tensor& lse, const Blocks& in, bool lse_wanted) {
  const Call call(in);
  out.zero_(), lse.zero_();
  call.blocks([&](int64_t s, int64_t head, int64_t kv, int64_t first, int64_t rows, const Tensor& chosen) {
    const auto part = [&](const Tensor& t) { return call.query(t, s, head).narrow(0, first, rows); };
    const auto taken = [&](const Tensor& t) { return call.key(t, s, kv).index_select(0, chosen).to(at::kFloat); };
    const auto attended = attend(part(in.query).to(at::kFloat), taken(in.key), taken(in.value), in.scale);
    part(out).copy_(attended.out);
    if (lse_wanted) part(lse).copy_((attended.max + attended.sum.log()).unsqueeze(1));
  });
}

void block_backward(Tensor& d_query, Tensor& d_key, Tensor& d_value, const Tensor& dy, const Tensor& out,
                    const Tensor& lse, const Blocks& in) {
  const Call call(in);
  d_query.zero_();
  const auto key_sums = at::zeros(in.key.sizes(), at::kFloat), value_sums = at::zeros(in.value.sizes(), at::kFloat);
  call.blocks([&](int64_t s, int64_t head, int64_t kv, int64_t first, int64_t rows, const Tensor& chosen) {
    if (chosen.numel() == 0) return;
    const auto part = [&](const Tensor& t) { return call.query(t, s, head).narrow(0, first, rows); };
    const auto wide = [&](const Tensor& t) { return part(t).to(at::kFloat); };
    const auto taken = [&](const Tensor& t) { return call.key(t, s, kv).index_select(0, chosen).to(at::kFloat); };
    const auto sum = wide(lse).squeeze(1);
    const auto slope =
        slopes(wide(in.query), taken(in.key), taken(in.value), in.scale, wide(dy), wide(out), sum, at::ones_like(sum));
    part(d_query).copy_(slope.query);
    call.key(key_sums, s, kv).index_add_(0, chosen, slope.key);
    call.key(value_sums, s, kv).index_add_(0, chosen, slope.value);
  });
  d_key.copy_(key_sums);
  d_value.copy_(value_sums);
}

}  // namespace softnpu::kernels::sparse
