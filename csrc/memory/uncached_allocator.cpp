#include "memory/uncached_allocator.h"

#include <c10/util/Exception.h>

#include "memory/out_of_memory.h"
#include "runtime/device.h"
#include "runtime/device_memory.h"

namespace npu::caching_allocator::uncached {
namespace {

struct Allocation {
  void* memory;
  c10::DeviceIndex device;
};

void delete_allocation(void* context) {
  const Allocation allocation = *static_cast<Allocation*>(context);
  delete static_cast<Allocation*>(context);
  if (!is_usable()) return;
  try {
    device_memory::settle(allocation.device);
  } catch (const std::exception& error) {
    TORCH_WARN("Work on npu:", static_cast<int>(allocation.device), " failed before memory was freed: ", error.what());
  }
  device_memory::free(allocation.device, allocation.memory);
}

}  // namespace

c10::DataPtr allocate(size_t bytes, c10::DeviceIndex device) {
  void* memory = device_memory::allocate(device, bytes);
  if (memory == nullptr) {
    OutOfMemory facts{};
    facts.device = device;
    facts.requested = bytes;
    memory_info(device, &facts.free, &facts.total);
    TORCH_CHECK_WITH(OutOfMemoryError, false, describe(facts));
  }
  return {memory, new Allocation{memory, device}, &delete_allocation, {c10::DeviceType::PrivateUse1, device}};
}

}  // namespace npu::caching_allocator::uncached
