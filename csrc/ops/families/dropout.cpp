#include "ops/families/dropout.h"

#include "aclnn/op.h"
#include "ops/families/random.h"

namespace npu::ops {

void check_probability(const char* op, double p) {
  TORCH_CHECK(0 <= p && p <= 1, op, ": p is ", p, ", expected 0 to 1");
}

void check_packed_mask(const char* op, const Tensor& t, const Tensor& mask, double p) {
  check_probability(op, p);
  TORCH_CHECK(mask.scalar_type() == at::kByte && mask.sym_numel() >= (t.sym_numel() + 7) / 8, op, ": mask has ",
              mask.sym_numel(), " numbers of type ", mask.scalar_type(), ", expected one bit for each of ",
              t.sym_numel(), " elements in uint8");
}

void packed_dropout(const Tensor& input, double p, const Tensor& out, const Tensor& mask) {
  if (const auto state = draw_captured(std::nullopt, input)) {
    NPU_EXEC(aclnnDropoutGenMaskV2Tensor, input.sizes(), p, state->seed, state->offset, state->behind,
             input.scalar_type(), mask);
  } else {
    const auto [seed, offset] = draw(std::nullopt, input);
    NPU_EXEC(aclnnDropoutGenMaskV2, input.sizes(), p, static_cast<int64_t>(seed), static_cast<int64_t>(offset),
             input.scalar_type(), mask);
  }
  NPU_EXEC(aclnnDropoutDoMask, input, mask, p, out);
}

}  // namespace npu::ops
