// Expandable segments: a pool has (usually) one range of addresses and maps memory at its end as it grows. The part
// without memory is a block in State::unmapped, a hole; holes never lie next to each other.
#include "memory/device_heap.h"
#include "memory/units.h"

namespace npu::caching_allocator {

using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;
using Action = TraceEntry::Action;

namespace {

// The bytes of free memory right before a hole, which a block that reaches into the hole can begin with.
size_t free_before(const Block& hole) {
  return hole.prev != nullptr && hole.prev->state == Block::State::free ? hole.prev->size : 0;
}

}  // namespace

void DeviceHeap::make_hole(Block* block) {
  block->state = Block::State::unmapped;
  if (Block* right = block->next; right != nullptr && right->state == Block::State::unmapped) absorb(block, right);
  if (Block* left = block->prev; left != nullptr && left->state == Block::State::unmapped) absorb(left, block);
}

Block* DeviceHeap::grow_expandable(Arena& arena, BlockPool& pool, size_t size, const Context& context, Lock& lock) {
  for (auto& [address, segment] : segments_) {
    if (segment.range == nullptr || segment.first->pool != &pool) continue;
    for (Block* block = segment.first; block != nullptr; block = block->next) {
      if (block->state == Block::State::unmapped && free_before(*block) + block->size >= size)
        return map_more(segment, block, size, context, lock);
    }
  }
  Segment* segment = reserve_segment(arena, pool, size, context, lock);
  if (segment == nullptr) return grow_by_segment(arena, pool, size, context, lock);
  return map_more(*segment, segment->first, size, context, lock);
}

DeviceHeap::Segment* DeviceHeap::reserve_segment(Arena& arena, BlockPool& pool, size_t size, const Context& context,
                                                 Lock& lock) {
  lock.unlock();
  const size_t page = pool.small() ? c10::CachingAllocator::kSmallBuffer : Config::large_segment_size();
  auto range = ExpandableRange::reserve(device_, page, size);
  if (range == nullptr) {
    TORCH_WARN_ONCE("The address space for expandable segments is used up; further memory comes in ordinary segments.");
  }
  lock.lock();
  if (range == nullptr) return nullptr;
  auto* hole = new Block(range->base(), range->size(), &pool);
  hole->state = Block::State::unmapped;
  ++arena.segments;
  return &(segments_[hole->ptr] = {hole, &arena, context, std::move(range)});
}

// Maps as many pages at the start of `hole` as a block of `size` needs that begins with the free memory before it.
Block* DeviceHeap::map_more(Segment& segment, Block* hole, size_t size, const Context& context, Lock& lock) {
  BlockPool& pool = *hole->pool;
  Block* before = free_before(*hole) > 0 ? hole->prev : nullptr;
  const size_t bytes = round_up(size - free_before(*hole), segment.range->page());
  if (bytes > hole->size || over_limit(bytes)) return nullptr;
  claimed_ += bytes;
  if (before != nullptr) pool.remove(before);
  if (hole->size > bytes) split_off(hole, bytes);
  hole->state = Block::State::moving;
  lock.unlock();
  bool mapped = false;
  std::exception_ptr error;
  try {
    mapped = segment.range->map(hole->ptr, bytes);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  if (!mapped) {
    claimed_ -= bytes;
    make_hole(hole);
    if (before != nullptr) pool.insert(before);
    if (error) std::rethrow_exception(error);
    return nullptr;
  }
  stats_.map(pool.small(), bytes, segment.arena->owner());
  note(Action::SEGMENT_MAP, hole->ptr, bytes, pool, context);
  if (before == nullptr) return pool.cut(hole, size);
  absorb(before, hole);
  return pool.cut(before, size);
}

void DeviceHeap::detach_pages(Segment& segment, Block* block, Victims& victims) {
  BlockPool& pool = *block->pool;
  const size_t page = segment.range->page();
  const size_t start = block->ptr - segment.range->base(), end = start + block->size;
  const size_t first = round_up(start, page), last = end / page * page;
  if (first >= last) return;
  pool.remove(block);
  if (end > last) pool.insert(split_off(block, last - start));
  if (first > start) {
    Block* pages = split_off(block, first - start);
    pool.insert(block);
    block = pages;
  }
  victims.push_back({block, segment.arena, segment.range.get()});
}

}  // namespace npu::caching_allocator
