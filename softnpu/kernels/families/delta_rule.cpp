#include "kernels/families/delta_rule.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <cmath>

#include "kernels/engine/require.h"

namespace softnpu::kernels {

namespace {

std::vector<int64_t> integers(const Tensor& t) {
  const auto dense = t.to(at::kLong).contiguous();
  return {dense.const_data_ptr<int64_t>(), dense.const_data_ptr<int64_t>() + dense.numel()};
}

// Where sequences begin, and the end of the last.
std::vector<int64_t> begins(const Tensor& lengths, int64_t tokens) {
  std::vector<int64_t> result = {0};
  for (const int64_t length : integers(lengths)) {
    TORCH_CHECK(length >= 0 && result.back() + length <= tokens, "actual_seq_lengths add up to more than ", tokens,
                " tokens");
    result.push_back(result.back() + length);
  }
  return result;
}

// Operands as dense float32, and one step of the rule.
struct Rule {
  Tensor q, k, v, beta, g, out;
  int64_t heads, value_heads, size, value_size;
  float scale;

  Rule(const std::array<Tensor, 3>& qkv, const Optional& beta_, const Optional& g_, double scale_)
      : q(qkv[0].to(at::kFloat).contiguous()),
        k(qkv[1].to(at::kFloat).contiguous()),
        v(qkv[2].to(at::kFloat).contiguous()),
        heads(q.size(1)),
        value_heads(v.size(1)),
        size(q.size(2)),
        value_size(v.size(2)),
        scale(static_cast<float>(scale_)) {
    const auto like = at::TensorOptions(at::kFloat);
    beta = beta_ ? beta_->to(at::kFloat).contiguous() : at::ones({v.size(0), value_heads}, like);
    g = g_ ? g_->to(at::kFloat).contiguous() : at::zeros({v.size(0), value_heads}, like);
    out = at::zeros(v.sizes(), like);
  }

  // `state` is [value_size, size].
  void step(float* state, int64_t token, int64_t head) const {
    const int64_t shared = (token * heads + head / (value_heads / heads)) * size;
    const float *query = q.const_data_ptr<float>() + shared, *key = k.const_data_ptr<float>() + shared;
    const int64_t at = token * value_heads + head;
    const float decay = std::exp(g.const_data_ptr<float>()[at]), rate = beta.const_data_ptr<float>()[at];
    const float* values = v.const_data_ptr<float>() + at * value_size;
    float* result = out.mutable_data_ptr<float>() + at * value_size;
    for (int64_t i = 0; i < value_size; i++) {
      float* row = state + i * size;
      float known = 0;
      for (int64_t j = 0; j < size; j++) known += (row[j] *= decay) * key[j];
      const float correction = (values[i] - known) * rate;
      float sum = 0;
      for (int64_t j = 0; j < size; j++) sum += (row[j] += correction * key[j]) * query[j];
      result[i] = sum * scale;
    }
  }
};

}  // namespace

void chunk_delta_rule(Tensor& out, Tensor& final_state, std::array<Tensor, 3> qkv, const Optional& beta,
                      const Tensor& initial, const Tensor& lengths, const Optional& g, double scale) {
  const Rule rule(qkv, beta, g, scale);
  const auto begin = begins(lengths, rule.v.size(0));
  auto state = initial.to(at::kFloat).contiguous().clone();
  auto* data = state.mutable_data_ptr<float>();
  const int64_t sequences = static_cast<int64_t>(begin.size()) - 1;
  at::parallel_for(0, sequences * rule.value_heads, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; i++)
      for (int64_t token = begin[i / rule.value_heads]; token < begin[i / rule.value_heads + 1]; token++)
        rule.step(data + i * rule.value_size * rule.size, token, i % rule.value_heads);
  });
  out.copy_(rule.out);
  final_state.copy_(state);
}

void recurrent_delta_rule(Tensor& out, Tensor& state, std::array<Tensor, 3> qkv, const Optional& beta,
                          const Tensor& lengths, const Tensor& indices, const Optional& g, const Optional& accepted,
                          double scale) {
  const Rule rule(qkv, beta, g, scale);
  const auto begin = begins(lengths, rule.v.size(0));
  const auto places = integers(indices);
  for (const int64_t place : places)
    TORCH_CHECK(place >= 0 && place < state.size(0), "ssm_state_indices has ", place, ", there are ", state.size(0),
                " states");
  const int64_t sequences = static_cast<int64_t>(begin.size()) - 1;
  std::vector<int64_t> starts(sequences);
  const auto kept = accepted ? integers(*accepted) : std::vector<int64_t>(sequences, 1);
  TORCH_CHECK(static_cast<int64_t>(kept.size()) == sequences, "num_accepted_tokens has ", kept.size(),
              " numbers, expected one for each of ", sequences, " sequences");
  for (int64_t i = 0; i < sequences; i++) {
    if (begin[i] == begin[i + 1]) continue;
    const int64_t place = begin[i] + kept[i] - 1;
    TORCH_CHECK(kept[i] >= 1 && place < rule.v.size(0), "num_accepted_tokens has ", kept[i], " for sequence ", i);
    starts[i] = places[place];
  }
  auto states = state.to(at::kFloat).contiguous().clone();
  auto* data = states.mutable_data_ptr<float>();
  const int64_t one = rule.value_size * rule.size;
  for (int64_t i = 0; i < sequences; i++) {
    at::parallel_for(0, rule.value_heads, 1, [&](int64_t first, int64_t last) {
      std::vector<float> current(one);
      for (int64_t head = first; head < last; head++) {
        std::copy_n(data + (starts[i] * rule.value_heads + head) * one, one, current.begin());
        for (int64_t token = begin[i]; token < begin[i + 1]; token++) {
          rule.step(current.data(), token, head);
          std::copy_n(current.begin(), one, data + (places[token] * rule.value_heads + head) * one);
        }
      }
    });
  }
  out.copy_(rule.out);
  state.copy_(states);
}

namespace require {

void delta_rule(const Tensor& query, const Tensor& key, const Tensor& value, const Optional& state,
                const Optional& lengths, const Optional& beta, const Optional& g, const Tensor& out) {
  rank(query, "query", 3, 3);
  rank(value, "value", 3, 3);
  like(key, "key", query);
  like(out, "out", value);
  that(query.size(1) > 0 && value.size(0) == query.size(0) && value.size(1) % query.size(1) == 0,
       "value has the tokens of query, and a multiple of its heads");
  that(state && state->dim() == 4 && state->size(1) == value.size(1) && state->size(2) == value.size(2) &&
           state->size(3) == query.size(2),
       "the state is [count, heads of value, size of value, size of query]");
  that(lengths && lengths->dim() == 1, "actual_seq_lengths is given, a length for each sequence");
  shape(beta, "beta", {value.size(0), value.size(1)});
  shape(g, "g", {value.size(0), value.size(1)});
}

}  // namespace require

}  // namespace softnpu::kernels
