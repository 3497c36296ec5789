#include "mapped_host.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

#include "acl_types.h"
#include "error.h"
#include "host_memory.h"
#include "memory.h"
#include "stream.h"
#include "window.h"

namespace softnpu {

namespace {

struct Mapping {
  uintptr_t device;
  size_t bytes;
  int card, fd;
};

struct Mappings {
  std::mutex mutex;
  std::map<void*, Mapping> all;
};

Mappings& mappings() {
  static auto* const all = new Mappings;  // leaked: threads may outlive static destruction
  return *all;
}

// Puts pages with the bytes of [address, address + bytes) in their place: those of `fd`, or the process's own.
void replace_pages(void* address, size_t bytes, int fd) {
  const int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (pages == MAP_FAILED) fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "mmap of host memory: %s", strerror(errno));
  memcpy(pages, address, bytes);
  if (mremap(pages, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, address) == MAP_FAILED) {
    const int reason = errno;
    munmap(pages, bytes);
    fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "mremap of host memory: %s", strerror(reason));
  }
}

}  // namespace

bool is_mappable(const void* address, size_t bytes) {
  return bytes > 0 && bytes % kPage == 0 && reinterpret_cast<uintptr_t>(address) % kPage == 0 && is_own(address, bytes);
}

void* map_host(void* address, size_t bytes, int card) {
  std::lock_guard lock(mappings().mutex);
  const auto next = mappings().all.lower_bound(address);
  const auto overlaps = [&](const auto& other) {
    return static_cast<char*>(other.first) < static_cast<char*>(address) + bytes &&
           static_cast<char*>(address) < static_cast<char*>(other.first) + other.second.bytes;
  };
  if ((next != mappings().all.end() && overlaps(*next)) ||
      (next != mappings().all.begin() && overlaps(*std::prev(next))))
    fail(ACL_ERROR_RT_PARAM_INVALID, "ptr %p: part of the range is registered already", address);
  const int fd = memory_file("softnpu-host");
  uintptr_t device = 0;
  try {
    if (ftruncate(fd, static_cast<off_t>(bytes)) != 0)
      fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "ftruncate to %zu bytes: %s", bytes, strerror(errno));
    device = reserve_addresses(card, bytes, kPage);
    replace_pages(address, bytes, fd);
    map_pages(card, device, bytes, fd, 0);
  } catch (...) {
    if (device) release_addresses(card, device, bytes);
    close(fd);
    throw;
  }
  mappings().all[address] = {device, bytes, card, fd};
  return reinterpret_cast<void*>(device);
}

bool unmap_host(void* address) {
  Mapping mapping;
  {
    std::lock_guard lock(mappings().mutex);
    const auto found = mappings().all.find(address);
    if (found == mappings().all.end()) return false;
    mapping = found->second;
    mappings().all.erase(found);
  }
  wait_for_card(mapping.card);
  unmap_pages(mapping.device, mapping.bytes);
  release_addresses(mapping.card, mapping.device, mapping.bytes);
  replace_pages(address, mapping.bytes, -1);
  close(mapping.fd);
  return true;
}

void unmap_host_within(void* address, size_t bytes) {
  for (;;) {
    void* found = nullptr;
    {
      std::lock_guard lock(mappings().mutex);
      const auto next = mappings().all.lower_bound(address);
      if (next == mappings().all.end() || next->first >= static_cast<char*>(address) + bytes) return;
      found = next->first;
    }
    unmap_host(found);
  }
}

}  // namespace softnpu
