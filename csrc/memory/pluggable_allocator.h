// Allocation functions that the user loads from a shared library (torch.npu.NPUPluggableAllocator): for a MemPool, or
// in place of the caching allocator.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include "acl.h"

namespace npu::caching_allocator {

struct PluggableAllocator {
  using Allocate = void*(ssize_t bytes, int device, aclrtStream stream);
  using Free = void(void* memory, ssize_t bytes, int device, aclrtStream stream);

  Allocate* allocate = nullptr;  // returns nullptr when out of memory
  Free* free = nullptr;
};

// A device allocator that calls these functions for every tensor; `native` does what they do not cover. It keeps no
// cache and no statistics.
c10::DeviceAllocator* make_device_allocator(PluggableAllocator functions, c10::DeviceAllocator* native);

}  // namespace npu::caching_allocator
