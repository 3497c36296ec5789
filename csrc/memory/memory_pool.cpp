#include "memory/memory_pool.h"

#include <atomic>
#include <thread>

#include "memory/caching_allocator.h"
#include "runtime/device.h"

namespace npu::caching_allocator {

c10::MempoolId_t new_pool_id(bool user_created) {
  static std::atomic<c10::CaptureId_t> next{1};
  const c10::CaptureId_t id = next.fetch_add(1);
  return user_created ? c10::MempoolId_t{0, id} : c10::MempoolId_t{id, 0};
}

MemoryPool::MemoryPool(ArenaOptions options, bool user_created)
    : device_(current_device()), id_(new_pool_id(user_created)) {
  heap(device_).retain_pool(id_, std::move(options));
}

MemoryPool::~MemoryPool() {
  if (!is_usable()) return;
  try {
    heap(device_).release_pool(id_);
    heap(device_).empty_cache(id_);
  } catch (const std::exception& error) {
    TORCH_WARN("The memory of a MemPool stays cached: ", error.what());
  }
}

int MemoryPool::use_count() const { return heap(device_).pool_use_count(id_); }

void begin_allocate_current_thread_to_pool(c10::DeviceIndex device, c10::MempoolId_t id) {
  heap(device).begin_allocate_to_pool(
      id, [thread = std::this_thread::get_id()](c10::StreamId) { return std::this_thread::get_id() == thread; });
}

}  // namespace npu::caching_allocator
