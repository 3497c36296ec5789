// The caching device allocator: c10::DeviceAllocator over one DeviceHeap per card. See Note [Block pools] in
// block_pool.h and Note [Allocator lock] in device_heap.h. Registered when the library is loaded; touches no card
// before the first allocation.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <string>

#include "memory/allocator_history.h"
#include "memory/device_heap.h"
#include "runtime/stream.h"

namespace npu::caching_allocator {

// The allocator in force: this one, or what change_current_allocator put in its place.
c10::DeviceAllocator* get();
const char* backend_name();  // "native" or "pluggable"
// Only before the first allocation.
void change_current_allocator(PluggableAllocator allocator);

// Memory on the current card for the current stream (operator workspaces); freed in stream order.
c10::DataPtr allocate_workspace(size_t bytes);

// Addresses for other libraries. raw_delete throws for one that raw_alloc did not give.
void* raw_alloc(size_t bytes, Stream stream);
void raw_delete(void* address);

void empty_cache();
void record_stream(const c10::DataPtr& ptr, Stream stream);
void set_memory_fraction(double fraction, c10::DeviceIndex device);
double get_memory_fraction(c10::DeviceIndex device);

// The heap of a card, made on first use; throws for an unknown card and for bad allocator settings.
DeviceHeap& heap(c10::DeviceIndex device);

struct Snapshot {
  std::vector<SegmentInfo> segments;
  std::vector<std::vector<TraceEntry>> traces;  // per card
};
Snapshot snapshot(c10::MempoolId_t owner = {0, 0}, bool with_traces = true);
void record_history(const HistorySettings& settings, bool clear);
bool is_history_enabled();
// The stack trace of the live allocation that `address` lies in, or null.
std::shared_ptr<c10::GatheredContext> context_of(const void* address);

}  // namespace npu::caching_allocator
