// Statistics, snapshot and history of a heap. What is reported has no deferred merges: see Note [Block pools].
#include "memory/device_heap.h"

#include <utility>

namespace npu::caching_allocator {
namespace {

void add_block(SegmentInfo& info, const Block& block) {
  const bool allocated = block.is_used(), active = block.is_active();
  info.total_size += block.size;
  info.requested_size += allocated ? block.requested : 0;
  info.allocated_size += allocated ? block.size : 0;
  info.active_size += active ? block.size : 0;
  info.blocks.push_back({block.size, active ? block.requested : 0, static_cast<int32_t>(block.pool->age(block)),
                         allocated, active, block.context});
}

}  // namespace

DeviceStats DeviceHeap::stats() {
  Lock lock(mutex_);
  for_each_pool([](BlockPool& pool) { pool.consolidate(); });
  DeviceStats stats = stats_.report();
  stats.max_split_size = static_cast<int64_t>(c10::CachingAllocator::AcceleratorAllocatorConfig::max_split_size());
  return stats;
}

Usage DeviceHeap::usage() {
  Lock lock(mutex_);
  return {stats_.allocated_bytes(), stats_.reserved_bytes(), stats_.peak_allocated_bytes(),
          stats_.peak_reserved_bytes()};
}

void DeviceHeap::reset_accumulated_stats() {
  Lock lock(mutex_);
  stats_.reset_accumulated();
}

void DeviceHeap::reset_peak_stats() {
  Lock lock(mutex_);
  for_each_pool([](BlockPool& pool) { pool.consolidate(); });
  stats_.reset_peak();
}

std::vector<SegmentInfo> DeviceHeap::segments(c10::MempoolId_t owner) {
  Lock lock(mutex_);
  for_each_pool([](BlockPool& pool) { pool.consolidate(); });
  std::vector<SegmentInfo> infos;
  for (const auto& [address, segment] : segments_) {
    const BlockPool& pool = *segment.first->pool;
    if (owner != c10::MempoolId_t{0, 0} && pool.key().owner != owner) continue;
    bool mapped = false;  // an expandable segment is reported in the pieces that have memory
    for (const Block* block = segment.first; block != nullptr; block = block->next) {
      const bool was_mapped = std::exchange(mapped, block->state != Block::State::unmapped);
      if (!mapped) continue;
      if (!was_mapped) {
        SegmentInfo& info = infos.emplace_back();
        info.device = device_;
        info.address = reinterpret_cast<size_t>(block->ptr);
        info.stream = reinterpret_cast<void*>(pool.key().stream);
        info.is_large = !pool.small();
        info.is_expandable = segment.range != nullptr;
        info.owner_private_pool_id = pool.key().owner;
        info.context_when_allocated = segment.context;
      }
      add_block(infos.back(), *block);
    }
  }
  return infos;
}

std::vector<TraceEntry> DeviceHeap::history() {
  Lock lock(mutex_);
  history_.add(TraceEntry::Action::SNAPSHOT, nullptr, 0, 0, {0, 0}, nullptr);
  return history_.entries();
}

void DeviceHeap::record_history(const HistorySettings& settings, bool clear) {
  Lock lock(mutex_);
  history_.configure(settings, clear);
  if (settings.when != RecordContext::NEVER) return;
  for (auto& [address, segment] : segments_) {
    for (Block* block = segment.first; block != nullptr; block = block->next) block->context = nullptr;
  }
}

}  // namespace npu::caching_allocator
