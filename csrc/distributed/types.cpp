#include "distributed/types.h"

#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>

#include <numeric>

#include "acl/library.h"
#include "runtime/device.h"
#include "runtime/storage_format.h"
#include "runtime/stream.h"

namespace npu::distributed {

namespace {

std::optional<HcclDataType> number_of(at::ScalarType type) {
  switch (type) {
    case at::kChar:
      return HCCL_DATA_TYPE_INT8;
    case at::kShort:
      return HCCL_DATA_TYPE_INT16;
    case at::kInt:
      return HCCL_DATA_TYPE_INT32;
    case at::kHalf:
      return HCCL_DATA_TYPE_FP16;
    case at::kFloat:
      return HCCL_DATA_TYPE_FP32;
    case at::kLong:
      return HCCL_DATA_TYPE_INT64;
    case at::kUInt64:
      return HCCL_DATA_TYPE_UINT64;
    case at::kBool:
    case at::kByte:
      return HCCL_DATA_TYPE_UINT8;
    case at::kUInt16:
      return HCCL_DATA_TYPE_UINT16;
    case at::kUInt32:
      return HCCL_DATA_TYPE_UINT32;
    case at::kDouble:
      return HCCL_DATA_TYPE_FP64;
    case at::kBFloat16:
      return HCCL_DATA_TYPE_BFP16;
    default:
      return std::nullopt;
  }
}

// softnpu's reductions take every type, HCCL's those that reducing() names. The official client was seen to refuse
// float64 itself.
bool is_reducible(at::ScalarType type) {
  if (acl::provider() == acl::Provider::softnpu) return true;
  return type != at::kDouble && type != at::kUInt16 && type != at::kUInt32 && type != at::kUInt64;
}

bool is_bitwise(c10d::ReduceOp::RedOpType op) {
  return op == c10d::ReduceOp::BAND || op == c10d::ReduceOp::BOR || op == c10d::ReduceOp::BXOR;
}

}  // namespace

bool is_byte(at::ScalarType type) { return type == at::kBool || type == at::kByte; }

Format moving(at::ScalarType type) {
  if (const auto number = number_of(type)) return {*number};
  switch (c10::elementSize(type)) {
    case 1:
      return {HCCL_DATA_TYPE_INT8};
    case 2:
      return {HCCL_DATA_TYPE_INT16};
    case 4:
      return {HCCL_DATA_TYPE_INT32};
    default:
      return {HCCL_DATA_TYPE_INT64, c10::elementSize(type) / 8};
  }
}

Format reducing(at::ScalarType type, const c10d::ReduceOp& op) {
  if (is_byte(type)) return {HCCL_DATA_TYPE_INT32};
  TORCH_CHECK_TYPE(is_reducible(c10::toRealValueType(type)), "HCCL cannot reduce tensors of type ", type,
                   ": it takes int8, int16, int32, int64, float16, float32 and bfloat16. Convert them first.");
  if (const auto number = number_of(type)) return {*number};
  const bool sums =
      op.op_ == c10d::ReduceOp::SUM || op.op_ == c10d::ReduceOp::AVG || op.op_ == c10d::ReduceOp::PREMUL_SUM;
  if (sums && type == at::kComplexFloat) return {HCCL_DATA_TYPE_FP32, 2};
  if (sums && type == at::kComplexDouble) return {HCCL_DATA_TYPE_FP64, 2};
  TORCH_CHECK_TYPE(false, "HCCL cannot reduce tensors of type ", type,
                   ". Convert them to a floating-point or integer type first.");
}

HcclReduceOp reduction(const c10d::ReduceOp& op, at::ScalarType type) {
  TORCH_CHECK_VALUE(!is_bitwise(op.op_), "Cannot use ReduceOp.",
                    op.op_ == c10d::ReduceOp::BAND  ? "BAND"
                    : op.op_ == c10d::ReduceOp::BOR ? "BOR"
                                                    : "BXOR",
                    " with HCCL");
  const bool unsigned_words = type == at::kUInt16 || type == at::kUInt32 || type == at::kUInt64;
  TORCH_CHECK_TYPE(!unsigned_words || op.op_ != c10d::ReduceOp::AVG, "Cannot use ReduceOp.AVG with inputs of type ",
                   type, ": torch does not divide them");
  if (type == at::kBool) {
    TORCH_CHECK_TYPE(op.op_ != c10d::ReduceOp::AVG, "Cannot use ReduceOp.AVG with boolean inputs");
    return op.op_ == c10d::ReduceOp::PRODUCT || op.op_ == c10d::ReduceOp::MIN ? HCCL_REDUCE_MIN : HCCL_REDUCE_MAX;
  }
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::AVG:
    case c10d::ReduceOp::PREMUL_SUM:
      return HCCL_REDUCE_SUM;
    case c10d::ReduceOp::PRODUCT:
      return HCCL_REDUCE_PROD;
    case c10d::ReduceOp::MIN:
      return HCCL_REDUCE_MIN;
    case c10d::ReduceOp::MAX:
      return HCCL_REDUCE_MAX;
    default:
      TORCH_CHECK_VALUE(false, "Unhandled ReduceOp");
  }
}

at::Tensor scaled_input(const at::Tensor& given, const c10d::ReduceOp& op, int ranks) {
  const at::Tensor input =
      is_byte(given.scalar_type()) && given.device().is_privateuseone() ? given.to(at::kInt) : given;
  if (op.op_ == c10d::ReduceOp::AVG && input.scalar_type() == at::kHalf) return at::div(input, ranks);
  if (op.op_ != c10d::ReduceOp::PREMUL_SUM) return input;
  const auto* factor = static_cast<const c10d::PreMulSumSupplement*>(op.supplement_.get());
  const at::Tensor& tensor = factor->tensor_factor;
  if (!tensor.defined()) return at::mul(input, factor->double_factor);
  if (!tensor.is_cpu()) tensor.record_stream(current_stream(tensor.device().index()).unwrap());
  return at::mul(input, tensor.to(input.options()));
}

void scale_output(at::Tensor& output, const c10d::ReduceOp& op, int ranks) {
  if (op.op_ != c10d::ReduceOp::AVG || ranks == 1 || output.scalar_type() == at::kHalf) return;
  if (at::isIntegralType(output.scalar_type(), false))
    output.div_(ranks, "trunc");
  else
    output.div_(ranks);
}

c10::DeviceIndex checked_device(int64_t index) {
  TORCH_CHECK_VALUE(index >= 0 && index < device_count(), "There is no npu:", index, "; there are ",
                    int{device_count()}, " devices");
  return static_cast<c10::DeviceIndex>(index);
}

void check_tensor(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.device().type() == c10::DeviceType::PrivateUse1, "HCCL works on npu tensors, but got one on ",
              tensor.device(),
              ". Move it with .npu(), or add a backend for its device: init_process_group(\"cpu:gloo,npu:hccl\").");
  TORCH_CHECK(!tensor.is_sparse(), "Tensors must be dense");
  TORCH_CHECK(tensor.is_contiguous(tensor.suggest_memory_format()), "Tensors must be contiguous");
  TORCH_CHECK(!formats::layout_of(tensor),
              "HCCL works on tensors in element order, but got one in a private format; cast it with "
              "torch_npu.npu_format_cast(tensor, torch_npu.Format.ND)");
}

const at::Tensor& single(const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK(tensors.size() == 1, "Expecting one tensor only but got ", tensors.size());
  check_tensor(tensors[0]);
  return tensors[0];
}

void check_pairs(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "requires one output for each input, but got ", outputs.size(),
                    " outputs and ", inputs.size(), " inputs");
}

void check_alike(const std::vector<at::Tensor>& tensors, const at::Tensor& other) {
  for (const at::Tensor& tensor : tensors) {
    check_tensor(tensor);
    TORCH_CHECK_TYPE(tensor.scalar_type() == other.scalar_type(), "Tensors must have identical type");
    TORCH_CHECK_VALUE(tensor.device() == other.device(), "Tensors must be on the same npu device");
  }
}

void check_root(int64_t root, int ranks) {
  TORCH_CHECK_VALUE(root >= 0 && root < ranks, "root rank ", root, " is not in this group of ", ranks);
}

std::vector<at::Tensor> of_root(const std::vector<std::vector<at::Tensor>>& lists, int64_t root, int rank, int ranks) {
  check_root(root, ranks);
  if (rank != root) {
    TORCH_CHECK_VALUE(lists.empty(), "requires a list of tensors on the root only");
    return {};
  }
  TORCH_CHECK_VALUE(lists.size() == 1 && static_cast<int>(lists[0].size()) == ranks,
                    "requires one tensor for each rank on the root");
  return lists[0];
}

uint64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  return std::accumulate(tensors.begin(), tensors.end(), uint64_t{0},
                         [](uint64_t sum, const at::Tensor& tensor) { return sum + tensor.nbytes(); });
}

uint64_t count(const at::Tensor& tensor, const Format& format) {
  return static_cast<uint64_t>(tensor.numel()) * format.per_element;
}

std::vector<uint64_t> counts_of(const at::Tensor& tensor, const std::vector<int64_t>& splits, int ranks,
                                const Format& format) {
  const int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  const uint64_t row = rows == 0 ? 0 : static_cast<uint64_t>(tensor.numel() / rows) * format.per_element;
  if (splits.empty()) {
    TORCH_CHECK_VALUE(rows % ranks == 0, "Tensor's dim 0 (", rows, ") does not divide equally across ", ranks,
                      " ranks");
    return std::vector<uint64_t>(ranks, row * static_cast<uint64_t>(rows / ranks));
  }
  TORCH_CHECK_VALUE(static_cast<int>(splits.size()) == ranks, "Number of tensor splits (", splits.size(),
                    ") not equal to group size (", ranks, ")");
  for (int64_t split : splits) TORCH_CHECK_VALUE(split >= 0, "Split sizes must not be negative, but got ", split);
  TORCH_CHECK_VALUE(std::accumulate(splits.begin(), splits.end(), int64_t{0}) == rows,
                    "Split sizes doesn't match total dim 0 size");
  std::vector<uint64_t> counts;
  for (int64_t split : splits) counts.push_back(row * static_cast<uint64_t>(split));
  return counts;
}

std::vector<uint64_t> counts_of(const std::vector<at::Tensor>& tensors, const Format& format) {
  std::vector<uint64_t> counts;
  for (const at::Tensor& tensor : tensors) counts.push_back(count(tensor, format));
  return counts;
}

at::Tensor flat(const std::vector<at::Tensor>& tensors) {
  int64_t elements = 0, at = 0;
  for (const at::Tensor& tensor : tensors) elements += tensor.numel();
  at::Tensor all = at::empty({elements}, tensors[0].options());
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() != 0) all.narrow(0, at, tensor.numel()).view(tensor.sizes()).copy_(tensor, true);
    at += tensor.numel();
  }
  return all;
}

void copy_from_flat(const at::Tensor& source, std::vector<at::Tensor>& tensors) {
  int64_t at = 0;
  for (at::Tensor& tensor : tensors) {
    if (tensor.numel() != 0) tensor.copy_(source.narrow(0, at, tensor.numel()).view(tensor.sizes()), true);
    at += tensor.numel();
  }
}

at::Tensor room_for(const at::Tensor& output) {
  return output.is_contiguous() ? output : at::empty(output.sizes(), output.options());
}

at::Tensor room_for_reduction(const at::Tensor& output) {
  return is_byte(output.scalar_type()) ? at::empty(output.sizes(), output.options().dtype(at::kInt)) : room_for(output);
}

void take_from_room(const at::Tensor& room, at::Tensor& output) {
  if (!room.is_same(output)) output.copy_(room, true);
}

}  // namespace npu::distributed
