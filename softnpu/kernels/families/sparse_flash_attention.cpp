// Attention to the keys of a row of indices: forward, backward, and over a cache of bytes.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/util/irange.h>

#include "kernels/engine/require.h"
#include "kernels/families/sparse_attention.h"

namespace softnpu::kernels::sparse {

namespace {

Tensor joined(const Tensor& t, const Optional& rope) { return rope ? at::cat({t, *rope}, -1) : t; }
Optional part(const Sequences& sequences, const Optional& t, int64_t s) {
  return t ? Optional(sequences.of(*t, s)) : std::nullopt;
}

// The sequences of a call, and the keys that each row of a head sees.
struct Call {
  explicit Call(const Attention& in)
      : in(in),
        queries(in.layout, in.query, in.q_lengths, "actual_seq_lengths_query"),
        keys(in.kv_layout, in.key, in.kv_lengths, "actual_seq_lengths_kv", in.block_table) {
    TORCH_CHECK(queries.count() == keys.count(), "query and keys have ", queries.count(), " and ", keys.count(),
                " sequences");
  }

  Tensor chosen(int64_t s, const Tensor& indices, int64_t row) const {
    return positions(indices, in.block, seen(in.mode, row, queries.length(s), keys.length(s)));
  }
  // visit(row, head, positions) for each row of a sequence.
  template <class Visit>
  void rows(int64_t s, Visit&& visit) const {
    const auto indices = queries.of(in.indices, s);
    for (const auto row : c10::irange(queries.length(s)))
      for (const auto head : c10::irange(indices.size(1))) visit(row, head, chosen(s, indices[row][head], row));
  }
  int64_t group() const { return in.query.size(-2) / in.key.size(-2); }
  Tensor heads(const Tensor& t, int64_t row, int64_t head) const {  // those of the query that share one of the keys
    return t.select(0, row).narrow(0, head * group(), group());
  }

  const Attention& in;
  Sequences queries, keys;
};

void zero(const Optional& t) {
  if (t) t->zero_();
}

// keys_of(sequence)(head, positions) gives keys and values in float32.
template <class KeysOf>
void run(Tensor& out, const Optional& max, const Optional& sum, const Attention& in, KeysOf&& keys_of) {
  const Call call(in);
  out.zero_(), zero(max), zero(sum);
  for (const auto s : c10::irange(call.queries.count())) {
    const auto query = joined(call.queries.of(in.query, s), part(call.queries, in.query_rope, s));
    const auto result = call.queries.of(out, s);
    const auto keys = keys_of(call, s);
    call.rows(s, [&](int64_t row, int64_t head, const Tensor& positions) {
      const auto [key, value] = keys(head, positions);
      const auto sink = in.sinks ? in.sinks->narrow(0, head * call.group(), call.group()).to(at::kFloat) : Tensor();
      const auto attended = attend(call.heads(query, row, head).to(at::kFloat), key, value, in.scale, sink);
      call.heads(result, row, head).copy_(attended.out);
      if (max && max->numel()) call.queries.statistics(*max, s)[head][row].copy_(attended.max);
      if (sum && sum->numel()) call.queries.statistics(*sum, s)[head][row].copy_(attended.sum);
    });
  }
}

Tensor taken(const Tensor& t, int64_t head, const Tensor& positions) {
  return t.select(1, head).index_select(0, positions).to(at::kFloat);
}

void check_common(const Attention& in) {
  using namespace require;
  check_layouts(in.query, in.layout, in.q_lengths.has_value(), in.key, in.kv_layout, in.kv_lengths.has_value(),
                in.block_table);
  that(in.block > 0, "argument 'sparse_block_size' is not positive");
  rank(in.indices, "sparse_indices", in.query.dim(), in.query.dim());
  auto sizes = in.query.sizes().vec();
  sizes[sizes.size() - 2] = in.key.size(-2);
  sizes.back() = in.indices.size(-1);
  shape(in.indices, "sparse_indices", sizes);
  that(!in.sinks || in.sinks->sizes() == IntArrayRef{in.query.size(-2)}, "argument 'sinks' has no number of each head");
}

void same_but_last(const Optional& t, const char* name, const Tensor& other) {
  if (t) require::last_sizes(*t, name, other, {t->dim() ? t->size(-1) : 0});
}

void check_statistics(const Attention& in, const Optional& t, const char* name) {
  const int64_t heads = in.key.size(-2), group = in.query.size(-2) / heads;
  if (!t || t->numel() == 0) return;
  require::that(t->scalar_type() == at::kFloat, "the statistics of softmax are not float32");
  if (in.layout == "TND")
    require::shape(t, name, {heads, in.query.size(0), group});
  else
    require::shape(t, name, {in.query.size(0), heads, in.query.size(1), group});
}

}  // namespace

void check(const Attention& in, const Tensor& out, const Optional& max, const Optional& sum) {
  using namespace require;
  check_common(in);
  one_type({in.query, in.key, in.value, in.query_rope, in.key_rope, out});
  that(in.query.size(-1) == in.key.size(-1), "the heads of query and key have different sizes");
  that(in.query_rope.has_value() == in.key_rope.has_value(), "'query_rope' and 'key_rope' come together");
  same_but_last(in.value, "value", in.key);
  same_but_last(in.query_rope, "query_rope", in.query);
  same_but_last(in.key_rope, "key_rope", in.key);
  if (in.query_rope) that(in.query_rope->size(-1) == in.key_rope->size(-1), "the ropes have different sizes");
  last_sizes(out, "the result", in.query, {(in.value ? *in.value : in.key).size(-1)});
  check_statistics(in, max, "softmax_max");
  check_statistics(in, sum, "softmax_sum");
}

void attention(Tensor& out, const Optional& max, const Optional& sum, const Attention& in) {
  run(out, max, sum, in, [&](const Call& call, int64_t s) {
    const auto key = call.keys.of(in.key, s), value = in.value ? call.keys.of(*in.value, s) : key;
    return [key, value, rope = part(call.keys, in.key_rope, s)](int64_t head, const Tensor& positions) {
      const auto own = taken(key, head, positions);
      return std::pair(rope ? at::cat({own, taken(*rope, head, positions)}, -1) : own, taken(value, head, positions));
    };
  });
}

void check_backward(const Attention& in, const Gradients& gradients, const Tensor& dy, const Tensor& out,
                    const Tensor& max, const Tensor& sum) {
  using namespace require;
  check(in, out, max, sum);
  like(dy, "d_out", out);
  that(max.numel() && sum.numel(), "softmax_max and softmax_sum are empty: the forward pass returns them if asked");
  like(gradients.query, "d_query", in.query);
  like(gradients.key, "d_key", in.key);
  if (in.value) like(gradients.value, "d_value", *in.value);
  if (in.query_rope) like(gradients.query_rope, "d_query_rope", *in.query_rope);
  if (in.key_rope) like(gradients.key_rope, "d_key_rope", *in.key_rope);
}

void backward(const Gradients& gradients, const Tensor& dy, const Tensor& out, const Tensor& max, const Tensor& sum,
              const Attention& in) {
  const Call call(in);
  gradients.query.zero_(), gradients.key.zero_();
  zero(gradients.value), zero(gradients.query_rope), zero(gradients.key_rope);
  const int64_t size = in.query.size(-1);
  for (const auto s : c10::irange(call.queries.count())) {
    const auto query = joined(call.queries.of(in.query, s), part(call.queries, in.query_rope, s));
    const auto key = joined(call.keys.of(in.key, s), part(call.keys, in.key_rope, s));
    const auto value = call.keys.of(in.value ? *in.value : in.key, s);
    const auto d_query = at::zeros(query.sizes(), at::kFloat), d_key = at::zeros(key.sizes(), at::kFloat),
               d_value = at::zeros(value.sizes(), at::kFloat);
    const auto own_dy = call.queries.of(dy, s), own_out = call.queries.of(out, s);
    const auto own_max = call.queries.statistics(max, s), own_sum = call.queries.statistics(sum, s);
    call.rows(s, [&](int64_t row, int64_t head, const Tensor& positions) {
      if (positions.numel() == 0) return;
      const auto of = [&](const Tensor& t) { return call.heads(t, row, head).to(at::kFloat); };
      const auto slope = slopes(of(query), taken(key, head, positions), taken(value, head, positions), in.scale,
                                of(own_dy), of(own_out), own_max[head][row], own_sum[head][row]);
      call.heads(d_query, row, head).copy_(slope.query);
      d_key.select(1, head).index_add_(0, positions, slope.key);
      d_value.select(1, head).index_add_(0, positions, slope.value);
    });
    if (!in.value) d_key.narrow(2, 0, size).add_(d_value);
    call.queries.of(gradients.query, s).copy_(d_query.narrow(2, 0, size));
    call.keys.of(gradients.key, s).copy_(d_key.narrow(2, 0, size));
    if (in.value) call.keys.of(*gradients.value, s).copy_(d_value);
    if (in.query_rope) {
      call.queries.of(*gradients.query_rope, s).copy_(d_query.narrow(2, size, in.query_rope->size(-1)));
      call.keys.of(*gradients.key_rope, s).copy_(d_key.narrow(2, size, in.key_rope->size(-1)));
    }
  }
}

void check_packed(const Attention& in, const Packed& packed, const Tensor& out) {
  using namespace require;
  check_common(in);
  const int64_t size = in.query.size(-1) - packed.rope;
  that(packed.tile > 0 && packed.rope >= 0 && size > 0, "arguments 'tile_size' and 'rope_head_dim' leave no numbers");
  that(in.key.element_size() == 1, "argument 'key' is not of 8 bits");
  that(size % packed.tile == 0, "argument 'tile_size' does not divide the size of the heads");
  that(in.key.size(-1) == size + packed.rope * in.query.element_size() + size / packed.tile * 4,
       "argument 'key' has another size than its numbers, their rotated part and the scales of their tiles take");
  one_type({in.query, out});
  last_sizes(out, "the result", in.query, {size});
}

void packed_attention(Tensor& out, const Attention& in, const Packed& packed) {
  const int64_t size = in.query.size(-1) - packed.rope, tiles = size / packed.tile;
  run(out, std::nullopt, std::nullopt, in, [&](const Call& call, int64_t s) {
    return [&, bytes = call.keys.of(in.key, s)](int64_t head, const Tensor& positions) {
      const auto token = bytes.select(1, head).index_select(0, positions);
      const auto cut = [&](int64_t begin, int64_t length) { return token.narrow(1, begin, length).clone(); };
      const int64_t rope = packed.rope * in.query.element_size();
      const auto scale = cut(size + rope, tiles * 4).view(at::kFloat).unsqueeze(2);
      const auto numbers = cut(0, size).to(at::kFloat).view({-1, tiles, packed.tile}).mul(scale).flatten(1);
      return std::pair(at::cat({numbers, cut(size, rope).view(in.query.scalar_type()).to(at::kFloat)}, 1), numbers);
    };
  });
}

}  // namespace softnpu::kernels::sparse
