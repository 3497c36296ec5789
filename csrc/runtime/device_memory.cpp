#include "runtime/device_memory.h"

#include <c10/util/Exception.h>

#include <exception>

#include "acl/check.h"
#include "acl/library.h"
#include "runtime/capture.h"
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
  std::exception_ptr error;
  try {
    task_queue::drain();
  } catch (...) {
    error = std::current_exception();  // of a task; the queue has been handed over all the same
  }
  DeviceGuard guard(device);
  const captures::Relaxed relaxed;
  const int code = acl::api().aclrtSynchronizeDevice();
  if (error) std::rethrow_exception(error);
  NPU_CHECK(code);
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
