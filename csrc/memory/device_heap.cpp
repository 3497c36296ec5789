// Handing out and taking back blocks; private arenas. Expandable segments are in device_heap_expand.cpp, what happens
// when memory is short in device_heap_reclaim.cpp, what is reported in device_heap_report.cpp.
#include "memory/device_heap.h"

#include <c10/util/Exception.h>

#include "memory/allocator_config.h"
#include "memory/units.h"
#include "runtime/device.h"
#include "runtime/device_memory.h"

namespace npu::caching_allocator {

using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;
using Action = TraceEntry::Action;

namespace {

constexpr size_t kExbibyte = size_t{1} << 60;

}  // namespace

DeviceHeap::DeviceHeap(c10::DeviceIndex device)
    : device_(device), default_arena_(stats_, {0, 0}, {}, this), history_(device) {
  if (const auto fraction = settings::memory_fraction()) set_memory_fraction(*fraction);
}

Block* DeviceHeap::malloc(size_t bytes, c10::StreamId stream) {
  TORCH_CHECK_WITH(OutOfMemoryError, bytes < kExbibyte, "NPU out of memory. Tried to allocate more than 1EB memory.");
  const bool records = history_.records();
  Context context;
  if (C10_UNLIKELY(records)) context = history_.gather(RecordContext::STATE);
  if (C10_UNLIKELY(!pending_.empty()) && !settings::lazy_reclaim()) make_ready_reusable();

  const size_t size = round_size(bytes);
  Lock lock(mutex_);
  Arena& arena = C10_LIKELY(routes_.empty()) ? default_arena_ : arena_for(stream);
  BlockPool& pool = arena.pool(stream, size);
  Block* block = pool.take_binned(size);
  if (C10_UNLIKELY(block == nullptr)) block = malloc_slow(arena, pool, size, context, lock);
  block->requested = bytes;
  stats_.allocate(pool.small(), block->size, bytes);
  if (C10_UNLIKELY(records)) {
    note(Action::ALLOC, block->ptr, bytes, *block->pool, context);
    block->context = std::move(context);
  }
  const size_t allocated = stats_.allocated_bytes(), reserved = stats_.reserved_bytes();
  lock.unlock();
  c10::reportMemoryUsageToProfiler(block->ptr, static_cast<int64_t>(block->size), allocated, reserved,
                                   npu_device(device_));
  return block;
}

Block* DeviceHeap::malloc_slow(Arena& arena, BlockPool& pool, size_t size, const Context& context, Lock& lock) {
  const auto oversize = [&](Block* block) {
    if (block != nullptr && !pool.small() && block->size >= Config::max_split_size())
      stats_.rare().oversize_allocations.increase(1);
    return block;
  };
  if (Block* block = pool.take_best_fit(size)) return oversize(block);
  collect_garbage(segment_size(size), lock);
  if (Block* block = grow(arena, pool, size, context, lock)) return oversize(block);

  if (settings::refuse_over_limit() && over_limit(segment_size(size))) {
    ++stats_.rare().num_oom_rejections;
    throw_out_of_memory(size, pool, context, lock);
  }
  ++stats_.rare().num_alloc_retries;
  // The first round also makes pending blocks reusable, the second can return the segments they were in.
  for (int round = 0; round < 2; ++round) {
    reclaim(lock);
    if (Block* block = pool.take_best_fit(size)) return oversize(block);
    if (Block* block = grow(arena, pool, size, context, lock)) return oversize(block);
  }
  if (Block* block = take_from_lenders(pool.key().stream, size)) return oversize(block);
  throw_out_of_memory(size, pool, context, lock);
}

Block* DeviceHeap::take_from_lenders(c10::StreamId stream, size_t size) {
  for (auto& [owner, arena] : private_arenas_) {
    if (!arena->options().use_on_oom) continue;
    if (Block* block = arena->pool(stream, size).take_best_fit(size)) return block;
  }
  return nullptr;
}

Block* DeviceHeap::grow(Arena& arena, BlockPool& pool, size_t size, const Context& context, Lock& lock) {
  if (settings::expandable_segments() && arena.options().source == nullptr) {
    if (ExpandableRange::supported()) return grow_expandable(arena, pool, size, context, lock);
    TORCH_WARN_ONCE("This CANN runtime cannot map memory, so expandable_segments:True has no effect.");
  }
  return grow_by_segment(arena, pool, size, context, lock);
}

Block* DeviceHeap::grow_by_segment(Arena& arena, BlockPool& pool, size_t size, const Context& context, Lock& lock) {
  const size_t bytes = segment_size(size);
  if (over_limit(bytes)) return nullptr;
  claimed_ += bytes;  // before the lock is dropped, so that threads cannot pass the limit together
  void* memory = nullptr;
  const auto ask = [&] {
    const auto& source = arena.options().source;
    if (source == nullptr) return device_memory::allocate(device_, bytes);
    const c10::Stream stream(c10::Stream::UNSAFE, npu_device(device_), pool.key().stream);
    return source->allocate(static_cast<ssize_t>(bytes), device_, Stream(stream).handle());
  };
  lock.unlock();
  try {
    memory = ask();
  } catch (...) {
    lock.lock();
    claimed_ -= bytes;
    throw;
  }
  lock.lock();
  if (memory == nullptr) {
    claimed_ -= bytes;
    return nullptr;
  }
  auto* block = new Block(static_cast<char*>(memory), bytes, &pool);
  segments_[block->ptr] = {block, &arena, context, nullptr};
  ++arena.segments;
  stats_.add_segment(pool.small(), bytes, arena.owner());
  if (bytes >= Config::max_split_size()) stats_.rare().oversize_segments.increase(1);
  note(Action::SEGMENT_ALLOC, memory, bytes, pool, context);
  return pool.cut(block, size);
}

void DeviceHeap::free(Block* block) noexcept {
  const bool records = history_.records();
  Context context;
  if (C10_UNLIKELY(records)) context = history_.gather(RecordContext::ALL);
  char* const ptr = block->ptr;
  const auto size = static_cast<int64_t>(block->size);
  std::vector<c10::Stream> streams;

  Lock lock(mutex_);
  BlockPool& pool = *block->pool;
  stats_.free(pool.small(), block->size, block->requested);
  if (C10_UNLIKELY(!pool.small() && block->size >= Config::max_split_size()))
    stats_.rare().oversize_allocations.decrease(1);
  if (C10_UNLIKELY(records)) note(Action::FREE_REQUESTED, ptr, block->requested, pool, context);
  if (C10_LIKELY(block->used_by.empty())) {
    make_reusable(block, context);
  } else {
    block->state = Block::State::pending;
    stats_.add_pending(pool.small(), block->size);
    streams.swap(block->used_by);
  }
  const size_t allocated = stats_.allocated_bytes(), reserved = stats_.reserved_bytes();
  lock.unlock();

  if (C10_UNLIKELY(!streams.empty())) free_when_ready(block, streams);
  c10::reportMemoryUsageToProfiler(ptr, -size, allocated, reserved, npu_device(device_));
}

void DeviceHeap::free_when_ready(Block* block, const std::vector<c10::Stream>& streams) noexcept {
  try {
    if (is_usable()) return pending_.add(block, streams);
    Lock lock(mutex_);  // the runtime was shut down and its streams with it
    make_reusable(block);
  } catch (const std::exception& error) {
    TORCH_WARN("A block of npu:", static_cast<int>(device_),
               " stays in use, because the work of another stream on it cannot be followed: ", error.what());
  }
}

void DeviceHeap::make_reusable(Block* block, const Context& context) {
  BlockPool& pool = *block->pool;
  if (C10_UNLIKELY(block->state == Block::State::pending)) stats_.remove_pending(pool.small(), block->size);
  if (C10_UNLIKELY(history_.records())) {
    note(Action::FREE_COMPLETED, block->ptr, block->requested, pool, context);
    block->context = nullptr;
  }
  pool.give_back(block);
}

void DeviceHeap::make_ready_reusable() {
  const auto blocks = pending_.collect();
  if (blocks.empty()) return;
  Lock lock(mutex_);
  for (Block* block : blocks) make_reusable(block);
}

void DeviceHeap::record_stream(Block* block, c10::Stream stream) {
  const c10::Stream own(c10::Stream::UNSAFE, npu_device(device_), block->pool->key().stream);
  if (stream == own) return;
  Lock lock(mutex_);
  for (const c10::Stream known : block->used_by) {
    if (known == stream) return;
  }
  block->used_by.push_back(stream);
}

Block* DeviceHeap::find(const void* address) {
  Lock lock(mutex_);
  auto segment = segments_.upper_bound(static_cast<const char*>(address));
  if (segment == segments_.begin()) return nullptr;
  for (Block* block = (--segment)->second.first; block != nullptr; block = block->next) {
    if (address < block->ptr + block->size) return block->is_used() ? block : nullptr;
  }
  return nullptr;
}

void DeviceHeap::erase_stream(const void* address, c10::Stream stream) {
  Block* const block = find(address);
  TORCH_CHECK_VALUE(block != nullptr, "The tensor's memory is not of the caching allocator.");
  Lock lock(mutex_);
  std::erase(block->used_by, stream);
}

DeviceHeap::SegmentOf DeviceHeap::segment_of(const void* address) {
  Lock lock(mutex_);
  auto segment = segments_.upper_bound(static_cast<const char*>(address));
  if (segment == segments_.begin()) return {};
  const Segment& found = (--segment)->second;
  size_t bytes = 0;
  for (const Block* block = found.first; block != nullptr; block = block->next) bytes += block->size;
  if (address >= found.first->ptr + bytes) return {};
  return {found.first->ptr, bytes, found.range != nullptr};
}

void DeviceHeap::lose_all() {
  Lock lock(mutex_);
  for_each_block([](Block& block) {
    if (block.is_used()) block.state = Block::State::lost;
  });
}

std::optional<Block::State> DeviceHeap::lose(const char* begin, size_t bytes) {
  std::optional<Block::State> found;
  Lock lock(mutex_);
  for_each_block([&](Block& block) {
    if (block.ptr + block.size <= begin || begin + bytes <= block.ptr || block.state == Block::State::unmapped) return;
    if (block.is_used()) block.state = Block::State::lost;
    if (found != Block::State::lost) found = block.is_used() ? Block::State::lost : Block::State::free;
  });
  return found;
}

void DeviceHeap::restore(const void* address) {
  Block* block = find(address);
  Lock lock(mutex_);
  if (block != nullptr && block->state == Block::State::lost) block->state = Block::State::allocated;
}

void DeviceHeap::note(Action action, const void* address, size_t size, const BlockPool& pool, const Context& context) {
  if (history_.records()) history_.add(action, address, size, pool.key().stream, pool.key().owner, context);
}

// ---- private arenas -------------------------------------------------------------------------------------------------

Arena& DeviceHeap::arena_for(c10::StreamId stream) {
  for (const auto& [owner, filter] : routes_) {
    if (filter(stream)) return *private_arenas_.at(owner);
  }
  return default_arena_;
}

Arena& DeviceHeap::private_arena(c10::MempoolId_t owner, const ArenaOptions& options) {
  auto& arena = private_arenas_[owner];
  if (arena == nullptr) arena = std::make_unique<Arena>(stats_, owner, options, this);
  return *arena;
}

void DeviceHeap::begin_allocate_to_pool(c10::MempoolId_t owner, Filter filter) {
  Lock lock(mutex_);
  for (const auto& route : routes_)
    TORCH_CHECK(route.first != owner, "beginAllocateToPool: already recording to mempool_id");
  ++private_arena(owner, {}).uses;
  routes_.emplace_back(owner, std::move(filter));
}

void DeviceHeap::end_allocate_to_pool(c10::MempoolId_t owner) {
  Lock lock(mutex_);
  const size_t removed = std::erase_if(routes_, [&](const auto& route) { return route.first == owner; });
  TORCH_CHECK(removed == 1, "endAllocatePool: not currently recording to mempool_id");
}

void DeviceHeap::retain_pool(c10::MempoolId_t owner, ArenaOptions options) {
  Lock lock(mutex_);
  ++private_arena(owner, options).uses;
}

void DeviceHeap::release_pool(c10::MempoolId_t owner) {
  Lock lock(mutex_);
  const auto arena = private_arenas_.find(owner);
  TORCH_CHECK(arena != private_arenas_.end() && arena->second->uses > 0,
              "releasePool: not a pool of npu:", static_cast<int>(device_));
  --arena->second->uses;
}

int DeviceHeap::pool_use_count(c10::MempoolId_t owner) {
  Lock lock(mutex_);
  const auto arena = private_arenas_.find(owner);
  return arena == private_arenas_.end() ? 0 : arena->second->uses;
}

}  // namespace npu::caching_allocator
