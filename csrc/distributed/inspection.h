// What the process groups of this process wait for: the part "groups" of an inspection (runtime/inspection.h).
#pragma once

namespace npu::distributed {

class ProcessGroupHCCL;

void begin_inspection(ProcessGroupHCCL& group);
void end_inspection(ProcessGroupHCCL& group);

}  // namespace npu::distributed
