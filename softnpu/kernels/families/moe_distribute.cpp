#include "kernels/families/moe_distribute.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/engine/require.h"
#include "runtime/address.h"

namespace softnpu::kernels {

namespace {

struct Pair {
  int64_t token, choice;  // choices behind the token's own are shared experts
  int64_t rank, local;    // of the expert
};

Tensor plain(const Tensor& t, at::ScalarType type) { return t.to(type).contiguous(); }

// Whether each token goes to each of its experts: [tokens, choices] flags.
Tensor flags(const Tensor& ids, const Optional& mask) {
  if (!mask) return at::ones(ids.sizes(), at::kBool);
  return (mask->dim() == 1 ? mask->unsqueeze(1).expand(ids.sizes()) : *mask).to(at::kBool).contiguous();
}

// In the order in which rows lie in the blocks: by card, by expert, by token.
std::vector<Pair> routed(const Experts& experts, const Tensor& expert_ids, const Optional& mask, int64_t special) {
  const auto ids = plain(expert_ids, at::kLong), active = flags(expert_ids, mask);
  const auto* id = ids.const_data_ptr<int64_t>();
  const auto* flag = active.const_data_ptr<bool>();
  std::vector<Pair> pairs;
  for (int64_t t = 0; t < ids.size(0); t++) {
    bool any = false;
    for (int64_t j = 0; j < ids.size(1); j++) {
      const int64_t at = t * ids.size(1) + j;
      if (!flag[at]) continue;
      any = true;
      TORCH_CHECK(id[at] >= 0 && id[at] < experts.count + special, "expert_ids has ", id[at], ", expected 0 to ",
                  experts.count + special - 1);
      if (id[at] < experts.count)
        pairs.push_back({t, j, experts.shared_ranks + id[at] / experts.on_each(), id[at] % experts.on_each()});
    }
    for (int64_t s = 0; any && experts.shared_ranks && s < experts.shared; s++)
      pairs.push_back({t, ids.size(1) + s, s * experts.replicas() + experts.rank % experts.replicas(), 0});
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& a, const Pair& b) { return a.rank != b.rank ? a.rank < b.rank : a.local < b.local; });
  return pairs;
}

// A block of the exchange: how many rows there are of each expert, numbers of each row, the rows.
struct Block {
  int64_t* counts;
  float *row_scales, *weights;
  char* rows;
};

uint64_t up(uint64_t bytes) { return (bytes + 7) / 8 * 8; }
uint64_t block_bytes(const Experts& e, uint64_t row_bytes) {
  return up(8 * e.on_each() + 8 * e.slots() + e.slots() * row_bytes);
}

char* half(const Call& call, bool received) {
  return static_cast<char*>(kernel_address(call.workspace)) + (received ? call.workspace_bytes / 2 : 0);
}

Block block(const Call& call, const Experts& e, bool received, int64_t rank, uint64_t row_bytes) {
  char* at = half(call, received) + rank * block_bytes(e, row_bytes);
  auto* counts = reinterpret_cast<int64_t*>(at);
  auto* numbers = reinterpret_cast<float*>(counts + e.on_each());
  return {counts, numbers, numbers + e.slots(), reinterpret_cast<char*>(numbers + 2 * e.slots())};
}

uint64_t row_bytes_of(const Tensor& t) { return t.size(1) * t.element_size(); }

// int8 of a row, and its scale.
std::pair<Tensor, float> quantised(const Tensor& row, const Optional& scale, int64_t mode) {
  auto wide = row.to(at::kFloat);
  if (scale) wide = wide * scale->to(at::kFloat);
  float factor = 1;
  if (mode == 2) {
    const float most = wide.numel() ? wide.abs().max().item<float>() : 0;
    factor = most / 127;
    wide = most > 0 ? wide * (127 / most) : at::zeros_like(wide);
  }
  return {wide.round().clamp_(-128, 127).to(at::kChar).contiguous(), factor};
}

}  // namespace

uint64_t exchange_bytes(const Experts& experts, const Tensor& rows) {
  return 2 * experts.ranks * block_bytes(experts, row_bytes_of(rows));
}

Experts experts_on(const Tensor& expert_ids, int64_t ranks, int64_t rank, int64_t count, int64_t shared,
                   int64_t shared_ranks, int64_t shard_type, int64_t tp_ranks, int64_t batch) {
  using require::that;
  require::rank(expert_ids, "expert_ids", 2, 2);
  that(tp_ranks >= 0 && tp_ranks <= 1, "tp_world_size is more than 1, which is not implemented");
  that(shard_type == 0, "expert_shard_type is not 0");
  that(ranks > 0 && ranks <= 4096 && rank >= 0 && rank < ranks, "ep_rank_id is not below ep_world_size");
  that(shared_ranks >= 0 && shared_ranks < ranks, "shared_expert_rank_num is not below ep_world_size");
  that(shared_ranks == 0 || (shared > 0 && shared_ranks % shared == 0),
       "shared_expert_rank_num is not a multiple of shared_expert_num");
  that(count > 0 && count < 1 << 24 && count % (ranks - shared_ranks) == 0,
       "moe_expert_num does not divide among the cards");
  that(batch >= 0 && batch % ranks == 0, "global_bs does not divide among the cards");
  const int64_t tokens = batch ? batch / ranks : expert_ids.size(0);
  that(expert_ids.size(0) <= tokens, "global_bs is less than the tokens of all cards");
  that(tokens < 1 << 24 && expert_ids.size(1) < 1 << 12, "there are too many tokens");
  return {ranks, rank, count, shared, shared_ranks, tokens, expert_ids.size(1)};
}

void send_tokens(const Call& call, const Experts& experts, const Tensor& x, const Tensor& expert_ids,
                 const Optional& scales, const Optional& mask, const Optional& weights, int64_t quant_mode,
                 int64_t special) {
  const auto rows = x.contiguous();
  const auto given = weights ? plain(*weights, at::kFloat) : Tensor();
  const uint64_t bytes = quant_mode ? x.size(1) : row_bytes_of(x);
  memset(half(call, false), 0, call.workspace_bytes / 2);
  std::vector<int64_t> next(experts.ranks, 0);
  for (const auto& [token, choice, rank, local] : routed(experts, expert_ids, mask, special)) {
    const auto to = block(call, experts, false, rank, bytes);
    const int64_t at = next[rank]++;
    const bool own = choice < expert_ids.size(1);
    to.counts[local]++;
    to.weights[at] = own && given.defined() ? given.const_data_ptr<float>()[token * experts.choices + choice] : 1;
    if (!quant_mode) {
      memcpy(to.rows + at * bytes, static_cast<const char*>(rows.const_data_ptr()) + token * bytes, bytes);
      continue;
    }
    // Scales of the shared experts come first.
    const int64_t expert =
        own ? (experts.shared_ranks ? experts.shared : 0) + (rank - experts.shared_ranks) * experts.on_each() + local
            : choice - expert_ids.size(1);
    const auto [row, factor] = quantised(rows[token], scales ? Optional((*scales)[expert]) : std::nullopt, quant_mode);
    memcpy(to.rows + at * bytes, row.const_data_ptr(), bytes);
    to.row_scales[at] = factor;
  }
}

void receive_tokens(const Call& call, const Experts& experts, const Received& out, const Tensor& expert_ids,
                    const Optional& mask, bool each) {
  const uint64_t bytes = row_bytes_of(out.rows);
  auto rows = at::zeros(out.rows.sizes(), out.rows.options());
  auto row_scales = at::zeros({out.rows.size(0)}, at::kFloat), weights = at::zeros_like(row_scales);
  auto ends = at::zeros({experts.local() * experts.ranks}, at::kLong);
  auto nums = at::zeros({experts.local()}, at::kLong);
  std::vector<int64_t> next(experts.ranks, 0);
  int64_t at = 0;
  for (int64_t e = 0; e < experts.local(); e++)
    for (int64_t r = 0; r < experts.ranks; r++) {
      const auto from = block(call, experts, true, r, bytes);
      const int64_t count = from.counts[e];
      TORCH_CHECK(count >= 0 && next[r] + count <= experts.slots() && at + count <= rows.size(0),
                  "more tokens arrived than expand_x has rows, ", rows.size(0));
      memcpy(static_cast<char*>(rows.mutable_data_ptr()) + at * bytes, from.rows + next[r] * bytes, count * bytes);
      memcpy(row_scales.mutable_data_ptr<float>() + at, from.row_scales + next[r], count * sizeof(float));
      memcpy(weights.mutable_data_ptr<float>() + at, from.weights + next[r], count * sizeof(float));
      next[r] += count, at += count;
      ends.mutable_data_ptr<int64_t>()[e * experts.ranks + r] = at;
      nums.mutable_data_ptr<int64_t>()[e] += count;
    }
  out.rows.copy_(rows);
  if (out.row_scales.numel()) out.row_scales.copy_(row_scales);
  if (out.weights.numel()) out.weights.copy_(weights);
  out.expert_tokens.copy_(each ? nums : nums.cumsum(0));
  out.counts.zero_();
  out.counts.narrow(0, 0, ends.numel()).copy_(ends);
  out.tp_counts.fill_(at);
  auto places = at::zeros({expert_ids.numel()}, at::kLong);
  std::vector<int64_t> seen(experts.count, 0);
  for (const auto& [token, choice, rank, local] : routed(experts, expert_ids, mask, int64_t{1} << 31))
    if (choice < experts.choices)
      places.mutable_data_ptr<int64_t>()[token * experts.choices + choice] =
          seen[(rank - experts.shared_ranks) * experts.on_each() + local]++;
  out.places.zero_();
  out.places.narrow(0, 0, places.numel()).copy_(places);
}

void send_results(const Call& call, const Experts& experts, const Tensor& rows, const Tensor& ends) {
  const auto dense = rows.contiguous();
  const auto all = plain(ends, at::kLong);
  const auto* end = all.const_data_ptr<int64_t>();
  const uint64_t bytes = row_bytes_of(rows);
  memset(half(call, false), 0, call.workspace_bytes / 2);
  std::vector<int64_t> next(experts.ranks, 0);
  int64_t begin = 0;
  for (int64_t e = 0; e < experts.local(); e++)
    for (int64_t r = 0; r < experts.ranks; r++) {
      const int64_t last = end[e * experts.ranks + r], count = last - begin;
      TORCH_CHECK(count >= 0 && last <= rows.size(0) && next[r] + count <= experts.slots(), "ep_send_counts has ", last,
                  " behind ", begin, ", expected ends of the rows of expand_x");
      const auto to = block(call, experts, false, r, bytes);
      memcpy(to.rows + next[r] * bytes, static_cast<const char*>(dense.const_data_ptr()) + begin * bytes,
             count * bytes);
      to.counts[e] = count;
      next[r] += count, begin = last;
    }
}

Tensor combined(const Call& call, const Experts& experts, const Tensor& rows, const Tensor& expert_ids,
                const Tensor& places, const Tensor& weights, const Optional& mask, const Optional& added,
                const Special& special) {
  const uint64_t bytes = row_bytes_of(rows);
  const auto given = plain(weights, at::kFloat), place = plain(places, at::kLong);
  auto sum = at::zeros({expert_ids.size(0), rows.size(1)}, at::kFloat);
  std::vector<int64_t> shared_seen(experts.ranks, 0);
  for (const auto& [token, choice, rank, local] :
       routed(experts, expert_ids, mask, special.zero + special.copy + special.constant)) {
    const auto from = block(call, experts, true, rank, bytes);
    const bool own = choice < experts.choices;
    const int64_t pair = token * experts.choices + choice;
    const int64_t index = own ? place.const_data_ptr<int64_t>()[pair] : shared_seen[rank]++;
    TORCH_CHECK(index >= 0 && index < from.counts[local], "pair ", pair, " of token and choice is row ", index,
                " of its expert, which sent ", from.counts[local]);
    const int64_t at = std::accumulate(from.counts, from.counts + local, index);
    const auto row = at::from_blob(from.rows + at * bytes, {rows.size(1)}, rows.options()).to(at::kFloat);
    sum[token].add_(row, own ? given.const_data_ptr<float>()[pair] : 1);
  }
  if (special.copy + special.constant > 0) {
    const auto ids = plain(expert_ids, at::kLong), active = flags(expert_ids, mask);
    for (int64_t pair = 0; pair < ids.numel(); pair++) {
      const int64_t id = ids.const_data_ptr<int64_t>()[pair] - experts.count - special.zero;
      if (id < 0 || !active.const_data_ptr<bool>()[pair]) continue;
      auto value = (*special.tokens)[pair / experts.choices].to(at::kFloat);
      if (const int64_t c = id - special.copy; c >= 0)
        value = value * (*special.alpha1)[c].to(at::kFloat) +
                (*special.alpha2)[c].to(at::kFloat) * (*special.v)[c].to(at::kFloat);
      sum[pair / experts.choices].add_(value, given.const_data_ptr<float>()[pair]);
    }
  }
  return added ? sum + added->to(at::kFloat).view(sum.sizes()) : sum;
}

void add_and_norm(Tensor& y, Tensor& rstd, Tensor& sum, const Tensor& x, const Tensor& residual, const Tensor& gamma,
                  double eps) {
  const auto total = x + residual.to(at::kFloat).view(x.sizes());
  const auto factor = total.square().mean({-1}, true).add_(eps).rsqrt_();
  sum.copy_(total.view(sum.sizes()));
  rstd.copy_(factor.view(rstd.sizes()));
  y.copy_((total * factor * gamma.to(at::kFloat)).view(y.sizes()));
}

}  // namespace softnpu::kernels
