#include "distributed/host_values.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>

#include <limits>

#include "distributed/types.h"

namespace npu::distributed {

namespace {

c10d::ReduceOp::RedOpType operation(HcclReduceOp op) {
  switch (op) {
    case HCCL_REDUCE_PROD:
      return c10d::ReduceOp::PRODUCT;
    case HCCL_REDUCE_MAX:
      return c10d::ReduceOp::MAX;
    case HCCL_REDUCE_MIN:
      return c10d::ReduceOp::MIN;
    default:
      return c10d::ReduceOp::SUM;
  }
}

// Signed order of x with its first bit turned is the unsigned order of x. Sums and products have the same bits anyway.
at::Tensor turn_first_bit(const at::Tensor& values, const c10d::ReduceOp& op) {
  const bool ordered = op.op_ == c10d::ReduceOp::MIN || op.op_ == c10d::ReduceOp::MAX;
  return ordered ? values.bitwise_xor(std::numeric_limits<int64_t>::min()) : values;
}

at::Tensor widened(const at::Tensor& host, const c10d::ReduceOp& op) {
  switch (host.scalar_type()) {
    case at::kHalf:
    case at::kBFloat16:
      return host.to(at::kFloat);
    case at::kShort:
    case at::kUInt16:
      return host.to(at::kInt);
    case at::kUInt32:
      return host.to(at::kLong);
    case at::kUInt64:
      return turn_first_bit(host.view(at::kLong), op);
    case at::kBool:
      return host.view(at::kByte);
    case at::kComplexFloat:
    case at::kComplexDouble:
      return at::view_as_real(host);
    default:
      return host;
  }
}

}  // namespace

at::Tensor on_host(const at::Tensor& tensor) {
  check_tensor(tensor);
  return tensor.detach().contiguous().view({-1}).to(at::kCPU);
}

at::Tensor on_host(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& tensor : tensors) parts.push_back(on_host(tensor));
  return at::cat(parts);
}

at::Tensor room_on_host(const at::Tensor& tensor) { return room_on_host(std::vector<at::Tensor>{tensor}); }

at::Tensor room_on_host(const std::vector<at::Tensor>& tensors) {
  int64_t elements = 0;
  for (const at::Tensor& tensor : tensors) elements += tensor.numel();
  return at::empty({elements}, tensors.at(0).options().device(at::kCPU).memory_format(std::nullopt));
}

void to_device(const at::Tensor& host, const at::Tensor& tensor) {
  check_tensor(tensor);
  tensor.detach().copy_(host.view(tensor.sizes()));
}

void to_device(const at::Tensor& host, const std::vector<at::Tensor>& tensors) {
  int64_t begin = 0;
  for (const at::Tensor& tensor : tensors) {
    to_device(host.narrow(0, begin, tensor.numel()), tensor);
    begin += tensor.numel();
  }
}

at::Tensor bytes_of(const at::Tensor& host) { return host.view(at::kByte); }

HostReduction::HostReduction(const at::Tensor& host, const c10d::ReduceOp& asked, int ranks)
    : asked_(asked), ranks_(ranks), type_(host.scalar_type()) {
  reducing(type_, asked);
  op = operation(reduction(asked, type_));
  values.push_back(widened(scaled_input(host, asked, ranks), op));
}

at::Tensor HostReduction::result() const {
  at::Tensor result = values[0];
  if (type_ == at::kUInt64)
    result = turn_first_bit(result, op).view(type_);
  else if (type_ == at::kBool)
    result = result.view(type_);
  else if (at::isComplexType(type_))
    result = at::view_as_complex(result);
  else
    result = result.to(type_);
  scale_output(result, asked_, ranks_);
  return result;
}

}  // namespace npu::distributed
