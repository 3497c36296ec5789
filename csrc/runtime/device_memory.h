// Memory of a card straight from the driver: the segments of the caching allocator, and every allocation when caching
// is off. Slow; may wait for the device. Selects the card itself.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>

namespace npu::device_memory {

// nullptr when the card is full; throws for any other error.
void* allocate(c10::DeviceIndex device, size_t bytes);

// Waits until no work queued before the call can touch the card's memory any more: the task queue is handed over and
// the card synchronised. Due between the last use of memory and free(). Throws what the work left behind.
void settle(c10::DeviceIndex device);

// Does nothing once the runtime was shut down, and in a forked child.
void free(c10::DeviceIndex device, void* memory) noexcept;

}  // namespace npu::device_memory
