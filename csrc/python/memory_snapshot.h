// The part of bind_memory that turns the allocator's snapshot and history into torch.cuda's dicts.
#pragma once

#include "python/module.h"

namespace npu::python {

void bind_memory_snapshot(py::module_& module);

}  // namespace npu::python
