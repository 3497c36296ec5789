// What the user is told when a card is full: the numbers, then what can be done about it with the settings in force.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace npu::caching_allocator {

struct OutOfMemory {
  c10::DeviceIndex device;
  size_t requested;            // bytes that could not be had
  size_t free, total;          // of the card, as the driver says
  size_t allocated, reserved;  // by this process
  bool limited;                // by a fraction of the card, `limit` bytes
  size_t limit;
  bool cached = false;    // by the caching allocator, which can keep the stacks of requests
  bool recorded = false;  // it does: torch.npu.memory._record_memory_history()
  // The largest live blocks, with the stacks of the requests if they were kept.
  std::vector<std::pair<size_t, std::shared_ptr<c10::GatheredContext>>> largest = {};
};

std::string describe(const OutOfMemory& facts);

// Called before the exception is thrown, without a lock (torch.npu's out-of-memory snapshot hangs here).
using OutOfMemoryObserver = std::function<void(const OutOfMemory&)>;
void attach_out_of_memory_observer(OutOfMemoryObserver observer);
void notify_out_of_memory_observers(const OutOfMemory& facts);

}  // namespace npu::caching_allocator
