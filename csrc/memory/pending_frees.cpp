#include "memory/pending_frees.h"

#include <utility>

#include "runtime/capture.h"

namespace npu::caching_allocator {
namespace {

// A stream with an error says so when the user synchronises it; until then its blocks stay pending.
bool completed(const Event& event) noexcept {
  try {
    return event.query();
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

void PendingFrees::add(Block* block, const std::vector<c10::Stream>& streams) {
  if (C10_LIKELY(!captures::any())) {
    mark(block, streams);
  } else {
    std::lock_guard lock(mutex_);
    deferred_.push_back({block, streams});
  }
  blocks_.fetch_add(1, std::memory_order_release);
}

void PendingFrees::mark(Block* block, const std::vector<c10::Stream>& streams) {
  std::vector<Event> events;
  for (const c10::Stream stream : streams) record_in_destructor(events.emplace_back(), Stream(stream));
  std::lock_guard lock(mutex_);
  block->events = static_cast<uint32_t>(streams.size());
  for (size_t i = 0; i < streams.size(); ++i) marks_[streams[i]].push_back({std::move(events[i]), block});
}

std::vector<Block*> PendingFrees::collect() {
  std::vector<Block*> reusable;
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return reusable;
  if (C10_UNLIKELY(!deferred_.empty() && !captures::any())) {
    const auto deferred = std::exchange(deferred_, {});
    lock.unlock();
    for (const auto& [block, streams] : deferred) mark(block, streams);
    lock.lock();
  }
  for (auto& [stream, marks] : marks_) {
    while (!marks.empty() && completed(marks.front().event)) {
      Block* block = marks.front().block;
      if (--block->events == 0) reusable.push_back(block);
      marks.pop_front();
    }
  }
  blocks_.fetch_sub(reusable.size(), std::memory_order_release);
  return reusable;
}

}  // namespace npu::caching_allocator
