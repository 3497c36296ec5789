// What a packed call says of its tensors, read without making descriptors.
#pragma once

#include <string_view>
#include <vector>

#include "aclnn/op.h"
#include "aclnn/words.h"

namespace npu::ops {

// Where the tensor arguments of a call begin; a list is one argument.
std::vector<const uint64_t*> tensor_arguments(PhaseOne phase_one, const Packer& packer);

// Bit i: the operator writes its tensor argument i.
uint64_t written_by(std::string_view op);

struct PackedTensor {
  TensorWords words;
  void* address;  // of the storage
  size_t argument;
};
// Elements of lists one by one; absent tensors are left out.
std::vector<PackedTensor> packed_tensors(PhaseOne phase_one, const Packer& packer);

}  // namespace npu::ops
