#include "memory/allocator_stats.h"

namespace npu::caching_allocator {
namespace {

using Stat = c10::CachingAllocator::Stat;
using StatArray = c10::CachingAllocator::StatArray;

constexpr size_t kind(bool small) { return small ? 1 : 2; }  // StatType::SMALL_POOL, LARGE_POOL

void increase(StatArray& stat, bool small, size_t amount) {
  stat[0].increase(amount);
  stat[kind(small)].increase(amount);
}

void decrease(StatArray& stat, bool small, size_t amount) {
  stat[0].decrease(amount);
  stat[kind(small)].decrease(amount);
}

bool is_private(c10::MempoolId_t owner) { return owner != c10::MempoolId_t{0, 0}; }

}  // namespace

void AllocatorStats::add_pending(bool small, size_t size) {
  ++pending_blocks_;
  pending_[small] += {1, static_cast<int64_t>(size), 0};
  raise_active_peaks();
}

void AllocatorStats::remove_pending(bool small, size_t size) {
  --pending_blocks_;
  pending_[small] -= {1, static_cast<int64_t>(size), 0};
}

void AllocatorStats::raise_active_peaks() {
  for (const bool small : {false, true}) active_peak_[small].raise_to(now_[small] + pending_[small]);
  active_peak_all_.raise_to(now_[0] + now_[1] + pending_[0] + pending_[1]);
}

void AllocatorStats::add_segment(bool small, size_t bytes, c10::MempoolId_t owner) {
  increase(stats_.segment, small, 1);
  map(small, bytes, owner);
}

void AllocatorStats::remove_segment(bool small, size_t bytes, c10::MempoolId_t owner) {
  decrease(stats_.segment, small, 1);
  unmap(small, bytes, owner);
}

void AllocatorStats::map(bool small, size_t bytes, c10::MempoolId_t owner) {
  increase(stats_.reserved_bytes, small, bytes);
  if (is_private(owner)) increase(stats_.reserved_bytes_by_private_pools[owner], small, bytes);
  ++stats_.num_device_alloc;
}

void AllocatorStats::unmap(bool small, size_t bytes, c10::MempoolId_t owner) {
  decrease(stats_.reserved_bytes, small, bytes);
  if (is_private(owner)) decrease(stats_.reserved_bytes_by_private_pools[owner], small, bytes);
  ++stats_.num_device_free;
}

void AllocatorStats::retire(c10::MempoolId_t owner) {
  past_pools_.push_back(owner);
  if (past_pools_.size() <= kPastPools) return;
  auto& pools = stats_.reserved_bytes_by_private_pools;
  const auto oldest = pools.find(past_pools_.front());
  if (oldest != pools.end() && oldest->second[0].current == 0) pools.erase(oldest);  // else its name came back
  past_pools_.pop_front();
}

void AllocatorStats::add_split(bool small, size_t size) {
  increase(stats_.inactive_split, small, 1);
  increase(stats_.inactive_split_bytes, small, size);
}

void AllocatorStats::remove_split(bool small, size_t size) {
  decrease(stats_.inactive_split, small, 1);
  decrease(stats_.inactive_split_bytes, small, size);
}

AllocatorStats::DeviceStats AllocatorStats::report() const {
  struct Series {
    Use current[2], peak[2], peak_all;
    const Use* freed_base;
  };
  Series allocated{{now_[0], now_[1]}, {peak_[0], peak_[1]}, peak_all_, freed_base_};
  Series active{{now_[0] + pending_[0], now_[1] + pending_[1]}, {peak_[0], peak_[1]}, peak_all_, deactivated_base_};
  for (const bool small : {false, true}) active.peak[small].raise_to(active_peak_[small]);
  active.peak_all.raise_to(active_peak_all_);

  const auto fill = [this](StatArray& array, const Series& series, int64_t Use::* field) {
    for (const bool small : {false, true}) {
      const int64_t current = series.current[small].*field, total = total_[small].*field;
      array[kind(small)] = {current, series.peak[small].*field, total - allocated_base_[small].*field,
                            total - current - series.freed_base[small].*field};
    }
    array[0] = {array[1].current + array[2].current, series.peak_all.*field, array[1].allocated + array[2].allocated,
                array[1].freed + array[2].freed};
  };
  DeviceStats report = stats_;
  fill(report.allocation, allocated, &Use::blocks);
  fill(report.allocated_bytes, allocated, &Use::bytes);
  fill(report.requested_bytes, allocated, &Use::requested);
  fill(report.active, active, &Use::blocks);
  fill(report.active_bytes, active, &Use::bytes);
  return report;
}

template <class Visit>
void AllocatorStats::for_each_rare_stat(Visit visit) {
  for (StatArray* array :
       {&stats_.segment, &stats_.reserved_bytes, &stats_.inactive_split, &stats_.inactive_split_bytes}) {
    for (Stat& stat : *array) visit(stat);
  }
  for (auto& [owner, array] : stats_.reserved_bytes_by_private_pools) {
    for (Stat& stat : array) visit(stat);
  }
  visit(stats_.oversize_allocations);
  visit(stats_.oversize_segments);
}

void AllocatorStats::reset_accumulated() {
  for (const bool small : {false, true}) {
    allocated_base_[small] = total_[small];
    freed_base_[small] = total_[small] - now_[small];
    deactivated_base_[small] = freed_base_[small] - pending_[small];
  }
  for_each_rare_stat([](Stat& stat) { stat.reset_accumulated(); });
  for (int64_t* count : {&stats_.num_alloc_retries, &stats_.num_ooms, &stats_.num_sync_all_streams,
                         &stats_.num_device_alloc, &stats_.num_device_free, &stats_.num_oom_rejections})
    *count = 0;
}

void AllocatorStats::reset_peak() {
  for (const bool small : {false, true}) {
    peak_[small] = now_[small];
    active_peak_[small] = now_[small] + pending_[small];
  }
  peak_all_ = now_[0] + now_[1];
  active_peak_all_ = peak_all_ + pending_[0] + pending_[1];
  for_each_rare_stat([](Stat& stat) { stat.reset_peak(); });
}

}  // namespace npu::caching_allocator
