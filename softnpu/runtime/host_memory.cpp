#include "host_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "acl_types.h"
#include "address.h"
#include "error.h"
#include "huge_pages.h"
#include "mapped_host.h"

namespace softnpu {

namespace {

constexpr size_t kAlignment = 4096;

struct Range {
  size_t bytes;
  bool owned;
};

struct Pinned {
  std::shared_mutex mutex;
  std::map<uintptr_t, Range> ranges;
};

Pinned& pinned() {
  static Pinned* const p = new Pinned;
  return *p;
}

// Lock held. The range that contains `address`, or end().
std::map<uintptr_t, Range>::const_iterator range_at(uintptr_t address) {
  auto it = pinned().ranges.upper_bound(address);
  if (it == pinned().ranges.begin()) return pinned().ranges.end();
  --it;
  return address - it->first < it->second.bytes ? it : pinned().ranges.end();
}

}  // namespace

void* allocate_host(size_t bytes) {
  if (bytes == 0) fail(ACL_ERROR_RT_PARAM_INVALID, "size is 0");
  if (bytes > SIZE_MAX / 2) throw std::bad_alloc();
  const size_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, bytes) != 0)
    fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "the host has no %zu bytes for pinned memory", bytes);
  if (bytes >= kHugePage) madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  std::unique_lock lock(pinned().mutex);
  pinned().ranges[reinterpret_cast<uintptr_t>(memory)] = {bytes, true};
  return memory;
}

void free_host(void* address) {
  size_t bytes = 0;
  {
    std::unique_lock lock(pinned().mutex);
    const auto it = pinned().ranges.find(reinterpret_cast<uintptr_t>(address));
    if (it == pinned().ranges.end() || !it->second.owned)
      fail(ACL_ERROR_RT_PARAM_INVALID, "hostPtr %p is no live memory of aclrtMallocHost", address);
    bytes = it->second.bytes;
    pinned().ranges.erase(it);
  }
  unmap_host_within(address, bytes);
  free(address);
}

void register_host(void* address, size_t bytes) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(address);
  if (bytes == 0 || begin + bytes < begin) fail(ACL_ERROR_RT_PARAM_INVALID, "size %zu makes no range", bytes);
  if (is_device_address(address)) fail(ACL_ERROR_RT_PARAM_INVALID, "ptr %p is device memory", address);
  const uintptr_t page = begin / kAlignment * kAlignment;
  if (msync(reinterpret_cast<void*>(page), begin + bytes - page, MS_ASYNC) != 0)  // does nothing but look
    fail(ACL_ERROR_RT_PARAM_INVALID, "ptr %p: part of the range of %zu bytes is not mapped", address, bytes);
  std::unique_lock lock(pinned().mutex);
  const auto next = pinned().ranges.lower_bound(begin);
  if (range_at(begin) != pinned().ranges.end() || (next != pinned().ranges.end() && next->first < begin + bytes))
    fail(ACL_ERROR_RT_PARAM_INVALID, "ptr %p: part of the range is pinned already", address);
  pinned().ranges[begin] = {bytes, false};
}

void unregister_host(void* address) {
  std::unique_lock lock(pinned().mutex);
  const auto it = pinned().ranges.find(reinterpret_cast<uintptr_t>(address));
  if (it == pinned().ranges.end() || it->second.owned)
    fail(ACL_ERROR_RT_PARAM_INVALID, "ptr %p is no registered host memory", address);
  pinned().ranges.erase(it);
}

bool is_pinned(const void* address, size_t bytes) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(address);
  std::shared_lock lock(pinned().mutex);
  const auto it = range_at(begin);
  return it != pinned().ranges.end() && bytes <= it->second.bytes - (begin - it->first);
}

bool is_own(const void* address, size_t bytes) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(address);
  std::shared_lock lock(pinned().mutex);
  const auto it = range_at(begin);
  return it != pinned().ranges.end() && it->second.owned && bytes <= it->second.bytes - (begin - it->first);
}

}  // namespace softnpu
