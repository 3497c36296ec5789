#include "runtime/task_scratch.h"

#include <algorithm>
#include <map>
#include <utility>

#include "acl/check.h"
#include "acl/library.h"
#include "runtime/device.h"
#include "runtime/device_memory.h"

namespace npu::task_scratch {

namespace {

struct Block {
  c10::DeviceIndex device = 0;
  void* memory = nullptr;
  uint64_t size = 0;
};

// Tasks run one at a time, but on any thread, and beside each other once the queue has stopped.
struct Blocks {
  std::mutex mutex;
  std::map<aclrtStream, Block> of_stream;
};

Blocks& blocks() {
  static auto* all = new Blocks;  // leaked: threads may outlive static destruction
  return *all;
}

}  // namespace

Lease reserve(aclrtStream stream, uint64_t bytes) {
  Lease lease{std::unique_lock(blocks().mutex)};
  Block& block = blocks().of_stream[stream];
  if (C10_UNLIKELY(block.size < bytes)) {
    const auto& api = acl::api();
    if (block.memory) {
      lease.waited = api.aclrtSynchronizeStream(stream);
      block.size = 0;
      NPU_CHECK(api.aclrtFree(std::exchange(block.memory, nullptr)));
    }
    const uint64_t wanted = std::max<uint64_t>(2 * bytes, 1 << 20);
    NPU_CHECK(api.aclrtMalloc(&block.memory, wanted, ACL_MEM_MALLOC_HUGE_FIRST));
    block.device = t_current.device;
    block.size = wanted;
  }
  lease.memory = block.memory;
  return lease;
}

void release(c10::DeviceIndex device) {
  std::lock_guard lock(blocks().mutex);
  std::erase_if(blocks().of_stream, [&](const auto& entry) {
    const auto& [stream, block] = entry;
    if (block.device != device) return false;
    DeviceGuard guard(device);
    acl::api().aclrtSynchronizeStream(stream);  // an error of the work is its own matter and is raised elsewhere
    if (block.memory) device_memory::free(device, block.memory);
    return true;
  });
}

}  // namespace npu::task_scratch
