// Free parts of a number line (addresses, file offsets): first fit, neighbours always merged. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <vector>

namespace softnpu {

class FreeRanges {
 public:
  struct Range {
    uintptr_t begin, end;
  };

  // First fit: low places stay full and high ones become free again.
  std::optional<uintptr_t> take(size_t bytes, size_t alignment) {
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      const auto [begin, end] = *it;
      const uintptr_t place = (begin + alignment - 1) / alignment * alignment;
      if (place >= end || end - place < bytes) continue;
      free_.erase(it);
      if (place > begin) free_[begin] = place;
      if (place + bytes < end) free_[place + bytes] = end;
      return place;
    }
    return std::nullopt;
  }

  // Returns the free range that now contains [begin, end).
  Range put(uintptr_t begin, uintptr_t end) {
    auto next = free_.lower_bound(begin);
    if (next != free_.end() && next->first == end) {
      end = next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin() && std::prev(next)->second == begin) {
      begin = std::prev(next)->first;
      free_.erase(begin);
    }
    free_[begin] = end;
    return {begin, end};
  }

  // Removes [begin, end), which lies inside one free range.
  void remove(uintptr_t begin, uintptr_t end) {
    auto it = std::prev(free_.upper_bound(begin));
    const auto [first, last] = *it;
    free_.erase(it);
    if (first < begin) free_[first] = begin;
    if (end < last) free_[end] = last;
  }

  std::vector<Range> all() const {
    std::vector<Range> ranges;
    for (const auto& [begin, end] : free_) ranges.push_back({begin, end});
    return ranges;
  }

 private:
  std::map<uintptr_t, uintptr_t> free_;
};

}  // namespace softnpu
