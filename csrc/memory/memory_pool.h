// torch.npu.MemPool: a private arena on one card, kept alive by this object. Allocations are routed to it between begin
// and end (torch.npu.use_mem_pool, graph capture).
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include "memory/arena.h"

namespace npu::caching_allocator {

// Ids are unique in the process: {0, n} for pools the user makes, {n, 0} for those of captures.
c10::MempoolId_t new_pool_id(bool user_created);

class MemoryPool {
 public:
  MemoryPool(ArenaOptions options, bool user_created);  // on the current card
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  c10::MempoolId_t id() const { return id_; }
  c10::DeviceIndex device() const { return device_; }
  int use_count() const;

 private:
  const c10::DeviceIndex device_;
  const c10::MempoolId_t id_;
};

// Routes the calling thread's allocations on `device` to the pool, until end_allocate_to_pool of the heap.
void begin_allocate_current_thread_to_pool(c10::DeviceIndex device, c10::MempoolId_t id);

}  // namespace npu::caching_allocator
