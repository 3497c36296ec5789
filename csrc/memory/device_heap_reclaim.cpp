// When memory is short: whole free segments go back to the driver, and what is said when that was not enough.
#include <c10/util/Exception.h>

#include <algorithm>

#include "memory/device_heap.h"
#include "memory/out_of_memory.h"
#include "runtime/device.h"
#include "runtime/device_memory.h"
#include "runtime/task_scratch.h"

namespace npu::caching_allocator {

using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;
using Action = TraceEntry::Action;

constexpr size_t kListed = 5;  // tensors in the message of a full card

void DeviceHeap::set_memory_fraction(double fraction) {
  TORCH_CHECK_VALUE(fraction >= 0 && fraction <= 1, "Invalid fraction value: ", fraction, ". Allowed range: 0~1");
  size_t free = 0, total = 0;
  memory_info(device_, &free, &total);
  Lock lock(mutex_);
  fraction_ = fraction;
  limit_ = fraction < 1 ? static_cast<size_t>(fraction * static_cast<double>(total)) : kNoLimit;
}

double DeviceHeap::memory_fraction() {
  Lock lock(mutex_);
  return fraction_;
}

void DeviceHeap::empty_cache(c10::MempoolId_t owner) {
  if (!pending_.empty()) {
    device_memory::settle(device_);
    make_ready_reusable();
  }
  Lock lock(mutex_);
  return_to_driver(detach_cached(owner), lock);
  drop_unused(lock);
}

void DeviceHeap::reclaim(Lock& lock) {
  ++stats_.rare().num_sync_all_streams;
  return_to_driver(detach_cached({0, 0}), lock);
  lock.unlock();
  const auto blocks = pending_.collect();  // all that were pending: the card has been synchronised
  lock.lock();
  for (Block* block : blocks) make_reusable(block);
  // Memory that another thread is giving back counts for this one too.
  returned_.wait(lock, [this] { return returning_ == 0; });
  drop_unused(lock);
}

// Returns the segments that have been free for longest until the use of the card falls below the threshold.
void DeviceHeap::collect_garbage(size_t wanted, Lock& lock) {
  const double threshold = Config::garbage_collection_threshold();
  if (threshold <= 0) return;
  lock.unlock();
  size_t free = 0, total = 0;
  memory_info(device_, &free, &total);
  lock.lock();
  const auto target = static_cast<size_t>(threshold * static_cast<double>(std::min(total, limit_)));
  default_arena_.for_each_pool([](BlockPool& pool) { pool.consolidate(); });
  std::vector<Segments::iterator> candidates;
  for (auto entry = segments_.begin(); entry != segments_.end(); ++entry) {
    const Segment& segment = entry->second;
    const bool large = !segment.first->pool->small();
    if (segment.arena == &default_arena_ && large && !segment.range) candidates.push_back(entry);
  }
  const auto age = [](const auto& entry) { return entry->second.first->pool->age(*entry->second.first); };
  std::stable_sort(candidates.begin(), candidates.end(), [&](const auto& a, const auto& b) { return age(a) > age(b); });
  Victims victims;
  size_t use = claimed_ + wanted;
  for (const auto& entry : candidates) {
    if (use <= target) break;
    const size_t before = victims.size();
    detach(entry, victims);
    if (victims.size() > before) use -= victims.back().block->size;
  }
  if (!victims.empty()) return_to_driver(victims, lock);
}

DeviceHeap::Victims DeviceHeap::detach_cached(c10::MempoolId_t owner) {
  const bool shared = owner == c10::MempoolId_t{0, 0};
  for_each_pool([](BlockPool& pool) { pool.consolidate(); });
  Victims victims;
  for (auto entry = segments_.begin(); entry != segments_.end();) {
    const Arena& arena = *entry->second.arena;
    const bool released = shared && arena.uses == 0 && &arena != &default_arena_;
    entry = arena.owner() == owner || released ? detach(entry, victims) : std::next(entry);
  }
  return victims;
}

DeviceHeap::Segments::iterator DeviceHeap::detach(Segments::iterator entry, Victims& victims) {
  Segment& segment = entry->second;
  if (segment.range != nullptr) {
    for (Block *block = segment.first, *next; block != nullptr; block = next) {
      next = block->next;
      if (block->state == Block::State::free) detach_pages(segment, block, victims);
    }
    return std::next(entry);
  }
  Block* block = segment.first;
  if (block->state != Block::State::free || block->is_split()) return std::next(entry);
  block->pool->remove(block);
  victims.push_back({block, segment.arena, nullptr});
  return segments_.erase(entry);
}

void DeviceHeap::return_to_driver(const Victims& victims, Lock& lock) {
  ++returning_;
  lock.unlock();
  std::exception_ptr error;
  try {
    device_memory::settle(device_);
    task_scratch::release(device_);
  } catch (...) {
    error = std::current_exception();  // of the user's work; the memory is free all the same
  }
  for (const auto [block, arena, range] : victims) {
    if (range != nullptr) {
      range->unmap(block->ptr, block->size);
    } else if (const auto& source = arena->options().source) {
      source->free(block->ptr, static_cast<ssize_t>(block->size), device_, nullptr);
    } else {
      device_memory::free(device_, block->ptr);
    }
  }
  lock.lock();
  for (const Victim& victim : victims) forget(victim);
  --returning_;
  returned_.notify_all();
  if (error) std::rethrow_exception(error);
}

void DeviceHeap::forget(const Victim& victim) {
  const auto [block, arena, range] = victim;
  const BlockPool& pool = *block->pool;
  claimed_ -= block->size;
  if (range != nullptr) {
    stats_.unmap(pool.small(), block->size, arena->owner());
    note(Action::SEGMENT_UNMAP, block->ptr, block->size, pool, nullptr);
    make_hole(block);
    return;
  }
  --arena->segments;
  stats_.remove_segment(pool.small(), block->size, arena->owner());
  if (block->size >= Config::max_split_size()) stats_.rare().oversize_segments.decrease(1);
  note(Action::SEGMENT_FREE, block->ptr, block->size, pool, nullptr);
  delete block;
}

// Address ranges without memory, and then private arenas that nobody uses and that hold nothing.
void DeviceHeap::drop_unused(Lock& lock) {
  std::vector<std::unique_ptr<ExpandableRange>> ranges;
  for (auto entry = segments_.begin(); entry != segments_.end();) {
    Segment& segment = entry->second;
    if (segment.first->state != Block::State::unmapped || segment.first->is_split()) {
      ++entry;
      continue;
    }
    ranges.push_back(std::move(segment.range));
    --segment.arena->segments;
    delete segment.first;
    entry = segments_.erase(entry);
  }
  std::erase_if(private_arenas_, [this](const auto& entry) {
    const bool unused = entry.second->uses == 0 && entry.second->segments == 0;
    if (unused) stats_.retire(entry.first);
    return unused;
  });
  lock.unlock();
  ranges.clear();
  lock.lock();
}

auto DeviceHeap::largest_blocks(size_t count) const -> std::vector<std::pair<size_t, Context>> {
  std::vector<std::pair<size_t, Context>> all;
  for (const auto& [address, segment] : segments_)
    for (const Block* block = segment.first; block != nullptr; block = block->next)
      if (block->is_used()) all.emplace_back(block->size, block->context);
  const auto larger = [](const auto& a, const auto& b) { return a.first > b.first; };
  count = std::min(count, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<int64_t>(count), all.end(), larger);
  all.resize(count);
  return all;
}

void DeviceHeap::throw_out_of_memory(size_t bytes, const BlockPool& pool, const Context& context, Lock& lock) {
  ++stats_.rare().num_ooms;
  OutOfMemory facts{device_, bytes, 0, 0, stats_.allocated_bytes(), stats_.reserved_bytes(), limit_ != kNoLimit,
                    limit_};
  facts.cached = true;
  facts.recorded = history_.records();
  if (facts.recorded) facts.largest = largest_blocks(kListed);
  lock.unlock();
  memory_info(device_, &facts.free, &facts.total);
  lock.lock();
  note(Action::OOM, reinterpret_cast<const void*>(facts.free), bytes, pool, context);
  lock.unlock();
  c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(bytes), facts.allocated, facts.reserved,
                                   c10::Device(c10::DeviceType::PrivateUse1, device_));
  notify_out_of_memory_observers(facts);
  TORCH_CHECK_WITH(OutOfMemoryError, false, describe(facts));
}

}  // namespace npu::caching_allocator
