#include "kernels/families/workers.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>

#include <cstring>

#include "acl_types.h"
#include "kernels/engine/require.h"
#include "runtime/address.h"
#include "runtime/error.h"

namespace softnpu::kernels {

namespace {

constexpr int64_t kContextBytes = 1024;
// Bytes at which the area of attention begins, and of its numbers.
constexpr size_t kTokens = 256 + 16, kTokenBytes = 256 + 24, kMicroBatch = 256 + 32;

template <class Number>
Number read(const Tensor& context, size_t at) {
  Number number;
  memcpy(&number, static_cast<const char*>(context.const_data_ptr()) + at, sizeof number);
  return number;
}

}  // namespace

void attention_worker_combine(const Tensor& context, const Tensor& expert_scales, const Tensor& layer_id,
                              int64_t hidden_size, const Tensor& y, const Tensor& next_layer_id) {
  const auto tokens = reinterpret_cast<void*>(read<uint64_t>(context, kTokens));
  const auto bytes = read<uint64_t>(context, kTokenBytes);
  const int64_t batch = read<uint32_t>(context, kMicroBatch), rows = expert_scales.size(0), k = expert_scales.size(1);
  const auto size = static_cast<uint64_t>(rows * (k + 1) * hidden_size) * y.element_size();  // of one micro batch
  if (size != 0 && bytes / size <= static_cast<uint64_t>(batch))
    fail(ACL_ERROR_RT_PARAM_INVALID, "the context has %llu bytes of tokens, too few for micro batch %lld",
         static_cast<unsigned long long>(bytes), static_cast<long long>(batch));
  check_allocated(tokens, bytes, -1, "the tokens of the context");
  char* const first = kernel_address(tokens) + static_cast<uint64_t>(batch) * size;
  const auto data = at::from_blob(first, {rows, k + 1, hidden_size}, y.options()).to(at::kFloat);
  y.copy_((data.narrow(1, 0, k) * expert_scales.unsqueeze(-1)).sum(1) + data.select(1, k));
  next_layer_id.copy_(layer_id + 1);
}

namespace require {

void attention_worker_combine(const Tensor& context, const Tensor& expert_scales, const Tensor& layer_id,
                              int64_t hidden_size, int64_t token_dtype, int64_t need_schedule, const Tensor& y,
                              const Tensor& next_layer_id) {
  that(context.scalar_type() == at::kChar && context.is_contiguous() && context.numel() == kContextBytes,
       "schedule_context is not int8 of 1024 numbers");
  rank(expert_scales, "expert_scales", 2, 2);
  that(expert_scales.scalar_type() == at::kFloat, "expert_scales is not float32");
  that(token_dtype == 0 || token_dtype == 1, "token_dtype is neither 0 nor 1");
  that(need_schedule == 0, "need_schedule=1 is not implemented");
  that(y.scalar_type() == (token_dtype == 1 ? at::kBFloat16 : at::kHalf), "y has not the type that token_dtype says");
  that(hidden_size >= 0 && y.dim() == 2 && y.size(0) == expert_scales.size(0) && y.size(1) == hidden_size,
       "y has not a row of hidden_size for each of expert_scales");
  that(layer_id.scalar_type() == at::kInt && layer_id.numel() == 1 && next_layer_id.scalar_type() == at::kInt &&
           next_layer_id.numel() == 1,
       "layer_id is not a number of int32");
}

}  // namespace require
}  // namespace softnpu::kernels
