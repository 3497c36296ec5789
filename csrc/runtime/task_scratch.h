// Scratch memory of launches that are prepared in a task.
//
// Note [Workspace on the consumer]: the caching allocator's order is the order of the launching thread. A task is
// behind it and must not take blocks from there; so each stream has a block of its own for them, which grows, and goes
// back to the driver when the cache does.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <mutex>

#include "acl_types.h"

namespace npu::task_scratch {

// Memory for one launch. Nobody frees it while the lease is held, that is until the launch has been made.
struct Lease {
  std::unique_lock<std::mutex> lock;
  void* memory = nullptr;
  int waited = 0;  // the code of the wait for launches that used a block which was too small; may be their error
};

Lease reserve(aclrtStream stream, uint64_t bytes);

// Gives the blocks of one card back to the driver, when the launches that use them are done.
void release(c10::DeviceIndex device);

}  // namespace npu::task_scratch
