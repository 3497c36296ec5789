// Address space of a card into which memory is mapped page by page: the ground of an expandable segment. Neighbouring
// pages hold one tensor, so a segment can grow and shrink instead of being one of many that do not fit.
#pragma once

#include <memory>
#include <vector>

#include "acl.h"
#include "runtime/device.h"

namespace npu::caching_allocator {

class ExpandableRange {
 public:
  // Whether the runtime has the virtual-memory functions.
  static bool supported();
  // At least `least` bytes of addresses, up to the size of the card, in whole pages; nullptr when they are used up.
  static std::unique_ptr<ExpandableRange> reserve(c10::DeviceIndex device, size_t page, size_t least);
  ~ExpandableRange();  // nothing may be mapped any more
  ExpandableRange(const ExpandableRange&) = delete;
  ExpandableRange& operator=(const ExpandableRange&) = delete;

  // Gives memory to whole pages at `address`. False, and nothing is mapped, when the card is full. Threads may call
  // both for different pages.
  bool map(char* address, size_t bytes);
  void unmap(char* address, size_t bytes) noexcept;

  char* base() const { return base_; }
  size_t size() const { return pages_.size() * page_; }
  size_t page() const { return page_; }

 private:
  ExpandableRange(c10::DeviceIndex device, char* base, size_t size, size_t page)
      : device_(device), base_(base), page_(page), pages_(size / page) {}

  const c10::DeviceIndex device_;
  char* const base_;
  const size_t page_;
  std::vector<aclrtDrvMemHandle> pages_;  // null where nothing is mapped
};

}  // namespace npu::caching_allocator
