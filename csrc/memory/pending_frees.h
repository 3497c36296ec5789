// Blocks that the user has freed while other streams (record_stream) may still work on them. free() adds a block with
// one event per stream; malloc() collects those whose events have completed. Has a lock of its own and must be called
// without the heap's: recording and querying events may go through the task queue.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "memory/block_pool.h"
#include "memory/destructor_event.h"

namespace npu::caching_allocator {

class PendingFrees {
 public:
  bool empty() const noexcept { return blocks_.load(std::memory_order_acquire) == 0; }

  // Records an event on each of `streams`; the block is pending until all have completed. While streams are captured
  // the events wait: one of a captured stream never completes.
  void add(Block* block, const std::vector<c10::Stream>& streams);

  // The blocks that became reusable. Never waits, not even for another thread that collects.
  std::vector<Block*> collect();

 private:
  struct Mark {
    Event event;
    Block* block;
  };

  struct Deferred {
    Block* block;
    std::vector<c10::Stream> streams;
  };
  void mark(Block* block, const std::vector<c10::Stream>& streams);

  std::mutex mutex_;
  std::vector<Deferred> deferred_;
  std::unordered_map<c10::Stream, std::deque<Mark>> marks_;  // in the order of the stream, so of completion
  std::atomic<size_t> blocks_{0};
};

}  // namespace npu::caching_allocator
