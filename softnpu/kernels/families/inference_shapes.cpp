#include "kernels/families/inference_shapes.h"

#include <c10/util/irange.h>

#include <algorithm>
#include <numeric>

#include "kernels/engine/require.h"

namespace softnpu::kernels::infer {

namespace {

using require::that;

constexpr Layout kLayouts[] = {
    {"BSH", "BSH", "BSH"},         {"BSND", "BSND", "BSND"},      {"BNSD", "BNSD", "BNSD"},
    {"TND", "TND", "TND"},         {"NTD", "NTD", "NTD"},         {"NSD", "NSD", "NSD"},
    {"BNSD_BSND", "BNSD", "BSND"}, {"BSH_BNSD", "BSH", "BNSD"},   {"BSND_BNSD", "BSND", "BNSD"},
    {"NTD_TND", "NTD", "TND"},     {"TND_NTD", "TND", "NTD"},     {"BSH_NBSD", "BSH", "NBSD"},
    {"BSND_NBSD", "BSND", "NBSD"}, {"BNSD_NBSD", "BNSD", "NBSD"},
};

const Layout& find(const std::string& name) {
  const auto* found =
      std::find_if(std::begin(kLayouts), std::end(kLayouts), [&](const Layout& l) { return l.name == name; });
  that(found != std::end(kLayouts),
       "argument 'input_layout' is not one of BSH, BSND, BNSD, TND, NTD, NSD, BNSD_BSND, "
       "BSH_BNSD, BSND_BNSD, NTD_TND, TND_NTD, BSH_NBSD, BSND_NBSD, BNSD_NBSD");
  return *found;
}

// `t` apart, of a shape that allows it.
Tensor checked(const Tensor& t, const char* name, std::string_view layout, int64_t heads) {
  const int64_t rank = layout.size() == 4 ? 4 : 3;
  require::rank(t, name, rank, rank);
  that(layout != "BSH" || t.size(2) % heads == 0,
       "the last size of query, key or value is not a whole number of heads");
  const auto result = apart(t, layout, heads);
  that(result.size(1) == heads,
       "query has another number of heads than num_heads, or key or value than num_key_value_heads");
  return result;
}

// One length for all, or one each.
std::vector<Place> lengths(at::IntArrayRef given, int64_t batch, int64_t most) {
  that(given.size() == 1 || static_cast<int64_t>(given.size()) >= batch,
       "a list of lengths has neither one number nor one for each sequence");
  std::vector<Place> places;
  for (const auto b : c10::irange(batch)) {
    const int64_t length = given[given.size() == 1 ? 0 : b];
    that(length >= 0 && length <= most,
         "a length in actual_seq_lengths or actual_seq_lengths_kv is negative, or more than there are tokens");
    places.push_back({0, length});
  }
  return places;
}

std::vector<Place> between(at::IntArrayRef ends, int64_t batch, int64_t most) {
  that(static_cast<int64_t>(ends.size()) >= batch, "actual_seq_lengths_kv has fewer ends than actual_seq_lengths");
  std::vector<Place> places;
  int64_t begin = 0;
  for (const auto b : c10::irange(batch)) {
    that(ends[b] >= begin && ends[b] <= most,
         "the ends in actual_seq_lengths or actual_seq_lengths_kv fall, or pass the last token");
    places.push_back({begin, ends[b] - begin});
    begin = ends[b];
  }
  return places;
}

// (batch, heads, tokens, size) of a list of keys or values, where batch counts tensors if there are several.
std::array<int64_t, 4> sizes_of(const std::vector<Tensor>& list, const char* name, const Shapes& s) {
  that(!list.empty() && list[0].defined(), "key or value is missing");
  const auto first = checked(list[0], name, s.layout.in, s.kv_heads);
  for (const auto& t : list) {
    that(t.defined(), "a tensor of key or value is missing");
    const auto each = checked(t, name, s.layout.in, s.kv_heads);
    that(each.size(2) == first.size(2) && each.size(3) == first.size(3), "the tensors of key or value differ in shape");
    that(list.size() == 1 || each.size(0) == 1, "a tensor of several in key or value has more than one batch");
  }
  that(s.ragged || (list.size() == 1 ? first.size(0) == s.batch : static_cast<int64_t>(list.size()) >= s.batch),
       "key or value has another batch than query");
  return {first.size(0), first.size(1), first.size(2), first.size(3)};
}

int64_t paged_size(const Tensor& cache, const char* name, const Inputs& in, const Shapes& s) {
  require::rank(cache, name, 3, 5);
  that(cache.dim() != 3 || cache.size(2) % s.kv_heads == 0,
       "the last size of a paged key or value is not a whole number of heads");
  const auto pages = paged(cache, s.kv_heads);
  that(pages.size(1) == s.kv_heads && pages.size(2) == in.block_size,
       "a paged key or value is not (blocks, block_size, heads * size), (blocks, heads, block_size, size) or (blocks, "
       "heads, size / 16, block_size, 16)");
  return pages.dim() == 5 ? pages.size(3) * pages.size(4) : pages.size(3);
}

int64_t longest(const std::vector<Place>& places) {
  int64_t most = 0;
  for (const auto& place : places) most = std::max(most, place.length);
  return most;
}

// A mask or bias (sequences, heads, rows, columns), of which the first may be absent or one.
void check_scores(const Tensor& t, const char* name, const Inputs& in, const Shapes& s) {
  require::rank(t, name, 2, 4);
  const bool by_sequence = t.dim() == 2 && s.q_rows == 1 && !s.ragged && t.size(0) == s.batch;
  const int64_t rows = in.query_padding ? s.q_rows : longest(s.queries);
  const bool fits = (by_sequence || t.size(-2) >= rows) && t.size(-1) >= s.prefix + longest(s.keys) &&
                    (t.dim() < 3 || t.size(0) == 1 || t.size(0) >= s.batch) &&
                    (t.dim() < 4 || t.size(1) == 1 || t.size(1) == in.heads);
  that(fits,
       (std::string("argument '") + name + "' has fewer sequences, rows or columns than there are, or other heads")
           .c_str());
}

// Factors of quantised keys or values, in the shape of their mode.
void check_factor(const Optional& given, const char* name, int64_t mode, int64_t size, const Inputs& in,
                  const Shapes& s) {
  if (!given) return;
  const auto& x = *given;
  const int64_t tokens = in.kv_padding ? s.kv_rows : longest(s.keys), heads = s.kv_heads;
  const bool per_token = (!s.ragged || in.block_table) && x.dim() > 1 && x.size(-1) >= tokens && x.size(-1) > 0;
  const auto pages = [&](IntArrayRef rest) {
    return in.block_table && x.dim() > 1 && x.size(0) == in.keys[0].size(0) && x.sizes().slice(1) == rest;
  };
  bool fits = false;
  switch (mode) {
    case 0:
      fits = x.numel() == 1 || x.numel() == heads * size;
      break;
    case 1:
      fits = per_token && x.numel() >= s.batch * x.size(-1);
      break;
    case 2:
      fits = x.numel() == heads;
      break;
    case 3:
      fits = per_token && x.dim() > 2 && x.size(-2) == heads && x.numel() >= s.batch * heads * x.size(-1);
      break;
    case 4:
      fits = pages({in.block_size});
      break;
    case 5:
      fits = pages({heads, in.block_size});
      break;
  }
  that(fits,
       (std::string("argument '") + name + "' has not the shape of mode " + std::to_string(mode) + ", one of 0 to 5")
           .c_str());
}

}  // namespace

Tensor apart(const Tensor& t, std::string_view layout, int64_t heads) {
  if (layout == "BSND") return t.transpose(1, 2);
  if (layout == "BSH") return t.unflatten(2, {heads, t.size(2) / heads}).transpose(1, 2);
  if (layout == "NBSD") return t.transpose(0, 1);
  if (layout == "TND") return t.transpose(0, 1).unsqueeze(0);
  if (layout == "NTD" || layout == "NSD") return t.unsqueeze(0);
  return t;
}

Tensor paged(const Tensor& cache, int64_t heads) {
  if (cache.dim() == 3) return cache.unflatten(2, {heads, cache.size(2) / heads}).transpose(1, 2);
  return cache.dim() == 4 ? cache : cache.permute({0, 1, 3, 2, 4});
}

bool Shapes::all_rows(const Inputs& in) const {
  const int64_t used = std::accumulate(queries.begin(), queries.end(), int64_t{0},
                                       [](int64_t n, const Place& p) { return n + p.length; });
  return used == (ragged ? q_rows : q_rows * batch) && !in.query_padding;
}

Shapes shapes(const Inputs& in) {
  Shapes s;
  s.layout = find(in.layout);
  s.ragged = s.layout.in == "TND" || s.layout.in == "NTD";
  s.kv_heads = in.kv_heads ? in.kv_heads : in.heads;
  that(in.heads > 0 && s.kv_heads > 0 && in.heads % s.kv_heads == 0,
       "num_heads is not a multiple of num_key_value_heads");
  const auto query = checked(in.query, "query", s.layout.in, in.heads);
  s.q_rows = query.size(2);
  s.batch = s.ragged ? static_cast<int64_t>(in.q_lengths.size()) : query.size(0);
  that(!s.ragged || s.batch > 0, "layouts TND and NTD need actual_seq_lengths, the end of each sequence");
  if (s.ragged)
    s.queries = between(in.q_lengths, s.batch, s.q_rows);
  else if (in.q_lengths.empty() || (in.single_token && s.q_rows == 1))
    s.queries.assign(s.batch, {0, s.q_rows});
  else
    s.queries = lengths(in.q_lengths, s.batch, s.q_rows);

  int64_t key_size = 0;
  if (in.block_table) {
    const auto& table = *in.block_table;
    require::rank(table, "block_table", 2, 2);
    that(table.scalar_type() == at::kInt || table.scalar_type() == at::kLong, "block_table is neither int32 nor int64");
    that(table.size(0) >= s.batch, "block_table has fewer rows than there are sequences");
    that(in.block_size > 0 && !in.kv_lengths.empty(), "a paged cache needs block_size and actual_seq_lengths_kv");
    that(in.keys.size() == 1 && in.values.size() == 1, "a paged cache is one key and one value");
    key_size = paged_size(in.keys[0], "key", in, s);
    paged_size(in.values[0], "value", in, s);
    that(in.keys[0].size(0) == in.values[0].size(0), "the paged key and value have other numbers of blocks");
    that(!in.key_prefix && !in.kv_padding && !in.query_padding,
         "a paged cache takes neither a shared prefix nor paddings");
    s.kv_rows = table.size(1) * in.block_size;
    s.keys = lengths(in.kv_lengths, s.batch, s.kv_rows);
  } else {
    const auto k = sizes_of(in.keys, "key", s), v = sizes_of(in.values, "value", s);
    that(k[2] == v[2] && k[0] == v[0] && in.keys.size() == in.values.size(),
         "key and value have other numbers of tokens");
    key_size = k[3];
    s.kv_rows = k[2];
    if (s.ragged) {
      that(!in.kv_lengths.empty(), "layouts TND and NTD need actual_seq_lengths_kv, the end of each sequence");
      s.keys = between(in.kv_lengths, s.batch, s.kv_rows);
    } else if (in.kv_lengths.empty()) {
      s.keys.assign(s.batch, {0, s.kv_rows});
    } else {
      s.keys = lengths(in.kv_lengths, s.batch, s.kv_rows);
    }
  }
  that(key_size == query.size(3), "key has another size of heads than query");
  that(in.query_rope.has_value() == in.key_rope.has_value(), "query_rope and key_rope come together");
  if (in.query_rope) {
    const auto rope = checked(*in.query_rope, "query_rope", s.layout.in, in.heads);
    that(rope.size(0) == query.size(0) && rope.size(2) == query.size(2), "query_rope has another shape than query");
    int64_t size = 0;
    if (in.block_table) {
      size = paged_size(*in.key_rope, "key_rope", in, s);
      that(in.key_rope->size(0) == in.keys[0].size(0), "key_rope has another number of blocks than key");
    } else {
      const auto k = sizes_of({*in.key_rope}, "key_rope", s);
      that(in.keys.size() == 1 && k[2] == s.kv_rows, "key_rope has another number of tokens than key");
      size = k[3];
    }
    that(size == rope.size(3), "query_rope and key_rope have other sizes of heads");
  }
  that(in.key_prefix.has_value() == in.value_prefix.has_value(),
       "key_shared_prefix and value_shared_prefix come together");
  s.prefix = 0;
  if (in.key_prefix) {
    that(!s.ragged && !in.key_rope, "a shared prefix needs a layout with a batch, and no rotary parts");
    const auto k = checked(*in.key_prefix, "key_shared_prefix", s.layout.in, s.kv_heads);
    const auto v = checked(*in.value_prefix, "value_shared_prefix", s.layout.in, s.kv_heads);
    that(k.size(0) == 1 && v.size(0) == 1 && k.size(2) == v.size(2) && k.size(3) == key_size,
         "the shared prefix has another shape than key and value, or a batch");
    s.prefix = in.prefix_length.empty() ? k.size(2) : in.prefix_length[0];
    that(s.prefix >= 0 && s.prefix <= k.size(2), "actual_shared_prefix_len is negative, or more than there are tokens");
  }
  return s;
}

void check(const Inputs& in, const Tensor& out, const Optional& lse) {
  const Shapes s = shapes(in);
  for (const auto& t : in.keys)
    that(t.scalar_type() != at::kInt, "key and value of int4 numbers, packed as int32, are not computed here");
  that(in.query.is_floating_point(),
       "a quantised query is not computed here: query must be float16, bfloat16 or float32");
  const auto& value = in.values[0];
  const int64_t size =
      in.block_table ? paged_size(value, "value", in, s) : apart(value, s.layout.in, s.kv_heads).size(3);
  const auto query = apart(in.query, s.layout.in, in.heads),
             result = checked(out, "attention_out", s.layout.out, in.heads);
  require::shape(result, "attention_out", {query.size(0), in.heads, s.q_rows, size});
  if (lse && lse->numel())
    s.ragged ? require::shape(lse, "softmax_lse", {s.q_rows, in.heads, 1})
             : require::shape(lse, "softmax_lse", {s.batch, in.heads, s.q_rows, 1});
  that(in.sparse_mode >= 0 && in.sparse_mode <= 4, "argument 'sparse_mode' is not one of 0 to 4");
  const bool ignored = in.single_token && s.single(in);
  that(in.mask || in.sparse_mode == 0 || ignored, "sparse_mode 1 to 4 needs atten_mask");
  if (in.mask && in.sparse_mode < 2) check_scores(*in.mask, "atten_mask", in, s);
  if (in.pse) check_scores(*in.pse, "pse_shift", in, s);
  const int64_t key_size = query.size(3);
  check_factor(in.key_scale, "key_antiquant_scale", in.key_mode, key_size, in, s);
  check_factor(in.key_offset, "key_antiquant_offset", in.key_mode, key_size, in, s);
  check_factor(in.value_scale, "value_antiquant_scale", in.value_mode, size, in, s);
  check_factor(in.value_offset, "value_antiquant_offset", in.value_mode, size, in, s);
  for (const auto& both : {in.antiquant_scale, in.antiquant_offset}) {
    if (!both || in.key_scale) continue;
    that(both->dim() > 0 && both->size(0) == 2,
         "antiquant_scale or antiquant_offset has not one half each for key and value");
    check_factor(both->select(0, 0), "antiquant_scale or antiquant_offset", in.antiquant_mode, key_size, in, s);
    check_factor(both->select(0, 1), "antiquant_scale or antiquant_offset", in.antiquant_mode, size, in, s);
  }
  for (const auto& each : {in.quant_scale, in.quant_offset})
    that(!each || each->numel() == 1 || each->numel() == in.heads * size,
         "quant_scale2 or quant_offset2 has neither one number nor one for each of a token");
  if (in.sink) require::numbers(in.sink, "learnable_sink", in.heads);
}

void absent(std::initializer_list<Named> tensors) {
  for (const auto& [name, t] : tensors)
    that(!t || t->numel() == 0, (std::string("argument '") + name + "' is not computed here, leave it out").c_str());
}

}  // namespace softnpu::kernels::infer
