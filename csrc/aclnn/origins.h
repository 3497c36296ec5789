// The last launches, each with ATen operator, shapes and line of the Python program, for errors that the device reports
// when the program is elsewhere. Off but with TORCH_NPU_ERROR_ORIGIN=1: asking Python for the line costs more than a
// launch. Notes come from every thread that launches; errors ask from any.
#pragma once

#include <cstdint>

#include "aclnn.h"

namespace npu::ops {
struct AclOp;
class Packer;
class Unpacker;
}  // namespace npu::ops

namespace npu::origins {

using PhaseOne = int (*)(void*, ops::Unpacker&, uint64_t*, aclOpExecutor**);  // that of aclnn/op.h

void keep(bool on);
void note(const ops::AclOp& op, PhaseOne phase_one, const ops::Packer& packer);

}  // namespace npu::origins
