#include "ops/families/delta_rule.h"

#include <cmath>

namespace npu::ops {

void check_delta(const char* op, const Tensor& query, const Tensor& key, const Tensor& value,
                 const OptionalTensor& state, const OptionalTensor& lengths) {
  TORCH_CHECK(state.has_value() && lengths.has_value(), op, " needs a state and actual_seq_lengths");
  TORCH_CHECK(query.dim() == 3 && query.sym_sizes() == key.sym_sizes(), op, ": query and key have shapes ",
              query.sym_sizes(), " and ", key.sym_sizes(), ", expected [tokens, heads, size] for both");
  TORCH_CHECK(value.dim() == 3 && value.sym_size(0) == query.sym_size(0) && query.sym_size(1) > 0 &&
                  value.sym_size(1) % query.sym_size(1) == 0,
              op, ": value has shape ", value.sym_sizes(),
              ", expected [tokens, value heads, size] with a multiple of the heads of query, ", query.sym_sizes());
  TORCH_CHECK(state->dim() == 4 && state->sym_size(1) == value.sym_size(1) && state->sym_size(2) == value.sym_size(2) &&
                  state->sym_size(3) == query.sym_size(2),
              op, ": the state has shape ", state->sym_sizes(), ", expected [count, ", value.sym_size(1), ", ",
              value.sym_size(2), ", ", query.sym_size(2), "]");
  TORCH_CHECK(lengths->dim() == 1, op, ": actual_seq_lengths has shape ", lengths->sym_sizes(),
              ", expected one length for each sequence");
}

void check_recurrent(const char* op, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& state,
                     const OptionalTensor& lengths, const OptionalTensor& indices, const OptionalTensor& gk) {
  check_delta(op, query, key, value, state, lengths);
  TORCH_CHECK(indices.has_value() && indices->dim() == 1 && indices->sym_size(0) == query.sym_size(0), op,
              " needs ssm_state_indices, the number of a state for each token");
  TORCH_CHECK(!gk.has_value(), op, " supports no gk");
}

double delta_scale(const Tensor& query, std::optional<double> scale) {
  return scale.has_value() ? *scale : 1.0 / std::sqrt(static_cast<double>(query.size(-1)));
}

}  // namespace npu::ops
