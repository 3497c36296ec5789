// Attention to the blocks of tokens that compressed attention found important.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/util/irange.h>

#include "kernels/engine/require.h"
#include "kernels/families/nsa.h"

namespace softnpu::kernels::nsa {

namespace {

using sparse::listed;
using sparse::Sequences;

// visit(sequence, row, head of the keys, positions of keys) for every row.
template <class Visit>
void rows(const Selected& in, Visit&& visit) {
  const Sequences queries("TND", in.query, listed(in.q_ends), "actual_seq_qlen"),
      keys("TND", in.key, listed(in.k_ends), "actual_seq_kvlen");
  int64_t begin = 0;
  for (const auto s : c10::irange(queries.count())) {
    for (const auto row : c10::irange(begin, begin + queries.length(s)))
      for (const auto head : c10::irange(in.key.size(1)))
        visit([&](const Tensor& t) { return keys.of(t, s).select(1, head); }, row, head,
              sparse::positions(in.indices[row][head], in.block, keys.length(s)));
    begin += queries.length(s);
  }
}

struct Group {
  const Selected& in;
  int64_t row, head;
  Tensor of(const Tensor& t) const {
    const int64_t group = in.query.size(1) / in.key.size(1);
    return t[row].narrow(0, head * group, group);
  }
};

}  // namespace

void check_selected(const Selected& in, int64_t heads, int64_t count, const Tensor& out, const Tensor& max,
                    const Tensor& sum) {
  using namespace require;
  for (const auto& t : {in.query, in.key, in.value, in.indices}) rank(t, "query, key, value or topk_indices", 3, 3);
  one_type({in.query, in.key, in.value, out});
  const int64_t kv_heads = in.key.size(1);
  that(heads == in.query.size(1) && kv_heads > 0 && heads % kv_heads == 0, "the heads do not fit 'head_num'");
  that(in.query.size(2) == in.key.size(2), "the heads of query and key have different sizes");
  that(in.block > 0, "argument 'select_block_size' is not positive");
  that(!in.q_ends.empty() && in.q_ends.size() == in.k_ends.size(), "the lists of lengths have different lengths");
  last_sizes(in.value, "value", in.key, {in.value.size(2)});
  shape(in.indices, "topk_indices", {in.query.size(0), kv_heads, count});
  shape(out, "the result", {in.query.size(0), heads, in.value.size(2)});
  shape(max, "softmax_max", {in.query.size(0), heads, 8});
  shape(sum, "softmax_sum", {in.query.size(0), heads, 8});
}

void selected_attention(Tensor& out, Tensor& max, Tensor& sum, const Selected& in) {
  out.zero_(), max.zero_(), sum.zero_();
  rows(in, [&](auto&& of_head, int64_t row, int64_t head, const Tensor& positions) {
    const Group own{in, row, head};
    const auto taken = [&](const Tensor& t) { return of_head(t).index_select(0, positions).to(at::kFloat); };
    const auto attended = sparse::attend(own.of(in.query).to(at::kFloat), taken(in.key), taken(in.value), in.scale);
    own.of(out).copy_(attended.out);
    own.of(max).copy_(attended.max.unsqueeze(1));
    own.of(sum).copy_(attended.sum.unsqueeze(1));
  });
}

void selected_backward(Tensor& d_query, Tensor& d_key, Tensor& d_value, const Tensor& dy, const Tensor& out,
                       const Tensor& max, const Tensor& sum, const Selected& in) {
  const auto keys = at::zeros(in.key.sizes(), at::kFloat), values = at::zeros(in.value.sizes(), at::kFloat);
  d_query.zero_();
  rows(in, [&](auto&& of_head, int64_t row, int64_t head, const Tensor& positions) {
    if (positions.numel() == 0) return;
    const Group own{in, row, head};
    const auto wide = [&](const Tensor& t) { return own.of(t).to(at::kFloat); };
    const auto taken = [&](const Tensor& t) { return of_head(t).index_select(0, positions).to(at::kFloat); };
    const auto slope = sparse::slopes(wide(in.query), taken(in.key), taken(in.value), in.scale, wide(dy), wide(out),
                                      wide(max).select(1, 0), wide(sum).select(1, 0));
    own.of(d_query).copy_(slope.query);
    of_head(keys).index_add_(0, positions, slope.key);
    of_head(values).index_add_(0, positions, slope.value);
  });
  d_key.copy_(keys);
  d_value.copy_(values);
}

void check_step(const Step& in, const Tensor& out, const Tensor& indices) {
  using namespace require;
  const auto batch = static_cast<int64_t>(in.lengths.size());
  that(in.layout == "BSH" || in.layout == "BSND" || in.layout == "TND", "the layout is none of BSH, BSND and TND");
  that(in.kv_heads > 0 && in.heads > 0 && in.heads % in.kv_heads == 0,
       "'head_num' is no multiple of 'key_value_head_num'");
  rank(in.query, "query", in.layout == "BSND" ? 4 : 3, in.layout == "BSND" ? 4 : 3);
  that(in.query.size(0) == batch && (in.layout == "TND" || in.query.size(1) == 1),
       "query is not one token of each sequence");
  that(in.block_table.has_value(), "argument 'block_table' is absent");
  rank(*in.block_table, "block_table", 2, 2);
  that(in.block_table->size(0) == batch, "argument 'block_table' has no row of each sequence");
  one_type({in.query, in.key, in.value, out});
  const auto size = [&](const Tensor& t, const char* name) {
    rank(t, name, 3, 4);
    const int64_t numbers = t.dim() == 3 ? t.size(2) : t.size(2) * t.size(3);
    that(t.size(1) == in.page && in.page > 0, "'page_block_size' is not the size of the caches' blocks");
    that(numbers % in.kv_heads == 0 && (t.dim() == 3 || t.size(2) == in.kv_heads),
         "the caches do not have 'key_value_head_num' heads");
    return numbers / in.kv_heads;
  };
  that(in.query.numel() == batch * in.heads * size(in.key, "key"), "the heads of query and key have different sizes");
  that(out.numel() == batch * in.heads * size(in.value, "value"),
       "the result has another size than the heads of value");
  that(in.key.size(0) == in.value.size(0), "key and value have different numbers of blocks");
  that(indices.dim() > 0 && indices.numel() == batch * in.kv_heads * indices.size(-1),
       "the indices are not those of each sequence and head");
}

void selected_step(Tensor& out, const Step& in, const Tensor& indices, int64_t block) {
  const int64_t group = in.heads / in.kv_heads, batch = static_cast<int64_t>(in.lengths.size());
  const auto key = in.key.reshape({in.key.size(0), in.page, in.kv_heads, -1}),
             value = in.value.reshape({in.value.size(0), in.page, in.kv_heads, -1});
  const Sequences sequences("PA_BSND", key, listed(in.lengths), "actual_seq_kvlen", in.block_table);
  const auto query = in.query.reshape({batch, in.heads, -1}), chosen = indices.reshape({batch, in.kv_heads, -1});
  const auto result = at::zeros({batch, in.heads, value.size(3)}, at::kFloat);
  for (const auto s : c10::irange(batch))
    for (const auto head : c10::irange(in.kv_heads)) {
      const auto positions = sparse::positions(chosen[s][head], block, sequences.length(s));
      const auto taken = [&](const Tensor& t) {
        return sequences.of(t, s).select(1, head).index_select(0, positions).to(at::kFloat);
      };
      const auto own = query[s].narrow(0, head * group, group).to(at::kFloat);
      result[s].narrow(0, head * group, group).copy_(sparse::attend(own, taken(key), taken(value), in.scale).out);
    }
  out.copy_(result.view_as(out));
}

}  // namespace softnpu::kernels::nsa
