#include "ops/families/causal_conv.h"

#include "ops/checks/custom.h"

namespace npu::ops {

void check_masked_conv(const char* op, const Tensor& input, const Tensor& weight, const OptionalTensor& mask) {
  TORCH_CHECK(input.dim() == 3, op, ": input has shape ", input.sym_sizes(), ", expected [sequence, batch, channels]");
  TORCH_CHECK(weight.dim() == 2 && weight.sym_size(1) == input.sym_size(2), op, ": weight has shape ",
              weight.sym_sizes(), ", expected [width, ", input.sym_size(2), "]");
  TORCH_CHECK(!mask || (mask->scalar_type() == at::kBool && mask->dim() == 2 &&
                        mask->sym_size(0) == input.sym_size(1) && mask->sym_size(1) == input.sym_size(0)),
              op, ": mask has shape ", mask->sym_sizes(), " and type ", mask->scalar_type(), ", expected bool [",
              input.sym_size(1), ", ", input.sym_size(0), "]");
}

void check_fused_conv(const char* op, const Tensor& x, const Tensor& weight, const Tensor& states,
                      const OptionalTensor& starts, const OptionalTensor& cache_indices, const OptionalTensor& computed,
                      const OptionalTensor& first_block, const OptionalTensor& last_block,
                      const OptionalTensor& initial_block, std::optional<std::string_view> activation,
                      std::optional<std::string_view> mode) {
  check_one_of(op, "activation", activation.value_or("None"), {"None", "silu", "swish"});
  check_one_of(op, "conv_mode", mode.value_or("default"), {"default", "pangu"});
  TORCH_CHECK(x.dim() == 2 || x.dim() == 3, op, ": x has shape ", x.sym_sizes(),
              ", expected [tokens, channels] or [batch, tokens, channels]");
  TORCH_CHECK(x.dim() == 3 || (starts && starts->dim() == 1), op,
              " needs query_start_loc, the start of each sequence and the end, for an x of two dimensions");
  TORCH_CHECK(weight.dim() == 2 && weight.sym_size(1) == x.sym_size(-1), op, ": weight has shape ", weight.sym_sizes(),
              ", expected [width, ", x.sym_size(-1), "]");
  TORCH_CHECK(states.dim() == 3 && states.sym_size(2) == x.sym_size(-1) && states.sym_size(1) >= weight.sym_size(0) - 1,
              op, ": conv_states has shape ", states.sym_sizes(), ", expected [slots, at least ",
              weight.sym_size(0) - 1, ", ", x.sym_size(-1), "]");
  const bool blocks = cache_indices && cache_indices->dim() == 2;
  TORCH_CHECK(!blocks || (computed && first_block && last_block && initial_block), op,
              ": cache_indices of two dimensions need num_computed_tokens, block_idx_first_scheduled_token, "
              "block_idx_last_scheduled_token and initial_state_idx");
  TORCH_CHECK(conv_mode_number(mode) == 0 || computed, op, " needs num_computed_tokens for conv_mode pangu");
}

int64_t activation_number(std::optional<std::string_view> activation) {
  return activation == "silu" ? 1 : activation == "swish" ? 2 : 0;
}

int64_t conv_mode_number(std::optional<std::string_view> mode) { return mode == "pangu" ? 1 : 0; }

}  // namespace npu::ops
