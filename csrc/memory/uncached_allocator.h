// PYTORCH_NO_NPU_MEMORY_CACHING=1: every allocation is the driver's own, every free waits for the card. For finding
// memory errors with the vendor's tools, not for speed. Counts nothing.
#pragma once

#include <c10/core/Allocator.h>

namespace npu::caching_allocator::uncached {

c10::DataPtr allocate(size_t bytes, c10::DeviceIndex device);

}  // namespace npu::caching_allocator::uncached
