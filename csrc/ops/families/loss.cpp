#include "ops/families/loss.h"

#include <ATen/ops/matmul.h>

#include "aclnn/op.h"
#include "ops/checks/custom.h"
#include "ops/tensor.h"

namespace npu::ops {

Tensor class_weights(const std::optional<Tensor>& weight, const Tensor& self) {
  if (weight.has_value() && weight->defined()) return *weight;
  auto ones = empty({self.size(self.dim() == 1 ? 0 : 1)}, self.scalar_type());
  NPU_EXEC(aclnnInplaceOne, ones);
  return ones;
}

void check_broadcast(const char* op, const char* argument, const std::optional<Tensor>& t, const Tensor& x) {
  if (!t) return;
  TORCH_CHECK(t->dim() <= x.dim(), op, ": ", argument, " has ", t->dim(), " dimensions, expected at most ", x.dim());
  for (int64_t dim = -t->dim(); dim < 0; dim++)
    TORCH_CHECK(t->sym_size(dim) == 1 || t->sym_size(dim) == x.sym_size(dim), op, ": dimension ", dim, " of ", argument,
                " has length ", t->sym_size(dim), ", expected 1 or ", x.sym_size(dim));
}

void check_mask(const char* op, const Tensor& x, const Tensor& mask, bool fixed) {
  if (!fixed) return check_broadcast(op, "mask", mask, x);
  TORCH_CHECK(x.dim() >= 2 && x.sym_size(-1) == x.sym_size(-2), op,
              ": fixed_triu_mask needs rows and columns of one number, the shape is ", x.sym_sizes());
}

void check_cross_entropy(const char* op, const Tensor& rows, const Tensor& target, const std::optional<Tensor>& weight,
                         std::string_view reduction, double label_smoothing) {
  check_one_of(op, "reduction", reduction, {"mean", "sum", "none"});
  TORCH_CHECK(rows.dim() == 2, op, ": the input has shape ", rows.sym_sizes(), ", expected [rows, classes]");
  TORCH_CHECK(target.dim() == 1 && target.sym_size(0) == rows.sym_size(0), op, ": target has shape ",
              target.sym_sizes(), ", expected one class for each of ", rows.sym_size(0), " rows");
  TORCH_CHECK(target.scalar_type() == at::kLong || target.scalar_type() == at::kInt, op, ": target is ",
              target.scalar_type(), ", expected int64 or int32");
  TORCH_CHECK(!weight.has_value() || (weight->dim() == 1 && weight->sym_size(0) == rows.sym_size(1)), op,
              ": weight has shape ", weight->sym_sizes(), ", expected one number for each of ", rows.sym_size(1),
              " classes");
  TORCH_CHECK(0 <= label_smoothing && label_smoothing <= 1, op, ": label_smoothing is ", label_smoothing,
              ", expected 0 to 1");
}

void check_linear_loss(const char* op, const Tensor& input, const Tensor& weight, const Tensor& target) {
  TORCH_CHECK(input.dim() == 2 && weight.dim() == 2 && input.sym_size(1) == weight.sym_size(1), op,
              ": input has shape ", input.sym_sizes(), " and weight ", weight.sym_sizes(),
              ", expected [tokens, hidden] and [vocabulary, hidden]");
  TORCH_CHECK(target.dim() == 1 && target.sym_size(0) == input.sym_size(0), op, ": the targets have shape ",
              target.sym_sizes(), ", expected one for each of ", input.sym_size(0), " tokens");
  TORCH_CHECK(target.scalar_type() == at::kLong || target.scalar_type() == at::kInt, op, ": the targets are ",
              target.scalar_type(), ", expected int64 or int32");
}

void check_per_row(const char* op, const char* argument, const std::optional<Tensor>& t, const Tensor& logits) {
  TORCH_CHECK(logits.dim() == 2, op, ": logits has shape ", logits.sym_sizes(), ", expected [rows, vocabulary]");
  TORCH_CHECK(!t.has_value() || (t->dim() == 1 && t->sym_size(0) == logits.sym_size(0)), op, ": ", argument,
              " has shape ", t->sym_sizes(), ", expected one number for each of ", logits.sym_size(0), " rows");
}

Tensor attended_gradient(const Tensor& probabilities, const Tensor& grad_output, const Tensor& values) {
  auto gradient = at::matmul(grad_output, values.mT());
  TORCH_CHECK(gradient.sizes() == probabilities.sizes(), "npu_attn_softmax_backward_: grad_output and values give ",
              gradient.sizes(), ", expected the shape of input, ", probabilities.sizes());
  return gradient;
}

}  // namespace npu::ops
