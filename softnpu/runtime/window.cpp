#include "window.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "acl_types.h"
#include "error.h"

namespace softnpu {

Window g_window;

namespace {

constexpr size_t kLargestWindow = size_t{256} << 30;
constexpr size_t kSmallestWindow = size_t{256} << 20;
constexpr int8_t kNobody = -1;
constexpr char kNoAddresses[] = "no address space is left for the cards' memory (see ulimit -v)";

// Owner of each granule. Read without a lock by card_of().
std::atomic<int8_t> g_owner[kLargestWindow / kGranule];

// Under an address-space limit (ulimit -v) softnpu takes at most half of what is left, for the window and its mirror; a
// file-size limit bounds the offsets in a card's file.
size_t largest_window(const char** because) {
  size_t window = kLargestWindow;
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur / 2 < window) {
    window = limit.rlim_cur / 2;
    *because = "the limit of a file's size leaves too little for the cards' memory (see ulimit -f)";
  }
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    unsigned long pages = 0;
    if (FILE* file = fopen("/proc/self/statm", "re")) {
      if (fscanf(file, "%lu", &pages) != 1) pages = 0;
      fclose(file);
    }
    const size_t used = pages * kPage;
    const size_t room = (limit.rlim_cur - std::min<size_t>(limit.rlim_cur, used)) / 4;
    if (room < window) *because = kNoAddresses;
    window = std::min(window, room);
  }
  return window / kGranule * kGranule;
}

}  // namespace

void open_window() {
  if (g_window.size != 0) return;
  const char* because = kNoAddresses;
  for (size_t size = largest_window(&because); size >= kSmallestWindow; size = size / 2 / kGranule * kGranule) {
    // One reservation for both views, so that their distance is simply the window's size.
    void* memory = mmap(nullptr, 2 * size + kGranule, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) continue;
    madvise(memory, 2 * size + kGranule, MADV_DONTFORK);
    for (auto& owner : g_owner) owner.store(kNobody, std::memory_order_relaxed);
    g_window.base = (reinterpret_cast<uintptr_t>(memory) + kGranule - 1) / kGranule * kGranule;
    g_window.distance = static_cast<intptr_t>(size);
    g_window.size = size;
    return;
  }
  fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s", because);
}

int card_of(const void* address) noexcept {
  if (!is_device_address(address)) return -1;
  return g_owner[(reinterpret_cast<uintptr_t>(address) - g_window.base) / kGranule].load(std::memory_order_relaxed);
}

uintptr_t claim_granules(size_t bytes, int card) {
  const size_t wanted = (bytes + kGranule - 1) / kGranule, count = g_window.size / kGranule;
  size_t run = 0;
  for (size_t i = 0; i < count; ++i) {
    run = g_owner[i].load(std::memory_order_relaxed) == kNobody ? run + 1 : 0;
    if (run != wanted) continue;
    const size_t first = i + 1 - wanted;
    for (size_t j = first; j <= i; ++j) g_owner[j].store(static_cast<int8_t>(card), std::memory_order_relaxed);
    return g_window.base + first * kGranule;
  }
  return 0;
}

void release_granules(uintptr_t address, size_t bytes) {
  const size_t first = (address - g_window.base) / kGranule;
  for (size_t i = 0; i < bytes / kGranule; ++i) g_owner[first + i].store(kNobody, std::memory_order_relaxed);
}

uintptr_t AddressPool::allocate(size_t bytes, size_t alignment) {
  if (const auto address = free_.take(bytes, alignment)) return *address;
  // Alignments above a granule need room to slide in.
  const size_t wanted = alignment > kGranule ? bytes + alignment : bytes;
  const size_t claimed = (wanted + kGranule - 1) / kGranule * kGranule;
  const uintptr_t granules = claim_granules(claimed, card_);
  if (granules == 0) return 0;
  on_change_(card_, granules, claimed, true);
  free_.put(granules, granules + claimed);
  return free_.take(bytes, alignment).value_or(0);
}

void AddressPool::free(uintptr_t address, size_t bytes) { free_.put(address, address + bytes); }

void AddressPool::trim() {
  for (const auto& range : free_.all()) {
    const uintptr_t first = (range.begin + kGranule - 1) / kGranule * kGranule;
    const uintptr_t last = range.end / kGranule * kGranule;
    if (first >= last) continue;
    free_.remove(first, last);
    on_change_(card_, first, last - first, false);
    release_granules(first, last - first);
  }
}

int memory_file(const char* name) {
  const int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd >= 0) return fd;
  if (errno == EMFILE || errno == ENFILE)
    fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "no file descriptor is left for memory (see ulimit -n)");
  fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "memfd_create: %s", strerror(errno));
}

}  // namespace softnpu
