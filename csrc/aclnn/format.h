// Tensors in private formats on their way to the device. See Note [Private formats] in runtime/storage_format.h.
#pragma once

#include "aclnn/op.h"
#include "runtime/storage_format.h"

namespace npu::formats {

// `t`, contiguous and in element order, in blocks of C0 elements of `type`; a format that the device does not have for
// these sizes is an error.
at::Tensor to_blocks(const at::Tensor& t, aclFormat format, aclDataType type);
// `t` over a copy of its memory in element order, with its sizes, strides and offset.
at::Tensor in_order(const at::Tensor& t);
// Puts what was written to in_order(t) into the memory of `t`.
void write_back(const at::Tensor& t, const at::Tensor& ordered);

// A call with arguments in private formats: as the operator that takes them, or with copies.
void launch(ops::AclOp& op, ops::PhaseOne phase_one, ops::Packer& arguments);

// Replaces arguments in private formats, which are only read, by copies in element order; the caller keeps those.
std::vector<c10::Storage> order(ops::Packer& arguments);

}  // namespace npu::formats
