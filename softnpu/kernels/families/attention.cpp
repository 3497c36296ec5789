#include "kernels/families/attention.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <c10/util/irange.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/families/attention_fused.h"

namespace softnpu::kernels::attention {

namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();

// e to these powers. ATen's exp is MKL's, which takes up to forty times as long where a result is denormal or zero.
Tensor& raise(Tensor& powers) {
  constexpr double kLog2OfE = 1.4426950408889634;
  return powers.mul_(kLog2OfE).exp2_();
}

struct Task {
  int64_t sequence, head;
  Span rows;
};

template <class F>
void each(int64_t count, bool parallel, const F& f) {
  const auto run = [&](int64_t begin, int64_t end) {
    for (const auto i : c10::irange(begin, end)) f(i);
  };
  if (parallel && count > 1)
    at::parallel_for(0, count, 1, run);
  else
    run(0, count);
}

float sink_of(const Inputs& in, int64_t head) { return in.sink->select(0, head).to(at::kFloat).item<float>(); }

// One block of rows against all columns that they see. A row that sees nothing gives zeros; its maximum is the lowest
// number, so that it adds nothing to parts of the same row.
void forward_rows(const Tensor& out, const Tensor& max, const Tensor& sum, const Problem& p, const Task& task) {
  const auto [sequence, head, rows] = task;
  const auto q = wide_rows(p.query.at(sequence, head), rows);
  const auto q_rope = p.in.query_rope ? wide_rows(p.query_rope.at(sequence, head), rows) : Tensor();
  const auto v = p.value.at(sequence, head / p.group);
  auto best = at::full({rows.size(), 1}, kLowest, at::kFloat), total = at::zeros({rows.size(), 1}, at::kFloat);
  auto result = at::zeros({rows.size(), v.size(1)}, at::kFloat);
  const auto rescale = [&](const Tensor& better) {
    const auto factor = (best - better).exp_();
    best = better;
    total.mul_(factor);
    result.mul_(factor);
  };
  const auto memory = block_memory(rows);
  const Span seen = p.seen(sequence, rows);
  for (int64_t begin = seen.begin; begin < seen.end; begin += kColumns) {
    const Span columns{begin, std::min(begin + kColumns, seen.end)};
    auto s = p.scores(memory, sequence, head, rows, columns, q, q_rope);
    const auto better = at::maximum(best, s.amax({1}, true));
    if (begin == seen.begin)
      best = better;
    else
      rescale(better);
    raise(s.sub_(best));
    total.add_(s.sum({1}, true));
    if (p.drops()) s.mul_(p.kept(sequence, head, rows, columns));
    result.addmm_(s, wide_rows(v, columns));
  }
  if (p.in.sink) {
    const auto sink = at::full({1, 1}, sink_of(p.in, head), at::kFloat);
    rescale(at::maximum(best, sink));
    total.add_((sink - best).exp_());
  }
  out.copy_(result.div_(total.masked_fill(total == 0, 1.0)));
  if (max.defined()) max.copy_(best.expand_as(max));
  if (sum.defined()) sum.copy_(total.expand_as(sum));
}

// Rows behind the last sequence of TND belong to none.
void clear_rest(const Tensor& t, IntArrayRef ends) {
  if (!ends.empty() && ends.back() < t.size(0)) t.slice(0, ends.back()).zero_();
}

std::vector<Task> tasks_of(const Problem& p) {
  std::vector<Task> tasks;
  for (const auto sequence : c10::irange(p.query.sequences()))
    for (const auto head : c10::irange(p.query.heads()))
      for (int64_t begin = 0; begin < p.query.rows(sequence); begin += kRows)
        tasks.push_back({sequence, head, {begin, std::min(begin + kRows, p.query.rows(sequence))}});
  return tasks;
}

// The sums of a gradient over blocks, in float32.
struct Sums {
  Tensor key, value, key_rope;
};

// The logarithm of each row's sum of exponentials. Where a row has seen nothing, any number does: all its scores are
// hidden.
Tensor logarithms(const Tensor& max, const Tensor& sum) {
  const auto nothing = at::logical_or(sum <= 0, max == -std::numeric_limits<double>::infinity());
  return (max + sum.log()).masked_fill_(nothing, 0.0);
}

class Backward {
 public:
  Backward(const Gradients& gradients, const Tensor& dy, const Tensor& out, const Statistics& statistics,
           const Problem& p)
      : p_(p),
        in_(p.in),
        max_(*statistics.max, p.query, in_.softmax_layout),
        sum_(*statistics.sum, p.query, in_.softmax_layout),
        given_(gradients) {
    const auto like_query = [&](const Tensor& t) { return Heads(t, in_.layout, in_.heads, in_.q_ends); };
    const auto like_key = [&](const Tensor& t) { return Heads(t, in_.layout, p.key.heads(), in_.kv_ends); };
    dy_ = like_query(dy), out_ = like_query(out), dq_ = like_query(gradients.query);
    dk_ = like_key(gradients.key), dv_ = like_key(gradients.value);
    if (in_.query_rope) dq_rope_ = like_query(*gradients.query_rope), dk_rope_ = like_key(*gradients.key_rope);
    if (gradients.pse && gradients.pse->numel()) dpse_ = at::zeros(gradients.pse->sizes(), at::kFloat);
    if (gradients.sink && gradients.sink->numel())
      dsink_ = at::zeros({p.query.sequences(), p.query.heads()}, at::kFloat);
  }

  void run() {
    const int64_t heads = p_.key.heads();
    // Blocks of a bias that several heads or sequences share are added up one after the other.
    const bool parallel = !dpse_.defined() || in_.pse->numel() == whole_bias();
    each(p_.key.sequences() * heads, parallel, [&](int64_t i) { key_head(i / heads, i % heads); });
    if (dpse_.defined()) given_.pse->copy_(dpse_);
    if (dsink_.defined()) given_.sink->copy_(dsink_.sum({0}));
  }

 private:
  int64_t whole_bias() const {
    return in_.layout == "TND" ? -1 : p_.query.sequences() * p_.query.heads() * p_.query.rows(0) * p_.key.rows(0);
  }

  void key_head(int64_t sequence, int64_t head) {
    const auto zeros = [](const Tensor& like) { return at::zeros(like.sizes(), at::kFloat); };
    Sums sums{zeros(dk_.at(sequence, head)), zeros(dv_.at(sequence, head)), {}};
    if (in_.key_rope) sums.key_rope = zeros(dk_rope_.at(sequence, head));
    const int64_t length = p_.query.rows(sequence);
    for (const auto member : c10::irange(p_.group))
      for (int64_t begin = 0; begin < length; begin += kRows)
        rows_of({sequence, head * p_.group + member, {begin, std::min(begin + kRows, length)}}, sums);
    dk_.at(sequence, head).copy_(sums.key);
    dv_.at(sequence, head).copy_(sums.value);
    if (in_.key_rope) dk_rope_.at(sequence, head).copy_(sums.key_rope);
  }

  void rows_of(const Task& task, const Sums& sums) {
    const auto [sequence, head, rows] = task;
    const int64_t shared = head / p_.group;
    const auto q = wide_rows(p_.query.at(sequence, head), rows), dy = wide_rows(dy_.at(sequence, head), rows);
    const auto q_rope = in_.query_rope ? wide_rows(p_.query_rope.at(sequence, head), rows) : Tensor();
    const auto statistic = [&](const Rows& all) { return wide_rows(all.at(sequence, head), rows).slice(1, 0, 1); };
    const auto logs = logarithms(statistic(max_), statistic(sum_));
    const auto inner = (dy * wide_rows(out_.at(sequence, head), rows)).sum({1}, true);
    auto dq = at::zeros(q.sizes(), at::kFloat);
    auto dq_rope = q_rope.defined() ? at::zeros(q_rope.sizes(), at::kFloat) : Tensor();
    const auto memory = block_memory(rows), other = block_memory(rows);
    const Span seen = p_.seen(sequence, rows);
    for (int64_t begin = seen.begin; begin < seen.end; begin += kColumns) {
      const Span columns{begin, std::min(begin + kColumns, seen.end)};
      const auto part = [&](const Tensor& t) { return t.slice(0, columns.begin, columns.end); };
      auto probabilities = p_.scores(memory, sequence, head, rows, columns, q, q_rope);
      raise(probabilities.sub_(logs));
      auto ds = as_block(other, rows, columns);
      at::mm_out(ds, dy, wide_rows(p_.value.at(sequence, shared), columns).t());
      if (p_.drops()) {
        const auto kept = p_.kept(sequence, head, rows, columns);
        ds.mul_(kept);
        part(sums.value).addmm_(at::mul(probabilities, kept).t(), dy);
      } else {
        part(sums.value).addmm_(probabilities.t(), dy);
      }
      ds.sub_(inner).mul_(probabilities);
      if (dpse_.defined()) add_bias(ds, task, columns);
      dq.addmm_(ds, wide_rows(p_.key.at(sequence, shared), columns), 1, in_.scale);
      part(sums.key).addmm_(ds.t(), q, 1, in_.scale);
      if (q_rope.defined()) {
        dq_rope.addmm_(ds, wide_rows(p_.key_rope.at(sequence, shared), columns), 1, in_.scale);
        part(sums.key_rope).addmm_(ds.t(), q_rope, 1, in_.scale);
      }
    }
    dq_.at(sequence, head).slice(0, rows.begin, rows.end).copy_(dq);
    if (dq_rope.defined()) dq_rope_.at(sequence, head).slice(0, rows.begin, rows.end).copy_(dq_rope);
    if (dsink_.defined()) {
      const auto share = (at::full({1, 1}, sink_of(in_, head), at::kFloat) - logs).exp_();
      dsink_.select(0, sequence).select(0, head).sub_((share * inner).sum());
    }
  }

  void add_bias(const Tensor& ds, const Task& task, Span columns) {
    auto block = p_.block(dpse_, task.sequence, task.head, task.rows, columns);
    auto sum = ds;
    if (block.size(0) == 1) sum = sum.sum({0}, true);
    if (block.size(1) == 1) sum = sum.sum({1}, true);
    block.add_(sum, in_.pse_type == 1 ? in_.scale : 1.0);
  }

  const Problem& p_;
  const Inputs& in_;
  Rows max_, sum_;
  const Gradients& given_;
  Heads dy_, out_, dq_, dk_, dv_, dq_rope_, dk_rope_;
  Tensor dpse_, dsink_;
};

}  // namespace

void forward(Tensor& out, const Statistics& statistics, const Inputs& in) {
  const Problem p(in);
  clear_rest(out, in.q_ends);
  for (const auto& t : {statistics.max, statistics.sum})
    if (t && t->numel()) clear_rest(*t, in.q_ends);
  if (fits_fused(p)) return forward_fused(out, statistics, p);
  const Heads results(out, in.layout, in.heads, in.q_ends);
  const auto given = [&](const Optional& t) {
    return t && t->numel() ? std::optional<Rows>(std::in_place, *t, p.query, in.softmax_layout) : std::nullopt;
  };
  const auto max = given(statistics.max), sum = given(statistics.sum);
  const auto tasks = tasks_of(p);
  each(static_cast<int64_t>(tasks.size()), true, [&](int64_t i) {
    const auto& [sequence, head, rows] = tasks[i];
    const auto part = [&](const Tensor& t) { return t.slice(0, rows.begin, rows.end); };
    forward_rows(part(results.at(sequence, head)), max ? part(max->at(sequence, head)) : Tensor(),
                 sum ? part(sum->at(sequence, head)) : Tensor(), p, tasks[i]);
  });
}

void backward(const Gradients& gradients, const Tensor& dy, const Optional& out, const Statistics& statistics,
              const Inputs& in) {
  const Problem p(in);
  for (const auto& t : {Optional(gradients.query), gradients.query_rope})
    if (t && t->numel()) clear_rest(*t, in.q_ends);
  for (const auto& t : {Optional(gradients.key), Optional(gradients.value), gradients.key_rope})
    if (t && t->numel()) clear_rest(*t, in.kv_ends);
  const bool fused = fits_fused(p) && !(gradients.pse && gradients.pse->numel());
  const auto run = [&](const Tensor& from, const Statistics& rows) {
    fused ? backward_fused(gradients, dy, from, rows, p) : Backward(gradients, dy, from, rows, p).run();
  };
  if (statistics.complete() && out && out->numel()) return run(*out, statistics);
  auto again = at::empty(dy.sizes(), at::kFloat);
  const bool in_a_row = in.layout == "TND";
  const auto rows = in_a_row ? std::vector<int64_t>{in.query.size(0), in.heads, 1}
                             : std::vector<int64_t>{p.query.sequences(), in.heads, p.query.rows(0), 1};
  const Statistics own{at::empty(rows, at::kFloat), at::empty(rows, at::kFloat)};
  forward(again, own, in);
  run(again, own);
}

}  // namespace softnpu::kernels::attention
