// Products of quantised numbers and in groups, fused with collectives: types, versions of the operators, and what the
// rows of csrc/ops/tables/fused_collectives.yaml refuse. Sizes may be symbolic.
#pragma once

#include "aclnn/op.h"
#include "ops/families/fused_collectives.h"
#include "ops/families/quant_products.h"

namespace npu::ops {

inline c10::string_view comm_mode_of(const std::optional<c10::string_view>& mode) { return mode.value_or("ai_cpu"); }
// Of a product of quantised numbers, which the chips before Ascend950 send from their vector cores.
c10::string_view quant_comm_mode(const std::optional<c10::string_view>& mode);
// What the first version of an operator takes.
inline bool in_base_form(const std::optional<Tensor>& x1_scale, const std::optional<Tensor>& x2_scale,
                         const std::optional<c10::string_view>& mode) {
  return !x1_scale && !x2_scale && comm_mode_of(mode) == "ai_cpu";
}

// Matrices of one floating type, or of int8, float8 or hifloat8 with their scales.
void check_operands(const char* op, const Quantised& x1, const Quantised& x2);
inline void check_product(const char* op, const Tensor& x1, const Tensor& x2) {
  TORCH_CHECK(x1.is_floating_point() && x1.scalar_type() == x2.scalar_type(), op, ": x1 is ", x1.scalar_type(),
              " and x2 ", x2.scalar_type(), ", expected one floating type");
}
void check_not_float4(const char* op, std::optional<int64_t> x1, std::optional<int64_t> x2);
void check_divides(const char* op, const char* what, const c10::SymInt& count, int64_t ranks);
// The rows of x1 go to all (`rows`), or the columns of the product.
void check_all_to_all(const char* op, const Tensor& x1, const Tensor& x2, int64_t ranks, bool rows,
                      const at::OptionalIntArrayRef& axes);
void check_grouped_rows(const char* op, const Tensor& x, const Tensor& weight, bool turned, at::IntArrayRef send,
                        at::IntArrayRef recv, int64_t ranks, bool together);

at::ScalarType base_type(const Tensor& x1, const std::optional<Tensor>& x2_scale,
                         const std::optional<at::ScalarType>& asked);
at::ScalarType quant_type(const char* op, const Tensor& x1, std::optional<int64_t> asked);
// The ABI's number of a float8 type, by default that of float8_e5m2.
inline int64_t acl_float8(std::optional<int64_t> number) {
  return number ? static_cast<int64_t>(type_behind(*number)) : static_cast<int64_t>(ACL_FLOAT8_E5M2);
}

// ---- npu_mm_all_reduce_base, an operator of nine versions

struct ReduceOperands {
  const Tensor &x1, &x2;
  const std::optional<Tensor>&bias, &x3, &antiquant_scale, &antiquant_offset, &dequant_scale, &pertoken_scale,
      &comm_quant_scale_1, &comm_quant_scale_2;
};
struct ReduceTypes {
  std::optional<int64_t> x1, x2, dequant_scale, pertoken_scale;
};
struct ReduceOptions {
  c10::string_view hcom, reduce_op;
  const std::optional<c10::string_view>& comm_mode;
  int64_t comm_turn, group_size, comm_quant_mode, antiquant_group_size;
};
void check_all_reduce(const ReduceOperands& operands, const ReduceTypes& types, c10::string_view reduce_op);
at::ScalarType all_reduce_type(const Tensor& x1, std::optional<int64_t> number,
                               const std::optional<Tensor>& dequant_scale, std::optional<int64_t> asked);
void all_reduce_product(const ReduceOperands& o, const ReduceTypes& types, const ReduceOptions& p, const Tensor& out);

}  // namespace npu::ops
