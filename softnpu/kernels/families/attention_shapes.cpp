// What fused attention requires of its arguments' shapes.
#include <c10/util/irange.h>

#include "kernels/engine/require.h"
#include "kernels/families/attention.h"

namespace softnpu::kernels::attention {

namespace {

using require::that;

struct Sizes {
  int64_t batch, heads, length, size;
};

// `heads` for the layouts that do not tell.
Sizes sizes_of(const Tensor& t, const char* name, const std::string& layout, int64_t heads) {
  const bool apart = layout == "BNSD" || layout == "BSND";
  require::rank(t, name, apart ? 4 : 3, apart ? 4 : 3);
  if (layout == "BNSD") return {t.size(0), t.size(1), t.size(2), t.size(3)};
  if (layout == "BSND") return {t.size(0), t.size(2), t.size(1), t.size(3)};
  that(heads > 0 && t.size(2) % heads == 0, "the last sizes of query, key and value are not whole numbers of heads");
  if (layout == "BSH") return {t.size(0), heads, t.size(1), t.size(2) / heads};
  return {t.size(1), heads, t.size(0), t.size(2) / heads};
}

void spreads_over(const Optional& t, const char* name, IntArrayRef sizes) {
  if (!t || !t->defined()) return;
  require::rank(*t, name, 0, static_cast<int64_t>(sizes.size()));
  std::vector<int64_t> expected(sizes.end() - t->dim(), sizes.end());
  for (const auto d : c10::irange(t->dim()))
    if (t->size(d) == 1) expected[d] = 1;
  require::shape(t, name, expected);
}

}  // namespace

void check(const Inputs& in, std::initializer_list<Optional> results, const Optional& softmax_max,
           const Optional& softmax_sum) {
  const auto& layout = in.layout;
  that(layout == "BNSD" || layout == "BSND" || layout == "BSH" || layout == "SBH",
       "argument 'input_layout' is not one of BNSD, BSND, BSH, SBH");
  const Sizes q = sizes_of(in.query, "query", layout, in.heads);
  that(q.heads == in.heads && in.heads > 0, "argument 'head_num' is not the number of query's heads");
  require::rank(in.key, "key", in.query.dim(), in.query.dim());
  const int64_t kv_heads = layout == "BNSD"   ? in.key.size(1)
                           : layout == "BSND" ? in.key.size(2)
                           : q.size > 0       ? in.key.size(2) / q.size
                                              : 0;
  that(kv_heads > 0 && in.heads % kv_heads == 0, "the number of key's heads does not divide that of query's");
  const Sizes k = sizes_of(in.key, "key", layout, kv_heads), v = sizes_of(in.value, "value", layout, kv_heads);
  that(k.batch == q.batch && k.size == q.size, "key has another batch or size of heads than query");
  that(v.batch == k.batch && v.heads == k.heads && v.length == k.length,
       "value has another batch, length or number of heads than key");
  const int64_t last = in.query.dim() == 4 ? v.size : v.size * in.heads;
  for (const auto& result : results)
    if (result) require::last_sizes(*result, "attention_out or dy", in.query, {last});
  const std::vector<int64_t> scores{q.batch, q.heads, q.length, k.length};
  spreads_over(in.pse, "pse", scores);
  if (in.sparse_mode < 2) spreads_over(in.atten_mask, "atten_mask", scores);
  for (const auto& t : {softmax_max, softmax_sum}) {
    if (!t || t->numel() == 0) continue;
    require::rank(*t, "softmax_max or softmax_sum", 4, 4);
    require::shape(t, "softmax_max or softmax_sum", {q.batch, q.heads, q.length, t->size(3)});
    that(t->scalar_type() == at::kFloat, "softmax_max or softmax_sum is not float32");
    if (softmax_max) require::numbers(t, "softmax_sum", softmax_max->numel());
  }
}

}  // namespace softnpu::kernels::attention
