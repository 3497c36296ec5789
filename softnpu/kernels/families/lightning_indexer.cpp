#include "kernels/families/lightning_indexer.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/util/irange.h>

#include <limits>

#include "kernels/engine/require.h"

namespace softnpu::kernels::sparse {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kMostScores = int64_t{1} << 22;  // of all heads, that are held at once

struct Call {
  explicit Call(const Indexer& in)
      : in(in),
        queries(in.layout, in.query, in.q_lengths, "actual_seq_lengths_query"),
        keys(in.key_layout, in.key, in.k_lengths, "actual_seq_lengths_key", in.block_table) {
    TORCH_CHECK(queries.count() == keys.count(), "query and keys have ", queries.count(), " and ", keys.count(),
                " sequences");
  }
  int64_t seen(int64_t s, int64_t row) const { return sparse::seen(in.mode, row, queries.length(s), keys.length(s)); }
  int64_t heads() const { return in.key.size(-2); }
  int64_t group() const { return in.query.size(-2) / heads(); }

  const Indexer& in;
  Sequences queries, keys;
};

// visit(sequence, head of the keys, first row, scores (rows, keys)) with -inf where a row does not see a key.
template <class Visit>
void scores(const Call& call, Visit&& visit) {
  const auto& in = call.in;
  for (const auto s : c10::irange(call.queries.count())) {
    const int64_t rows = call.queries.length(s), length = call.keys.length(s), group = call.group();
    const int64_t step = std::max<int64_t>(1, kMostScores / std::max<int64_t>(1, group * length));
    for (const auto head : c10::irange(call.heads())) {
      const auto part = [&](const Tensor& t, int64_t first, int64_t count) {
        return call.queries.of(t, s).narrow(0, first, count).narrow(1, head * group, group).to(at::kFloat);
      };
      const auto key = call.keys.of(in.key, s).select(1, head).to(at::kFloat);
      for (int64_t first = 0; first < rows; first += step) {
        const int64_t count = std::min(step, rows - first);
        auto weights = part(in.weights, first, count);
        if (in.query_scale) weights = weights * part(*in.query_scale, first, count);
        const auto products = at::matmul(part(in.query, first, count), key.t()).relu_();  // (rows, group, keys)
        auto sums = at::bmm(weights.unsqueeze(1), products).squeeze(1);
        if (in.key_scale) sums.mul_(call.keys.of(*in.key_scale, s).select(1, head).to(at::kFloat));
        for (const auto row : c10::irange(count)) {
          const int64_t end = call.seen(s, first + row);
          sums[row].narrow(0, end, length - end).fill_(-kInfinity);
        }
        visit(s, head, first, sums);
      }
    }
  }
}

void check_indexer(const Indexer& in) {
  using namespace require;
  check_layouts(in.query, in.layout, in.q_lengths.has_value(), in.key, in.key_layout, in.k_lengths.has_value(),
                in.block_table);
  that(in.query.size(-1) == in.key.size(-1), "the heads of query and key have different sizes");
  const auto weights = in.query.sizes().slice(0, in.query.dim() - 1);
  shape(in.weights, "weights", weights);
  shape(in.query_scale, "query_dequant_scale", weights);
  shape(in.key_scale, "key_dequant_scale", in.key.sizes().slice(0, in.key.dim() - 1));
}

// (..., keys' heads, count) of a tensor that may lack the dimension of the one head.
Tensor with_head(const Tensor& t, const Tensor& query) { return t.dim() < query.dim() ? t.unsqueeze(-2) : t; }

// One row of one head of the keys: what a change of its scores at `positions` gives.
struct Row {
  const Call& call;
  int64_t s, row, head;

  Tensor of_query(const Tensor& t) const {
    return call.queries.of(t, s).select(0, row).narrow(0, head * call.group(), call.group());
  }
  // `key` (positions, size) and `products` (group, positions) are float32.
  void give(const IndexerGradients& gradients, const Tensor& key_sums, const Tensor& positions, const Tensor& key,
            const Tensor& products, const Tensor& change) const {
    const auto query = of_query(call.in.query).to(at::kFloat), weights = of_query(call.in.weights).to(at::kFloat);
    const auto slope = weights.unsqueeze(1) * change * (products > 0);
    of_query(gradients.weights).copy_(at::mv(products.relu(), change));
    of_query(gradients.query).copy_(at::mm(slope, key));
    key_sums.select(1, head).index_add_(0, positions, at::mm(slope.t(), query));
  }
};

void zero(const IndexerGradients& gradients) {
  gradients.query.zero_(), gradients.key.zero_(), gradients.weights.zero_();
}

}  // namespace

void check_top(const Indexer& in, const Tensor& indices, const Optional& values) {
  using namespace require;
  check_indexer(in);
  rank(indices, "sparse_indices", in.query.dim(), in.query.dim());
  last_sizes(indices, "sparse_indices", in.query, {in.key.size(-2), indices.size(-1)});
  if (values && values->numel()) like(values, "sparse_values", indices);
}

void top(Tensor& indices, const Optional& values, const Indexer& in) {
  const Call call(in);
  const bool wanted = values && values->numel();
  indices.fill_(-1);
  if (wanted) values->fill_(-kInfinity);
  scores(call, [&](int64_t s, int64_t head, int64_t first, const Tensor& sums) {
    const int64_t count = std::min(indices.size(-1), sums.size(1)), rows = sums.size(0);
    const auto [best, places] = at::sort(sums, /*stable=*/true, 1, /*descending=*/true);
    const auto into = [&](const Tensor& t) {
      return call.queries.of(t, s).narrow(0, first, rows).select(1, head).narrow(1, 0, count);
    };
    into(indices).copy_(places.narrow(1, 0, count));
    if (wanted) into(*values).copy_(best.narrow(1, 0, count));
    for (const auto row : c10::irange(rows)) {
      const int64_t end = std::min(call.seen(s, first + row), count);
      into(indices)[row].narrow(0, end, count - end).fill_(-1);
    }
  });
}

void check_top_backward(const IndexerGradients& gradients, const Tensor& dy, const Tensor& indices, const Indexer& in) {
  using namespace require;
  check_indexer(in);
  like(dy, "dy", indices);
  rank(indices, "sparse_indices", in.query.dim() - 1, in.query.dim());
  last_sizes(with_head(indices, in.query), "sparse_indices", in.query, {in.key.size(-2), indices.size(-1)});
  like(gradients.query, "d_query", in.query);
  like(gradients.key, "d_key", in.key);
  like(gradients.weights, "d_weights", in.weights);
}

void top_backward(const IndexerGradients& gradients, const Tensor& dy, const Tensor& indices, const Indexer& in) {
  const Call call(in);
  zero(gradients);
  const auto places = with_head(indices, in.query), slopes = with_head(dy, in.query);
  for (const auto s : c10::irange(call.queries.count())) {
    const auto key_sums = at::zeros(call.keys.of(in.key, s).sizes(), at::kFloat);
    for (const auto row : c10::irange(call.queries.length(s)))
      for (const auto head : c10::irange(call.heads())) {
        const Row own{call, s, row, head};
        const auto place = call.queries.of(places, s)[row][head].to(at::kLong);
        const auto kept = at::nonzero(at::logical_and(place >= 0, place < call.seen(s, row))).flatten();
        const auto positions = place.index_select(0, kept);
        const auto key = call.keys.of(in.key, s).select(1, head).index_select(0, positions).to(at::kFloat);
        const auto products = at::mm(own.of_query(in.query).to(at::kFloat), key.t());
        own.give(gradients, key_sums, positions, key, products,
                 call.queries.of(slopes, s)[row][head].index_select(0, kept).to(at::kFloat));
      }
    call.keys.of(gradients.key, s).copy_(key_sums);
  }
}

void check_softmax(const Tensor& max, const Tensor& sum, const Indexer& in) {
  using namespace require;
  check_indexer(in);
  if (in.layout == "TND")
    shape(max, "softmax_max", {in.key.size(1), in.query.size(0)});
  else
    shape(max, "softmax_max", {in.query.size(0), in.key.size(2), in.query.size(1)});
  like(sum, "softmax_sum", max);
  that(max.scalar_type() == at::kFloat && sum.scalar_type() == at::kFloat, "the statistics of softmax are not float32");
}

void softmax(Tensor& max, Tensor& sum, const Indexer& in) {
  const Call call(in);
  max.zero_(), sum.zero_();
  scores(call, [&](int64_t s, int64_t head, int64_t first, const Tensor& sums) {
    if (sums.size(1) == 0) return;
    auto highest = sums.amax({1});
    highest = highest.masked_fill(highest == -kInfinity, 0);  // a row that sees nothing
    const auto into = [&](const Tensor& t) {
      return call.queries.statistics(t, s)[head].narrow(0, first, sums.size(0));
    };
    into(max).copy_(highest);
    into(sum).copy_((sums - highest.unsqueeze(1)).exp_().sum({1}));
  });
}

void check_align(const IndexerGradients& gradients, const Tensor& loss, const Teacher& teacher, const Indexer& in) {
  using namespace require;
  check_indexer(in);
  check_layouts(teacher.query, in.layout, in.q_lengths.has_value(), teacher.key, in.layout, in.k_lengths.has_value(),
                {});
  that(in.key.size(-2) == 1, "argument 'key_index' has more than one head");
  that(teacher.query.size(-1) == teacher.key.size(-1), "the heads of query and key have different sizes");
  const auto rows = in.query.sizes().slice(0, in.query.dim() - 2);
  that(teacher.query.sizes().slice(0, rows.size()) == rows, "query and query_index have different tokens");
  that(teacher.key.sizes().slice(0, rows.size()) == in.key.sizes().slice(0, rows.size()),
       "key and key_index have different tokens");
  that(teacher.query_rope.has_value() == teacher.key_rope.has_value(), "'query_rope' and 'key_rope' come together");
  if (teacher.query_rope) {
    last_sizes(*teacher.query_rope, "query_rope", teacher.query, {teacher.query_rope->size(-1)});
    last_sizes(*teacher.key_rope, "key_rope", teacher.key, {teacher.query_rope->size(-1)});
  }
  const int64_t heads = teacher.key.size(-2), group = teacher.query.size(-2) / heads;
  auto sizes = in.layout == "TND" ? std::vector<int64_t>{heads, rows[0], group}
                                  : std::vector<int64_t>{rows[0], heads, rows[1], group};
  shape(teacher.max, "softmax_max", sizes);
  shape(teacher.sum, "softmax_sum", sizes);
  if (teacher.sinks) shape(*teacher.sinks, "sinks", {heads * group});
  sizes.pop_back();
  sizes[sizes.size() - 2] = 1;
  shape(teacher.max_index, "softmax_max_index", sizes);
  shape(teacher.sum_index, "softmax_sum_index", sizes);
  if (teacher.indices) {
    rank(*teacher.indices, "sparse_indices", in.query.dim(), in.query.dim());
    last_sizes(*teacher.indices, "sparse_indices", in.query, {1, teacher.indices->size(-1)});
  }
  like(gradients.query, "d_query_index", in.query);
  like(gradients.key, "d_key_index", in.key);
  like(gradients.weights, "d_weights", in.weights);
  shape(loss, "loss", {1});
}

void align(const IndexerGradients& gradients, Tensor& loss, const Teacher& teacher, const Indexer& in) {
  const Call call(in);
  zero(gradients);
  double total = 0;
  const int64_t heads = teacher.key.size(-2), group = teacher.query.size(-2) / heads;
  const auto joined = [](const Tensor& t, const Tensor& rope) { return rope.defined() ? at::cat({t, rope}, -1) : t; };
  for (const auto s : c10::irange(call.queries.count())) {
    const auto part = [&](const Sequences& places, const Optional& t) { return t ? places.of(*t, s) : Tensor(); };
    const auto query = joined(call.queries.of(teacher.query, s), part(call.queries, teacher.query_rope));
    const auto key = joined(call.keys.of(teacher.key, s), part(call.keys, teacher.key_rope));
    const auto index_key = call.keys.of(in.key, s).select(1, 0);
    const auto max = call.queries.statistics(teacher.max, s), sum = call.queries.statistics(teacher.sum, s);
    const auto key_sums = at::zeros(call.keys.of(in.key, s).sizes(), at::kFloat);
    for (const auto row : c10::irange(call.queries.length(s))) {
      const Row own{call, s, row, 0};
      const int64_t end = call.seen(s, row);
      const auto positions =
          teacher.indices ? sparse::positions(call.queries.of(*teacher.indices, s)[row][0], 1, end) : at::arange(end);
      if (positions.numel() == 0) continue;
      auto target = at::zeros({positions.numel()}, at::kFloat);
      double share = static_cast<double>(heads * group);  // what the heads' probabilities add up to
      for (const auto head : c10::irange(heads)) {
        const auto q = query[row].narrow(0, head * group, group).to(at::kFloat);
        const auto k = key.select(1, head).index_select(0, positions).to(at::kFloat);
        const auto top = max[head][row].to(at::kFloat), all = sum[head][row].to(at::kFloat);
        target += ((at::mm(q, k.t()) * teacher.scale - top.unsqueeze(1)).exp() / all.unsqueeze(1)).sum({0});
        if (teacher.sinks)
          share -=
              ((teacher.sinks->narrow(0, head * group, group).to(at::kFloat) - top).exp() / all).sum().item<double>();
      }
      target /= share;
      const auto chosen = index_key.index_select(0, positions).to(at::kFloat);
      const auto products = at::mm(own.of_query(in.query).to(at::kFloat), chosen.t());
      const auto sums = at::mv(products.relu().t(), own.of_query(in.weights).to(at::kFloat));
      const auto learned = teacher.max_index ? (sums - call.queries.statistics(*teacher.max_index, s)[0][row]).exp() /
                                                   call.queries.statistics(*teacher.sum_index, s)[0][row]
                                             : sums.softmax(0);
      total += (target * (target.clamp_min(1e-8).log() - learned.clamp_min(1e-8).log())).sum().item<double>();
      own.give(gradients, key_sums, positions, chosen, products, learned - target);
    }
    call.keys.of(gradients.key, s).copy_(key_sums);
  }
  loss.fill_(total);
}

}  // namespace softnpu::kernels::sparse
