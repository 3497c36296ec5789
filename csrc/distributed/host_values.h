// Values of npu tensors in host memory, in the forms that a backend for CPU tensors takes. All are one-dimensional: the
// elements in their order, whatever the memory format. Used by StagedBackend; a copy waits for the current stream.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <vector>

#include "hccl.h"

namespace npu::distributed {

at::Tensor on_host(const at::Tensor& tensor);
at::Tensor on_host(const std::vector<at::Tensor>& tensors);  // end to end
at::Tensor room_on_host(const at::Tensor& tensor);
at::Tensor room_on_host(const std::vector<at::Tensor>& tensors);
void to_device(const at::Tensor& host, const at::Tensor& tensor);
void to_device(const at::Tensor& host, const std::vector<at::Tensor>& tensors);

// The same memory as bytes: moving values needs no type.
at::Tensor bytes_of(const at::Tensor& host);

// A reduction that runs elsewhere: hand `values` over to be reduced in place by `op`, then take result(). gloo lacks
// some types and reductions; what it gets is wide enough that narrowing gives what HCCL gives: the low bits of a sum of
// integers, and one rounding of a sum of half-precision numbers. Throws for what HCCL refuses.
class HostReduction {
 public:
  HostReduction(const at::Tensor& host, const c10d::ReduceOp& op, int ranks);
  at::Tensor result() const;

  std::vector<at::Tensor> values;  // one tensor, in a list as c10d wants it
  c10d::ReduceOp op;

 private:
  const c10d::ReduceOp asked_;
  const int ranks_;
  const at::ScalarType type_;
};

}  // namespace npu::distributed
