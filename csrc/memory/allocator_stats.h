// The counters of one card's allocator. Called by the device heap and its block pools, under the heap's lock.
//
// What moves with every tensor is kept small: per size class the bytes and blocks handed out now and in total.
// Upstream's DeviceStats, which has the same facts eighty times (all/small/large, current/peak/allocated/freed), is
// made when asked for: freed = total - current, active = allocated + pending. Everything rarer is kept in it directly.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <deque>

namespace npu::caching_allocator {

class AllocatorStats {
 public:
  using Stat = c10::CachingAllocator::Stat;
  using StatArray = c10::CachingAllocator::StatArray;
  using DeviceStats = c10::CachingDeviceAllocator::DeviceStats;

  // A block is handed out, or comes back from the user: the hot path of every tensor.
  void allocate(bool small, size_t size, size_t requested) {
    const Use one{1, static_cast<int64_t>(size), static_cast<int64_t>(requested)};
    now_[small] += one;
    total_[small] += one;
    peak_[small].raise_to(now_[small]);
    peak_all_.raise_to(now_[0] + now_[1]);
    if (C10_UNLIKELY(pending_blocks_ != 0)) raise_active_peaks();
  }
  void free(bool small, size_t size, size_t requested) {
    now_[small] -= {1, static_cast<int64_t>(size), static_cast<int64_t>(requested)};
  }
  // A freed block that other streams still work on stays active.
  void add_pending(bool small, size_t size);
  void remove_pending(bool small, size_t size);

  void add_segment(bool small, size_t bytes, c10::MempoolId_t owner);
  void remove_segment(bool small, size_t bytes, c10::MempoolId_t owner);
  // Memory of an expandable segment, which is not counted as a segment.
  void map(bool small, size_t bytes, c10::MempoolId_t owner);
  void unmap(bool small, size_t bytes, c10::MempoolId_t owner);
  // The arena of a private pool is gone. Upstream's contract keeps what was counted of it; every capture has a pool of
  // its own, so only that of the last kPastPools stays.
  void retire(c10::MempoolId_t owner);
  static constexpr size_t kPastPools = 256;
  void add_split(bool small, size_t size);
  void remove_split(bool small, size_t size);

  // The rare counters (retries, out of memory, oversize), to be changed in place.
  DeviceStats& rare() { return stats_; }
  size_t allocated_bytes() const { return static_cast<size_t>(now_[0].bytes + now_[1].bytes); }
  size_t reserved_bytes() const { return static_cast<size_t>(stats_.reserved_bytes[0].current); }
  size_t peak_allocated_bytes() const { return static_cast<size_t>(peak_all_.bytes); }
  size_t peak_reserved_bytes() const { return static_cast<size_t>(stats_.reserved_bytes[0].peak); }

  DeviceStats report() const;
  void reset_accumulated();
  void reset_peak();

 private:
  struct Use {
    int64_t blocks = 0, bytes = 0, requested = 0;
    Use& operator+=(const Use& o) { return *this = *this + o; }
    Use& operator-=(const Use& o) { return *this = *this - o; }
    Use operator+(const Use& o) const { return {blocks + o.blocks, bytes + o.bytes, requested + o.requested}; }
    Use operator-(const Use& o) const { return {blocks - o.blocks, bytes - o.bytes, requested - o.requested}; }
    void raise_to(const Use& o) {
      if (C10_UNLIKELY(o.blocks > blocks)) blocks = o.blocks;
      if (C10_UNLIKELY(o.bytes > bytes)) bytes = o.bytes;
      if (C10_UNLIKELY(o.requested > requested)) requested = o.requested;
    }
  };
  void raise_active_peaks();
  template <class Visit>
  void for_each_rare_stat(Visit visit);

  // Indexed by `small`.
  Use now_[2], total_[2], peak_[2];
  Use peak_all_;
  int64_t pending_blocks_ = 0;
  Use pending_[2];
  Use active_peak_[2], active_peak_all_;  // raised only while blocks are pending; else the peaks above hold
  Use allocated_base_[2], freed_base_[2], deactivated_base_[2];  // what reset_accumulated counts from
  DeviceStats stats_;
  std::deque<c10::MempoolId_t> past_pools_;  // in the order of their ends
};

}  // namespace npu::caching_allocator
