#include "runtime/device_memory.h"

#include <c10/util/Exception.h>

#include "acl/check.h"
#include "acl/library.h"
#include "runtime/device.h"
#include "runtime/task_queue.h"

namespace npu::device_memory {

void* allocate(c10::DeviceIndex device, size_t bytes) {
  DeviceGuard guard(device);
  void* memory = nullptr;
  const int code = acl::api().aclrtMallocAlign32(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
  if (code == ACL_ERROR_RT_MEMORY_ALLOCATION) return nullptr;
  NPU_CHECK(code);
  return memory;
}

void settle(c10::DeviceIndex device) {
  task_queue::drain();
  synchronize(device);
}

void free(c10::DeviceIndex device, void* memory) noexcept {
  if (!is_usable()) return;
  try {
    DeviceGuard guard(device);
    NPU_CHECK(acl::api().aclrtFree(memory));
  } catch (const std::exception& error) {
    TORCH_WARN("Memory of npu:", static_cast<int>(device), " could not be given back: ", error.what());
  }
}

}  // namespace npu::device_memory
