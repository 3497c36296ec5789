// One card's memory: hands out blocks, takes them back, asks the driver for segments and returns them.
// See Note [Block pools] in block_pool.h for the data structure.
//
// Note [Allocator lock]
// ~~~~~~~~~~~~~~~~~~~~~
// `mutex_` guards blocks, pools, counters and history. It is never held across a driver call, an event, the task queue
// or a stack trace: those may wait for a thread (the device, the queue's consumer, a holder of Python's lock) that
// itself wants memory. (While a graph is captured the provider is asked whether a stream is, which waits for nobody.)
// So growing a pool drops it, and segments on their way back to the driver are first taken out of their pools under the
// lock, then waited for and freed without it. What is left takes nanoseconds, hence a SpinMutex.
#pragma once

#include <condition_variable>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "memory/allocator_history.h"
#include "memory/arena.h"
#include "memory/expandable_range.h"
#include "memory/pending_frees.h"
#include "memory/spin_mutex.h"

namespace npu::caching_allocator {

using c10::CachingDeviceAllocator::DeviceStats;
using c10::CachingDeviceAllocator::SegmentInfo;

struct Usage {
  size_t allocated = 0, reserved = 0, peak_allocated = 0, peak_reserved = 0;  // bytes
};

class DeviceHeap {
 public:
  explicit DeviceHeap(c10::DeviceIndex device);

  // A block of at least `bytes` (not 0) for work on `stream`. Throws c10::OutOfMemoryError.
  Block* malloc(size_t bytes, c10::StreamId stream);
  // The block is reusable on its stream at once, elsewhere when the streams of record_stream are through with it.
  void free(Block* block) noexcept;
  void record_stream(Block* block, c10::Stream stream);
  void erase_stream(const void* address, c10::Stream stream);  // takes record_stream back
  // The allocated block that `address` lies in, or nullptr.
  Block* find(const void* address);
  // The memory from the driver that an allocated address lies in; null for one that is not of this heap.
  struct SegmentOf {
    void* address = nullptr;
    size_t bytes = 0;
    bool expandable = false;
  };
  SegmentOf segment_of(const void* address);

  // Lost data, see lost_data.h. lose() gives the state of the memory that holds a byte of the range: `lost` where a
  // user has it, `free` where nobody has; nothing when it is not of this heap.
  void lose_all();
  std::optional<Block::State> lose(const char* begin, size_t bytes);
  void restore(const void* address);

  // Returns the memory that no block uses; {0, 0}: of the default arena and of released MemPools.
  void empty_cache(c10::MempoolId_t owner);

  void set_memory_fraction(double fraction);
  double memory_fraction();

  DeviceStats stats();
  Usage usage();  // leaves the pools as they are
  void reset_accumulated_stats();
  void reset_peak_stats();
  std::vector<SegmentInfo> segments(c10::MempoolId_t owner);  // {0, 0}: all
  std::vector<TraceEntry> history();
  void record_history(const HistorySettings& settings, bool clear);

  // Private arenas. Requests for which `filter` holds go to `owner` between begin and end; both begin and retain keep
  // the arena alive until as many release_pool.
  using Filter = std::function<bool(c10::StreamId)>;
  void begin_allocate_to_pool(c10::MempoolId_t owner, Filter filter);
  void end_allocate_to_pool(c10::MempoolId_t owner);
  void retain_pool(c10::MempoolId_t owner, ArenaOptions options);
  void release_pool(c10::MempoolId_t owner);
  int pool_use_count(c10::MempoolId_t owner);

  c10::DeviceIndex device() const { return device_; }

 private:
  struct Segment {
    Block* first;
    Arena* arena;
    std::shared_ptr<c10::GatheredContext> context;
    std::unique_ptr<ExpandableRange> range;  // null: one allocation of the driver, a block or more of it
  };
  static constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();
  using Lock = std::unique_lock<SpinMutex>;
  using Context = std::shared_ptr<c10::GatheredContext>;

  template <class Visit>
  void for_each_block(Visit visit) {
    for (auto& [address, segment] : segments_)
      for (Block* block = segment.first; block != nullptr; block = block->next) visit(*block);
  }
  Arena& arena_for(c10::StreamId stream);
  Arena& private_arena(c10::MempoolId_t owner, const ArenaOptions& options);
  template <class Visit>
  void for_each_pool(Visit visit) {
    default_arena_.for_each_pool(visit);
    for (auto& [owner, arena] : private_arenas_) arena->for_each_pool(visit);
  }

  Block* malloc_slow(Arena& arena, BlockPool& pool, size_t size, const Context& context, Lock& lock);
  Block* take_from_lenders(c10::StreamId stream, size_t size);
  Block* grow(Arena& arena, BlockPool& pool, size_t size, const Context& context, Lock& lock);
  Block* grow_by_segment(Arena& arena, BlockPool& pool, size_t size, const Context& context, Lock& lock);
  Block* grow_expandable(Arena& arena, BlockPool& pool, size_t size, const Context& context, Lock& lock);
  Segment* reserve_segment(Arena& arena, BlockPool& pool, size_t size, const Context& context, Lock& lock);
  Block* map_more(Segment& segment, Block* hole, size_t size, const Context& context, Lock& lock);
  static void make_hole(Block* block);
  void free_when_ready(Block* block, const std::vector<c10::Stream>& streams) noexcept;
  void make_reusable(Block* block, const Context& context = nullptr);
  void make_ready_reusable();
  void note(TraceEntry::Action action, const void* address, size_t size, const BlockPool& pool, const Context& context);

  bool over_limit(size_t bytes) const { return claimed_ + bytes > limit_; }
  std::vector<std::pair<size_t, Context>> largest_blocks(size_t count) const;  // in use
  [[noreturn]] void throw_out_of_memory(size_t bytes, const BlockPool& pool, const Context& context, Lock& lock);

  // Reclaiming. Victims are free memory taken out of its pool (State::moving), waiting for the device: a plain
  // segment, or pages of an expandable one.
  struct Victim {
    Block* block;
    Arena* arena;
    ExpandableRange* range;  // null: a plain segment, no longer in segments_ as the driver may give its address away
  };
  using Segments = std::map<const char*, Segment>;  // by address
  using Victims = std::vector<Victim>;
  void reclaim(Lock& lock);
  void collect_garbage(size_t wanted, Lock& lock);
  Victims detach_cached(c10::MempoolId_t owner);
  Segments::iterator detach(Segments::iterator segment, Victims& victims);  // returns the next segment
  void detach_pages(Segment& segment, Block* block, Victims& victims);
  void return_to_driver(const Victims& victims, Lock& lock);
  void forget(const Victim& victim);
  void drop_unused(Lock& lock);

  const c10::DeviceIndex device_;
  SpinMutex mutex_;
  AllocatorStats stats_;
  Arena default_arena_;
  std::unordered_map<c10::MempoolId_t, std::unique_ptr<Arena>, c10::MempoolIdHash> private_arenas_;
  std::vector<std::pair<c10::MempoolId_t, Filter>> routes_;
  Segments segments_;
  size_t claimed_ = 0;       // bytes of segments that are held or being asked for
  double fraction_ = 1.0;    // of the card that this process may use
  size_t limit_ = kNoLimit;  // of claimed_; from fraction_
  int returning_ = 0;        // threads in return_to_driver
  std::condition_variable_any returned_;
  AllocatorHistory history_;
  PendingFrees pending_;
};

}  // namespace npu::caching_allocator
