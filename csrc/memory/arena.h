// The block pools of all streams of one owner: a card's default arena, or the private one of a MemPool. Guarded by the
// heap's lock.
#pragma once

#include <memory>
#include <vector>

#include "memory/block_pool.h"
#include "memory/pluggable_allocator.h"

namespace npu::caching_allocator {

struct ArenaOptions {
  std::shared_ptr<PluggableAllocator> source;  // where segments come from; null: the driver
  bool use_on_oom = false;                     // others may take its free blocks before they run out of memory
  bool no_split = false;                       // a segment serves one request at a time
};

class Arena {
 public:
  Arena(AllocatorStats& stats, c10::MempoolId_t owner, ArenaOptions options, DeviceHeap* heap)
      : stats_(stats), owner_(owner), options_(std::move(options)), heap_(heap) {}

  // The pool that serves blocks of `size` on `stream`.
  BlockPool& pool(c10::StreamId stream, size_t size) {
    StreamPools& pools = last_ != nullptr && last_->stream == stream ? *last_ : find_or_add(stream);
    return size <= c10::CachingAllocator::kSmallSize ? pools.small : pools.large;
  }

  template <class Visit>
  void for_each_pool(Visit visit) {
    for (auto& pools : streams_) {
      visit(pools->small);
      visit(pools->large);
    }
  }

  c10::MempoolId_t owner() const { return owner_; }
  const ArenaOptions& options() const { return options_; }

  int uses = 0;      // MemPool objects, captures and routes that keep a private arena
  int segments = 0;  // how many it holds

 private:
  struct StreamPools {
    c10::StreamId stream;
    BlockPool small, large;
  };

  StreamPools& find_or_add(c10::StreamId stream) {
    for (auto& pools : streams_) {
      if (pools->stream == stream) return *(last_ = pools.get());
    }
    const auto key = [&](bool small) { return BlockPool::Key{small, stream, owner_, options_.no_split}; };
    streams_.push_back(std::unique_ptr<StreamPools>(
        new StreamPools{stream, BlockPool(stats_, key(true), heap_), BlockPool(stats_, key(false), heap_)}));
    return *(last_ = streams_.back().get());
  }

  AllocatorStats& stats_;
  const c10::MempoolId_t owner_;
  const ArenaOptions options_;
  DeviceHeap* const heap_;
  std::vector<std::unique_ptr<StreamPools>> streams_;
  StreamPools* last_ = nullptr;  // of the last request: most programs use one stream
};

}  // namespace npu::caching_allocator
