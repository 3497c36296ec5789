#include "huge_pages.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace softnpu {

namespace {

constexpr size_t kFirst = 4096;              // committed for the collapse to begin with
constexpr size_t kStep = size_t{256} << 20;  // mapped at a time

// A view of its own: memory of the virtual-memory interface has no address yet.
bool collapse(int fd, size_t offset, size_t bytes) noexcept {
  const size_t room = bytes + kHugePage;
  void* reserved = mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return false;
  const uintptr_t aligned = (reinterpret_cast<uintptr_t>(reserved) + kHugePage - 1) / kHugePage * kHugePage;
  void* view = mmap(reinterpret_cast<void*>(aligned), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                    static_cast<off_t>(offset));
  const bool done =
      view != MAP_FAILED && madvise(view, bytes, MADV_DONTFORK) == 0 && madvise(view, bytes, MADV_COLLAPSE) == 0;
  munmap(reserved, room);
  return done;
}

}  // namespace

void commit_huge_pages(int fd, size_t offset, size_t bytes) noexcept {
  const size_t end = (offset + bytes) / kHugePage * kHugePage;
  for (size_t at = (offset + kHugePage - 1) / kHugePage * kHugePage; at < end; at += kStep) {
    const size_t step = std::min(kStep, end - at);
    for (size_t block = at; block < at + step; block += kHugePage)
      if (fallocate(fd, 0, static_cast<off_t>(block), kFirst) != 0) return;
    if (!collapse(fd, at, step)) return;
  }
}

}  // namespace softnpu
