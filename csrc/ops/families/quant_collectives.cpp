#include "ops/families/quant_collectives.h"

#include "runtime/device.h"

namespace npu::ops {

namespace {

bool in_bytes(const Tensor& t, std::optional<int64_t> number) {
  const auto type = type_in(t, number);
  return type == ACL_FLOAT8_E4M3FN || type == ACL_FLOAT8_E5M2 || type == ACL_HIFLOAT8;
}

bool is_plain(const Tensor& t) { return t.is_floating_point() && t.element_size() > 1; }

}  // namespace

c10::string_view quant_comm_mode(const std::optional<c10::string_view>& mode) {
  if (mode) return *mode;
  return get_soc_name().starts_with("Ascend910") ? "aiv" : "ai_cpu";
}

void check_not_float4(const char* op, std::optional<int64_t> x1, std::optional<int64_t> x2) {
  for (const auto& number : {x1, x2})
    TORCH_CHECK_NOT_IMPLEMENTED(!number || !in_pairs(type_behind(*number)), op,
                                " does not support float4: use float8_e4m3fn or float8_e5m2");
}

void check_operands(const char* op, const Quantised& x1, const Quantised& x2) {
  check_not_float4(op, x1.number, x2.number);
  check_rank(op, x1.name, x1.numbers, 2, 2), check_rank(op, x2.name, x2.numbers, 2, 2);
  TORCH_CHECK(x1.numbers.sym_size(1) == x2.numbers.sym_size(0), op, ": ", x1.name, " has ", x1.numbers.sym_size(1),
              " columns, x2 ", x2.numbers.sym_size(0), " rows");
  if (is_plain(x1.numbers)) {
    TORCH_CHECK(x1.numbers.scalar_type() == x2.numbers.scalar_type(), op, ": ", x1.name, " is ",
                x1.numbers.scalar_type(), " and x2 ", x2.numbers.scalar_type(), ", expected one floating type");
    TORCH_CHECK(!x1.scale && !x2.scale, op, ": x1_scale and x2_scale belong to int8, float8 and hifloat8");
    return;
  }
  const bool whole = x1.numbers.scalar_type() == at::kChar && !x1.number;
  TORCH_CHECK(whole ? x2.numbers.scalar_type() == at::kChar && !x2.number
                    : in_bytes(x1.numbers, x1.number) && in_bytes(x2.numbers, x2.number),
              op, ": ", x1.name, " is ", x1.numbers.scalar_type(), " and x2 ", x2.numbers.scalar_type(),
              ", expected one floating type, int8, float8 or hifloat8");
  TORCH_CHECK(x2.scale, op, ": x2_scale is missing");
}

void check_divides(const char* op, const char* what, const c10::SymInt& count, int64_t ranks) {
  TORCH_CHECK(count % ranks == 0, op, ": ", count, " ", what, " do not divide among ", ranks, " ranks");
}

void check_all_to_all(const char* op, const Tensor& x1, const Tensor& x2, int64_t ranks, bool rows,
                      const at::OptionalIntArrayRef& axes) {
  check_rank(op, "x1", x1, 2, 2), check_rank(op, "x2", x2, 2, 2);
  check_in(op, "world_size", ranks, 1, INT64_MAX);
  const int64_t wanted[] = {rows ? -2 : -1, rows ? -1 : -2};
  TORCH_CHECK(!axes || axes->empty() || *axes == at::IntArrayRef(wanted), op, ": all2all_axes is ", *axes,
              ", expected [", wanted[0], ", ", wanted[1], "]");
  if (rows)
    check_divides(op, "rows of x1", x1.sym_size(0), ranks);
  else
    check_divides(op, "columns of x2", x2.sym_size(1), ranks);
  const auto columns = rows ? x1.sym_size(1) * ranks : x1.sym_size(1);
  TORCH_CHECK(x2.sym_size(0) == columns, op, ": x1 has ", columns, " columns", rows ? " of all ranks" : "", ", x2 ",
              x2.sym_size(0), " rows");
}

void check_grouped_rows(const char* op, const Tensor& x, const Tensor& weight, bool turned, at::IntArrayRef send,
                        at::IntArrayRef recv, int64_t ranks, bool together) {
  check_rank(op, "gmm_x", x, 2, 2), check_counts(op, "recv_counts", recv, weight, ranks);
  const int64_t sent = check_counts(op, "send_counts", send, weight, ranks);
  TORCH_CHECK(x.sym_size(0) == sent, op, ": send_counts add up to ", sent, ", gmm_x has ", x.sym_size(0), " rows");
  TORCH_CHECK(x.sym_size(1) == weight.sym_size(turned ? 2 : 1), op, ": gmm_x has ", x.sym_size(1),
              " columns, gmm_weight ", weight.sym_size(turned ? 2 : 1), " rows");
  TORCH_CHECK(together, op, ": mm_x and mm_weight come together");
}

at::ScalarType base_type(const Tensor& x1, const std::optional<Tensor>& x2_scale,
                         const std::optional<at::ScalarType>& asked) {
  if (!x2_scale) return x1.scalar_type();
  return x2_scale->scalar_type() == at::kLong ? at::kHalf : asked.value_or(at::kBFloat16);
}

at::ScalarType quant_type(const char* op, const Tensor& x1, std::optional<int64_t> asked) {
  if (is_plain(x1)) return type_of(op, "y_dtype", asked, x1.scalar_type(), {x1.scalar_type()});
  TORCH_CHECK(asked, op, ": y_dtype is missing, which a product of quantised numbers needs");
  return type_of(op, "y_dtype", asked, at::kHalf, {at::kHalf, at::kBFloat16, at::kFloat});
}

// ---- npu_mm_all_reduce_base

void check_all_reduce(const ReduceOperands& o, const ReduceTypes& types, c10::string_view reduce_op) {
  const char* op = "npu_mm_all_reduce_base";
  check_sum(op, reduce_op);
  check_not_float4(op, types.x1, types.x2);
  check_rank(op, "x1", o.x1, 2, 3), check_rank(op, "x2", o.x2, 2, 2);
  TORCH_CHECK(o.x1.sym_size(-1) == o.x2.sym_size(0), op, ": x1 has ", o.x1.sym_size(-1), " columns, x2 ",
              o.x2.sym_size(0), " rows");
  TORCH_CHECK(o.comm_quant_scale_1.has_value() == o.comm_quant_scale_2.has_value(), op,
              ": comm_quant_scale_1 and comm_quant_scale_2 come together");
  TORCH_CHECK(!o.pertoken_scale || o.dequant_scale, op, ": pertoken_scale needs dequant_scale");
  if (!is_plain(o.x1)) {
    const bool whole = o.x1.scalar_type() == at::kChar && !types.x1;
    TORCH_CHECK(whole ? o.x2.scalar_type() == at::kChar : in_bytes(o.x1, types.x1) && in_bytes(o.x2, types.x2), op,
                ": x1 is ", o.x1.scalar_type(), " and x2 ", o.x2.scalar_type(), ", expected int8, float8 or hifloat8");
    TORCH_CHECK(o.dequant_scale, op, ": dequant_scale is missing");
    TORCH_CHECK(!o.antiquant_scale && !o.antiquant_offset, op, ": antiquant_scale belongs to a floating x1");
  } else if (o.x2.scalar_type() == at::kChar) {
    TORCH_CHECK(o.antiquant_scale, op, ": antiquant_scale is missing");
    TORCH_CHECK(!o.dequant_scale, op, ": dequant_scale belongs to a quantised x1");
  } else {
    TORCH_CHECK(o.x1.scalar_type() == o.x2.scalar_type(), op, ": x1 is ", o.x1.scalar_type(), " and x2 ",
                o.x2.scalar_type(), ", expected one floating type");
    TORCH_CHECK(!o.dequant_scale && !o.antiquant_scale && !o.antiquant_offset, op,
                ": dequant_scale and antiquant_scale belong to quantised operands");
  }
}

at::ScalarType all_reduce_type(const Tensor& x1, std::optional<int64_t> number,
                               const std::optional<Tensor>& dequant_scale, std::optional<int64_t> asked) {
  if (is_plain(x1)) return x1.scalar_type();
  if (x1.scalar_type() == at::kChar && !number)
    return dequant_scale && dequant_scale->scalar_type() == at::kBFloat16 ? at::kBFloat16 : at::kHalf;
  return quant_type("npu_mm_all_reduce_base", x1, asked);
}

void all_reduce_product(const ReduceOperands& o, const ReduceTypes& types, const ReduceOptions& p, const Tensor& out) {
  const auto x1 = typed(o.x1, types.x1), x2 = typed(o.x2, types.x2);
  if (is_plain(o.x1) && is_plain(o.x2)) {
    if (p.comm_mode) {
      NPU_EXEC(aclnnMatmulAllReduceV3, o.x1, o.x2, o.bias, o.x3, p.hcom, p.reduce_op, *p.comm_mode, p.comm_turn,
               kStopOnFailure, out);
    } else if (o.x3) {
      NPU_EXEC(aclnnMatmulAllReduceV2, o.x1, o.x2, o.bias, o.x3, p.hcom, p.reduce_op, p.comm_turn, kStopOnFailure, out);
    } else {
      NPU_EXEC(aclnnMatmulAllReduce, o.x1, o.x2, o.bias, p.hcom, p.reduce_op, p.comm_turn, kStopOnFailure, out);
    }
    return;
  }
  if (is_plain(o.x1)) {
    if (p.comm_mode) {
      NPU_EXEC(aclnnWeightQuantMatmulAllReduceV2, x1, x2, o.bias, o.antiquant_scale, o.antiquant_offset, o.x3, p.hcom,
               p.reduce_op, *p.comm_mode, p.comm_turn, kStopOnFailure, p.antiquant_group_size, out);
    } else {
      NPU_EXEC(aclnnWeightQuantMatmulAllReduce, x1, x2, o.bias, o.antiquant_scale, o.antiquant_offset, o.x3, p.hcom,
               p.reduce_op, p.comm_turn, kStopOnFailure, p.antiquant_group_size, out);
    }
    return;
  }
  const auto rows = typed(o.pertoken_scale, types.pertoken_scale);
  const auto columns = typed(o.dequant_scale, types.dequant_scale);
  const bool whole = o.x1.scalar_type() == at::kChar && !types.x1;
  if (p.comm_mode) {  // of int8 the scale of the columns comes first, as in the older versions
    NPU_EXEC(aclnnQuantMatmulAllReduceV5, x1, x2, o.bias, o.x3, whole ? columns : rows, whole ? rows : columns,
             o.comm_quant_scale_1, o.comm_quant_scale_2, p.hcom, p.reduce_op, *p.comm_mode, p.comm_turn, kStopOnFailure,
             p.group_size, p.comm_quant_mode, out);
  } else if (!whole) {
    NPU_EXEC(aclnnQuantMatmulAllReduceV4, x1, x2, o.bias, o.x3, rows, columns, o.comm_quant_scale_1,
             o.comm_quant_scale_2, p.hcom, p.reduce_op, p.comm_turn, kStopOnFailure, p.group_size, p.comm_quant_mode,
             out);
  } else if (o.comm_quant_scale_1) {
    NPU_EXEC(aclnnQuantMatmulAllReduceV3, x1, x2, o.bias, o.x3, columns, rows, o.comm_quant_scale_1,
             o.comm_quant_scale_2, p.hcom, p.reduce_op, p.comm_turn, kStopOnFailure, out);
  } else if (o.pertoken_scale) {
    NPU_EXEC(aclnnQuantMatmulAllReduceV2, x1, x2, o.bias, o.x3, columns, rows, p.hcom, p.reduce_op, p.comm_turn,
             kStopOnFailure, out);
  } else {
    NPU_EXEC(aclnnQuantMatmulAllReduce, x1, x2, o.bias, o.x3, columns, p.hcom, p.reduce_op, p.comm_turn, kStopOnFailure,
             out);
  }
}

}  // namespace npu::ops
