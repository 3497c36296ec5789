// Pinned host memory: upstream's caching host allocator over aclrtMallocHost. A block is reused when the streams that
// copied from or to it have passed.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

namespace npu::host_allocator {

at::HostAllocator* get();

// Whether `address` lies in memory of get(). Touches no card.
bool is_pinned(const void* address);

}  // namespace npu::host_allocator
