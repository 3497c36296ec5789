// What the user is told when a card is full: the numbers, then what can be done about it with the settings in force.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <functional>
#include <string>

namespace npu::caching_allocator {

struct OutOfMemory {
  c10::DeviceIndex device;
  size_t requested;            // bytes that could not be had
  size_t free, total;          // of the card, as the driver says
  size_t allocated, reserved;  // by this process
  bool limited;                // by a fraction of the card, `limit` bytes
  size_t limit;
};

std::string describe(const OutOfMemory& facts);

// Called before the exception is thrown, without a lock (torch.npu's out-of-memory snapshot hangs here).
using OutOfMemoryObserver = std::function<void(const OutOfMemory&)>;
void attach_out_of_memory_observer(OutOfMemoryObserver observer);
void notify_out_of_memory_observers(const OutOfMemory& facts);

}  // namespace npu::caching_allocator
