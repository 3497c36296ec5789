#include "memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "capacity.h"
#include "config.h"
#include "error.h"
#include "fault.h"
#include "fork.h"
#include "hostility.h"
#include "huge_pages.h"
#include "red_zone.h"
#include "share.h"
#include "stream.h"
#include "window.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace softnpu {

namespace {

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

struct CardFile {
  explicit CardFile(int card);
  int fd;
  AddressPool plain;
  AddressPool reserved;
  FreeRanges offsets;  // above the window's size
  size_t use = 0, peak = 0;
};

struct Memory {
  std::shared_mutex mutex;  // regions, pools and files; never held during a system call that commits pages
  std::map<uintptr_t, Region> regions;
  std::unique_ptr<CardFile> files[kMaxCards];
};

constinit std::atomic<uint64_t> g_generation{1};  // moves on whenever a region goes

Memory& memory() {
  static Memory* const m = new Memory;
  return *m;
}

// Granules of plain memory show the card's file; others show nothing until something is mapped.
void map_granules(int card, uintptr_t address, size_t bytes, bool claimed) {
  void* view = kernel_address(reinterpret_cast<void*>(address));
  void* got = claimed ? mmap(view, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory().files[card]->fd,
                             static_cast<off_t>(address - g_window.base))
                      : mmap(view, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (got == MAP_FAILED) fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "mmap of card memory: %s", strerror(errno));
  madvise(view, bytes, MADV_DONTFORK);
  if (claimed) madvise(view, bytes, MADV_HUGEPAGE);
}

void leave_granules(int, uintptr_t, size_t, bool) {}

CardFile::CardFile(int card)
    : fd(memory_file("softnpu-card")), plain(card, map_granules), reserved(card, leave_granules) {
  const size_t window = g_window.size;
  if (ftruncate(fd, static_cast<off_t>(2 * window)) != 0)
    fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "ftruncate of card memory: %s", strerror(errno));
  offsets.put(window, 2 * window);
  close_in_child(fd);
}

// Commits in steps, so that a signal does not throw away the work on gigabytes. Errno of the failure, else 0.
int commit(int fd, size_t offset, size_t bytes) {
  constexpr size_t kStep = size_t{64} << 20;
  for (size_t done = 0; done < bytes;) {
    const size_t step = std::min(kStep, bytes - done);
    if (fallocate(fd, 0, static_cast<off_t>(offset + done), static_cast<off_t>(step)) == 0)
      done += step;
    else if (errno != EINTR)
      return errno;
  }
  return 0;
}

void punch(int fd, size_t offset, size_t bytes) noexcept {
  while (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                   static_cast<off_t>(bytes)) != 0 &&
         errno == EINTR) {
  }
}

void charge_and_commit(int card, int fd, size_t offset, size_t bytes) {
  charge(card, bytes);
  commit_huge_pages(fd, offset, bytes);
  const int error = commit(fd, offset, bytes);
  settle(bytes);
  if (error == 0) return;
  punch(fd, offset, bytes);
  discharge(card, bytes);
  fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "card %d: the host refused %zu bytes: %s", card, bytes, strerror(error));
}

void count_use(CardFile& file, ptrdiff_t bytes) {
  file.use += bytes;
  file.peak = std::max(file.peak, file.use);
}

CardFile& file_of(int card) { return *memory().files[card]; }

// The lock is held.
uintptr_t take_addresses(AddressPool& pool, size_t bytes, size_t alignment, int card) {
  uintptr_t address = pool.allocate(bytes, alignment);
  if (address == 0) {
    for (auto& file : memory().files)
      if (file) file->plain.trim(), file->reserved.trim();
    address = pool.allocate(bytes, alignment);
  }
  if (address == 0)
    fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no address range of %zu bytes is left for card %d", bytes, card);
  return address;
}

// The lock is held. The region whose begin is the greatest not above `address`.
const Region* region_at(uintptr_t address) {
  auto it = memory().regions.upper_bound(address);
  if (it == memory().regions.begin()) return nullptr;
  const Region& region = std::prev(it)->second;
  return address - region.begin < region.bytes ? &region : nullptr;
}

// The bytes that are the allocation's own.
size_t usable(size_t bytes) { return round_up(bytes, 32); }

void check_red_zone(const Region& region) {
  char* const end = kernel_address(reinterpret_cast<void*>(region.begin)) + region.bytes;
  if (const size_t damage = red_zone_damage(end, region.span + region.behind - region.bytes))
    fail(ACL_ERROR_RT_PARAM_INVALID,
         "devPtr %p: a task wrote up to %zu bytes behind its allocation of %zu; give the task memory as large as its "
         "arguments say (SOFTNPU_STRICT)",
         reinterpret_cast<void*>(region.begin), damage, region.bytes);
}

void return_plain(const Region& region, bool keep_pages = false) {
  CardFile& file = file_of(region.card);
  if (!keep_pages) punch(file.fd, file_offset(region), region.span + region.behind);
  discharge(region.card, region.span);
  std::unique_lock lock(memory().mutex);
  count_use(file, -static_cast<ptrdiff_t>(region.span));
  file.plain.free(region.begin, region.span + region.behind);
}

}  // namespace

void open_card_memory(int card) {
  std::unique_lock lock(memory().mutex);
  if (memory().files[card]) return;
  cut_off_forked_children();
  open_window();
  install_fault_handler();
  memory().files[card] = std::make_unique<CardFile>(card);
}

void* allocate(int card, size_t bytes) {
  if (bytes > card_total()) charge(card, bytes);  // throws with the numbers
  const size_t span = round_up(bytes, kPage);
  const size_t behind = config().strict && span - usable(bytes) < kRedZone ? kPage : 0;
  CardFile& file = file_of(card);
  uintptr_t address = 0;
  {
    std::unique_lock lock(memory().mutex);
    address = take_addresses(file.plain, span + behind, span >= kHugePage ? kHugePage : kPage, card);
  }
  try {
    charge_and_commit(card, file.fd, address - g_window.base, span);
  } catch (...) {
    std::unique_lock lock(memory().mutex);
    file.plain.free(address, span + behind);
    throw;
  }
  char* view = kernel_address(reinterpret_cast<void*>(address));
  madvise(view, span, MADV_POPULATE_WRITE);  // a kernel too old for it faults the pages in one by one, no more
  if (hostile()) memset(view, kUnwritten, span);
  if (config().strict) paint_red_zone(view + usable(bytes), span + behind - usable(bytes));
  std::unique_lock lock(memory().mutex);
  count_use(file, static_cast<ptrdiff_t>(span));
  memory().regions[address] = {address, usable(bytes), span, card, RegionKind::plain, -1, 0, behind};
  return reinterpret_cast<void*>(address);
}

void deallocate(void* address) {
  Region region;
  if (!find_region(address, &region) || region.begin != reinterpret_cast<uintptr_t>(address) ||
      region.kind != RegionKind::plain)
    fail(ACL_ERROR_RT_PARAM_INVALID, "devPtr %p is no live allocation (freed before, or not made by aclrtMalloc)",
         address);
  if (config().strict) check_unused(address, region.bytes, "devPtr");
  wait_for_card(region.card);
  if (config().strict) check_red_zone(region);
  {
    std::unique_lock lock(memory().mutex);
    if (memory().regions.erase(region.begin) == 0)
      fail(ACL_ERROR_RT_PARAM_INVALID, "devPtr %p was freed by another thread", address);
    g_generation.fetch_add(1, std::memory_order_release);
  }
  return_plain(region);
}

void deallocate_all(int card) {
  for (;;) {
    Region region;
    {
      std::unique_lock lock(memory().mutex);
      auto it = std::find_if(memory().regions.begin(), memory().regions.end(), [&](const auto& item) {
        return item.second.card == card && item.second.kind == RegionKind::plain;
      });
      if (it == memory().regions.end()) return;
      region = it->second;
      memory().regions.erase(it);
      g_generation.fetch_add(1, std::memory_order_release);
    }
    // A process that ends leaves the pages that others map to them: the kernel frees them with the last mapping.
    return_plain(region, is_published(file_of(card).fd, file_offset(region), region.span));
  }
}

void check_red_zones(int card) {
  std::shared_lock lock(memory().mutex);
  for (const auto& [begin, region] : memory().regions)
    if (region.card == card && region.kind == RegionKind::plain) check_red_zone(region);
}

size_t peak_use(int card) {
  std::shared_lock lock(memory().mutex);
  return memory().files[card] ? memory().files[card]->peak : 0;
}

bool find_region(const void* address, Region* region) {
  if (!is_device_address(address)) return false;
  std::shared_lock lock(memory().mutex);
  const Region* found = region_at(reinterpret_cast<uintptr_t>(address));
  if (found) *region = *found;
  return found != nullptr;
}

namespace {

// Launches use the same few allocations again and again: each thread remembers those that it has seen.
struct Seen {
  uint64_t generation = 0;
  uintptr_t begin = 0;
  size_t bytes = 0;
  int card = -1;
};
thread_local constinit Seen t_seen[8] __attribute__((tls_model("initial-exec")));

__attribute__((noinline)) Seen look(const void* p, size_t bytes, int card, const char* what, uint64_t generation) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(p);
  std::shared_lock lock(memory().mutex);
  const Region* region = is_device_address(p) ? region_at(address) : nullptr;
  if (!region) fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %p is not an address in live device memory", what, p);
  if (card >= 0 && region->card != card)
    fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %p is memory of card %d, not of card %d", what, p, region->card, card);
  // Memory mapped piece by piece at neighbouring addresses is one range to its users.
  uintptr_t begin = region->begin, end = region->begin + region->bytes;
  if (region->kind == RegionKind::mapped) {
    auto next = memory().regions.find(begin);
    while (++next != memory().regions.end() && next->first == end && next->second.kind == RegionKind::mapped)
      end += next->second.bytes;
  }
  if (bytes > end - address)
    fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %zu bytes at %p reach beyond the allocation, which ends after %zu", what,
         bytes, p, end - address);
  return {generation, begin, end - begin, region->card};
}

}  // namespace

void check_allocated(const void* p, size_t bytes, int card, const char* what) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(p);
  Seen& seen = t_seen[(address >> 21) % 8];
  const uint64_t generation = g_generation.load(std::memory_order_acquire);
  if (seen.generation == generation && address - seen.begin < seen.bytes &&
      bytes <= seen.bytes - (address - seen.begin) && (card < 0 || card == seen.card))
    return;
  seen = look(p, bytes, card, what, generation);
}

uintptr_t reserve_addresses(int card, size_t bytes, size_t alignment) {
  if (bytes > g_window.size || alignment > g_window.size)
    fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "%zu bytes, aligned to %zu, are more than the address space of all cards",
         bytes, alignment);
  std::unique_lock lock(memory().mutex);
  return take_addresses(file_of(card).reserved, round_up(bytes, kPage), std::max(alignment, kPage), card);
}

void release_addresses(int card, uintptr_t address, size_t bytes) {
  std::unique_lock lock(memory().mutex);
  file_of(card).reserved.free(address, round_up(bytes, kPage));
}

size_t allocate_pages(int card, size_t bytes) {
  if (bytes > card_total()) charge(card, bytes);  // throws with the numbers
  const size_t span = round_up(bytes, kPage);
  CardFile& file = file_of(card);
  size_t offset = 0;
  {
    std::unique_lock lock(memory().mutex);
    const auto place = file.offsets.take(span, span >= kHugePage ? kHugePage : kPage);
    if (!place) fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "card %d has no room for %zu bytes", card, span);
    offset = *place;
  }
  try {
    charge_and_commit(card, file.fd, offset, span);
  } catch (...) {
    std::unique_lock lock(memory().mutex);
    file.offsets.put(offset, offset + span);
    throw;
  }
  std::unique_lock lock(memory().mutex);
  count_use(file, static_cast<ptrdiff_t>(span));
  return offset;
}

void free_pages(int card, size_t offset, size_t bytes) noexcept {
  const size_t span = round_up(bytes, kPage);
  CardFile& file = file_of(card);
  punch(file.fd, offset, span);
  discharge(card, span);
  std::unique_lock lock(memory().mutex);
  count_use(file, -static_cast<ptrdiff_t>(span));
  file.offsets.put(offset, offset + span);
}

int card_file(int card) { return file_of(card).fd; }

size_t file_offset(const Region& region) { return region.begin - g_window.base; }

std::vector<Extent> extents_of(const void* p, size_t bytes, int card, const char* what) {
  std::vector<Extent> extents;
  if (bytes == 0) return extents;
  check_allocated(p, bytes, card, what);
  std::shared_lock lock(memory().mutex);
  for (uintptr_t address = reinterpret_cast<uintptr_t>(p); bytes != 0;) {
    const Region* region = region_at(address);
    if (!region) fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %p was freed by another thread", what, p);
    const bool plain = region->kind == RegionKind::plain;
    if (!plain && region->fd != memory().files[card]->fd)
      fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: %p is memory that another process lent; copy it first", what, p);
    const uint64_t inside = address - region->begin;
    const uint64_t offset = (plain ? file_offset(*region) : region->offset) + inside;
    const uint64_t length = std::min<uint64_t>(bytes, region->bytes - inside);
    if (!extents.empty() && extents.back().offset + extents.back().bytes == offset)
      extents.back().bytes += length;
    else
      extents.push_back({offset, length});
    address += length;
    bytes -= length;
  }
  return extents;
}

void map_pages(int card, uintptr_t address, size_t bytes, int fd, size_t offset) {
  const size_t span = round_up(bytes, kPage);
  void* view = kernel_address(reinterpret_cast<void*>(address));
  std::unique_lock lock(memory().mutex);
  const auto next = memory().regions.lower_bound(address);
  if (region_at(address) || (next != memory().regions.end() && next->first < address + span))
    fail(ACL_ERROR_RT_PARAM_INVALID, "virPtr %p already has memory", reinterpret_cast<void*>(address));
  if (mmap(view, span, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, static_cast<off_t>(offset)) == MAP_FAILED)
    fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "mmap of card memory: %s", strerror(errno));
  madvise(view, span, MADV_DONTFORK);
  madvise(view, span, MADV_HUGEPAGE);
  madvise(view, span, MADV_POPULATE_WRITE);
  memory().regions[address] = {address, span, span, card, RegionKind::mapped, fd, offset};
}

void unmap_pages(uintptr_t address, size_t bytes) {
  const size_t span = round_up(bytes, kPage);
  std::unique_lock lock(memory().mutex);
  memory().regions.erase(address);
  g_generation.fetch_add(1, std::memory_order_release);
  void* view = kernel_address(reinterpret_cast<void*>(address));
  mmap(view, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  madvise(view, span, MADV_DONTFORK);
}

}  // namespace softnpu
