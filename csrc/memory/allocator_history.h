// What the allocator did, for torch.npu.memory._record_memory_history: a ring of upstream's TraceEntry for each card,
// and the stack traces that go with entries and blocks. Off by default; then a request costs one load of `records()`.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <atomic>
#include <string>
#include <vector>

namespace npu::caching_allocator {

using c10::CachingDeviceAllocator::CreateContextFn;
using c10::CachingDeviceAllocator::RecordContext;
using c10::CachingDeviceAllocator::TraceEntry;

struct HistorySettings {
  bool enabled = false;              // keep entries; traces of live blocks need `when` only
  CreateContextFn gather = nullptr;  // takes a stack trace; called without any lock
  size_t max_entries = 1;            // older ones are overwritten
  RecordContext when = RecordContext::NEVER;
  std::vector<TraceEntry::Action> skip;
};

// Attached to entries until changed (torch.npu.memory._set_memory_metadata).
void set_user_metadata(std::string text);
std::string user_metadata();

class AllocatorHistory {
 public:
  explicit AllocatorHistory(c10::DeviceIndex device) : device_(device) {}

  // Whether anything is to be recorded. Any thread, no lock.
  bool records() const noexcept { return records_.load(std::memory_order_relaxed); }
  // The caller's stack trace if traces are kept for `when`, else null. Without a lock: it may need the interpreter's.
  std::shared_ptr<c10::GatheredContext> gather(RecordContext when) const;

  // The rest is called under the heap's lock.
  void configure(const HistorySettings& settings, bool clear);
  const HistorySettings& settings() const { return settings_; }
  void add(TraceEntry::Action action, const void* address, size_t size, c10::StreamId stream, c10::MempoolId_t pool,
           std::shared_ptr<c10::GatheredContext> context);
  std::vector<TraceEntry> entries() const;  // oldest first

 private:
  const c10::DeviceIndex device_;
  std::atomic<bool> records_{false};
  std::atomic<RecordContext> when_{RecordContext::NEVER};
  std::atomic<CreateContextFn> gather_{nullptr};
  HistorySettings settings_;
  std::vector<TraceEntry> ring_;
  size_t oldest_ = 0;
};

}  // namespace npu::caching_allocator
