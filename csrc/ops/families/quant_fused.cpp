#include "ops/families/quant_fused.h"

#include <ATen/WrapDimUtils.h>

namespace npu::ops {

namespace {

constexpr int64_t kInt8 = 1, kInt4 = static_cast<int64_t>(at::kQUInt4x2);

// The number of the type: torch's of int8 or int4, or that of an MX type.
int64_t rotated_type(std::optional<int64_t> type) {
  const int64_t number = type.value_or(kInt8);
  if (number == 285) return kInt4;
  return number == static_cast<int64_t>(at::kQInt8) ? kInt8 : number;
}

bool is_mx(int64_t number) { return number != kInt8 && number != kInt4; }

}  // namespace

void check_gate_axes(const char* op, const Tensor& x, const std::optional<Tensor>& group_index) {
  check_planes(op, x, 7), check_halves(op, x, -1);
  if (!group_index) return;
  TORCH_CHECK(x.dim() == 2 && group_index->dim() == 1, op,
              ": group_index must have 1 dimension, and divides the rows of x with 2, not ", x.dim());
}

void check_gate_gradient(const char* op, const Tensor& grad, const Tensor& x) {
  check_halves(op, x, -1);
  const auto sizes = results::gated(x, -1);
  TORCH_CHECK(grad.sym_sizes() == c10::SymIntArrayRef(sizes.data(), sizes.size()), op, ": the gradient has the sizes ",
              grad.sym_sizes(), ", expected half of ", x.sym_sizes());
}

void check_group_gradient(const char* op, const Tensor& grad, const std::optional<Tensor>& weight,
                          const std::optional<Tensor>& origin, const std::optional<Tensor>& group_index) {
  TORCH_CHECK(!weight || origin, op, ": weight needs y_origin");
  TORCH_CHECK(!weight || weight->sym_numel() * grad.sym_size(-1) == grad.sym_numel(), op, ": weight has ",
              weight->sym_numel(), " numbers, expected one for each row of grad_y");
  TORCH_CHECK(!origin || origin->sym_sizes() == grad.sym_sizes(), op, ": y_origin has the sizes ", origin->sym_sizes(),
              ", expected ", grad.sym_sizes());
  TORCH_CHECK(!group_index || group_index->dim() == 1, op, ": group_index must have 1 dimension");
}

void check_rotate(const Tensor& x, const Tensor& rotation, const std::optional<Tensor>& alpha,
                  std::optional<int64_t> type, int64_t axis, const MxScaling& scaling, bool transpose_y) {
  const char* op = "npu_rotate_quant";
  TORCH_CHECK_NOT_IMPLEMENTED(!transpose_y, op, " does not support transpose_y");
  TORCH_CHECK(x.is_floating_point() && x.dim() > 0, op, ": x must be floating with at least 1 dimension");
  TORCH_CHECK((rotation.dim() == 2 || rotation.dim() == 3) && rotation.sym_size(-1) == rotation.sym_size(-2), op,
              ": rotation has the sizes ", rotation.sym_sizes(), ", expected square matrices");
  const auto side = rotation.sym_size(-1), width = x.sym_size(-1);
  TORCH_CHECK(side > 0 && width % side == 0, op, ": rotation has ", side, " columns, which do not divide the ", width,
              " of x");
  TORCH_CHECK(rotation.dim() == 2 || rotation.sym_size(0) == width / side, op, ": rotation has ", rotation.sym_size(0),
              " matrices, expected one for each of ", width / side, " blocks");
  const int64_t number = rotated_type(type);
  if (is_mx(number)) {
    check_mx(op, x, width, number, scaling);
    at::maybe_wrap_dim(axis, x.dim());
    TORCH_CHECK(!alpha || alpha->sym_numel() == 1, op, ": alpha has ", alpha->sym_numel(), " numbers, expected 1");
    return;
  }
  TORCH_CHECK(x.dim() == 2, op, ": x has ", x.dim(), " dimensions, expected 2 for int8 and int4");
  TORCH_CHECK_NOT_IMPLEMENTED(!alpha, op, " does not support alpha for int8 and int4");
}

Stored rotated(const Tensor& out, std::optional<int64_t> type) {
  const int64_t number = rotated_type(type);
  return is_mx(number) ? stored(out, number) : Stored{out, number == kInt8 ? ACL_INT8 : ACL_INT32};
}

Stored rotated_scale(const Tensor& out, std::optional<int64_t> type) {
  return {out, is_mx(rotated_type(type)) ? ACL_FLOAT8_E8M0 : ACL_FLOAT};
}

namespace results {

Result rotated_numbers(const Tensor& x, std::optional<int64_t> type) {
  const int64_t number = rotated_type(type);
  if (is_mx(number)) return quantized(dims(x), number);
  return in_type("npu_rotate_quant", x, number == kInt8 ? at::kChar : at::kQUInt4x2);
}

Result rotated_scales(const Tensor& x, std::optional<int64_t> type, int64_t axis) {
  if (is_mx(rotated_type(type))) return mx_scales(dims(x), axis, 32);
  return {{x.sym_size(0)}, at::kFloat};
}

}  // namespace results
}  // namespace npu::ops
