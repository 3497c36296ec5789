#include "physical.h"

#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>

#include "arena.h"
#include "config.h"
#include "context.h"
#include "error.h"
#include "fork.h"
#include "hostility.h"
#include "memory.h"
#include "share.h"
#include "stream.h"
#include "window.h"

namespace softnpu {

namespace {

// A piece of a card's file, ours or (foreign_fd >= 0) another process's.
struct Physical : Life {
  int card = -1;
  int foreign_fd = -1;
  size_t bytes = 0, offset = 0;
  int mappings = 0;
  bool unwritten = false;  // nobody can have written to it
};

constinit Arena<Physical> g_physical{"physical memory handles", 256 * 1024};

struct Mapping {
  Physical* memory;
  size_t bytes;
};
struct Reservation {
  size_t bytes;
  int card;
};

struct Tables {
  std::mutex mutex;
  std::map<uintptr_t, Mapping> mappings;
  std::map<uintptr_t, Reservation> reservations;
};

Tables& tables() {
  static Tables* const t = new Tables;
  return *t;
}

// Lock held.
Physical& checked(aclrtDrvMemHandle handle) {
  if (!handle) fail(ACL_ERROR_INVALID_PARAM, "handle is NULL");
  if (Physical* memory = g_physical.find(handle)) return *memory;
  fail(ACL_ERROR_RT_INVALID_HANDLE, "handle %p is no live physical memory", handle);
}

// The reservation that contains [address, address + bytes), or NULL. Lock held.
std::pair<const uintptr_t, Reservation>* reservation_of(uintptr_t address, size_t bytes) {
  auto it = tables().reservations.upper_bound(address);
  if (it == tables().reservations.begin()) return nullptr;
  --it;
  const uintptr_t inside = address - it->first;
  return inside <= it->second.bytes && bytes <= it->second.bytes - inside ? &*it : nullptr;
}

// The handle is gone and nothing maps it. Lock held.
void return_memory(Physical* memory) noexcept {
  if (memory->foreign_fd >= 0) {
    forget_in_child(memory->foreign_fd);
    close(memory->foreign_fd);
    memory->foreign_fd = -1;
  } else {
    free_pages(memory->card, memory->offset, memory->bytes);
  }
  g_physical.release(memory);
}

void end_mapping(std::map<uintptr_t, Mapping>::iterator it) noexcept {
  unmap_pages(it->first, it->second.bytes);
  Physical* memory = it->second.memory;
  tables().mappings.erase(it);
  if (--memory->mappings == 0 && !memory->alive()) return_memory(memory);
}

aclrtDrvMemHandle bring_to_life(int card, int foreign_fd, size_t bytes, size_t offset) {
  Physical* memory = g_physical.acquire();
  memory->card = card;
  memory->foreign_fd = foreign_fd;
  memory->bytes = bytes;
  memory->offset = offset;
  memory->mappings = 0;
  memory->unwritten = foreign_fd < 0;
  memory->begin();
  return memory;
}

// Ranges need no device: the official client reserves one before it has set any, to see whether its segments can
// expand.
int card_of_ranges() {
  if (t_thread.context) return current_context().card;
  const int card = card_of_device(0);
  open_card_memory(card);
  return card;
}

}  // namespace

void* reserve_address(size_t bytes, size_t alignment) {
  const int card = card_of_ranges();
  if (bytes == 0) fail(ACL_ERROR_RT_PARAM_INVALID, "size is 0");
  if (alignment & (alignment - 1)) fail(ACL_ERROR_RT_PARAM_INVALID, "alignment %zu is no power of two", alignment);
  constexpr size_t kUnit = size_t{2} << 20;
  std::lock_guard<std::mutex> lock(tables().mutex);
  const uintptr_t address = reserve_addresses(card, bytes, std::max(alignment, kUnit));
  tables().reservations[address] = {bytes, card};
  return reinterpret_cast<void*>(address);
}

void release_address(void* address) {
  std::lock_guard<std::mutex> lock(tables().mutex);
  auto it = tables().reservations.find(reinterpret_cast<uintptr_t>(address));
  if (it == tables().reservations.end()) fail(ACL_ERROR_RT_PARAM_INVALID, "virPtr %p is no reserved range", address);
  const auto mapping = tables().mappings.lower_bound(it->first);
  if (mapping != tables().mappings.end() && mapping->first < it->first + it->second.bytes)
    fail(ACL_ERROR_RT_PARAM_INVALID, "virPtr %p still has memory mapped at %p", address,
         reinterpret_cast<void*>(mapping->first));
  release_addresses(it->second.card, it->first, it->second.bytes);
  tables().reservations.erase(it);
}

aclrtDrvMemHandle allocate_physical(int card, size_t bytes) {
  if (bytes == 0) fail(ACL_ERROR_RT_PARAM_INVALID, "size is 0");
  return bring_to_life(card, -1, bytes, allocate_pages(card, bytes));
}

void free_physical(aclrtDrvMemHandle handle) {
  std::lock_guard<std::mutex> lock(tables().mutex);
  Physical& memory = checked(handle);
  memory.end();
  if (memory.mappings == 0) return_memory(&memory);
}

void map_physical(void* address, size_t bytes, size_t offset, aclrtDrvMemHandle handle) {
  std::lock_guard<std::mutex> lock(tables().mutex);
  Physical& memory = checked(handle);
  const uintptr_t begin = reinterpret_cast<uintptr_t>(address);
  if (begin % kPage != 0 || offset % kPage != 0)
    fail(ACL_ERROR_RT_ADDR_UNALIGNED, "virPtr %p or offset %zu is not a multiple of the page size", address, offset);
  if (bytes == 0 || offset > memory.bytes || bytes > memory.bytes - offset)
    fail(ACL_ERROR_RT_PARAM_INVALID, "size %zu at offset %zu is not inside the physical memory of %zu bytes", bytes,
         offset, memory.bytes);
  if (!reservation_of(begin, bytes))
    fail(ACL_ERROR_RT_PARAM_INVALID, "virPtr %p with size %zu is not inside a reserved range", address, bytes);
  const int fd = memory.foreign_fd >= 0 ? memory.foreign_fd : card_file(memory.card);
  map_pages(memory.card, begin, bytes, fd, memory.offset + offset);
  if (hostile() && memory.unwritten) memset(kernel_address(address), kUnwritten, bytes);
  memory.unwritten = false;
  tables().mappings[begin] = {&memory, bytes};
  ++memory.mappings;
}

void unmap_physical(void* address) {
  int card = -1;
  size_t bytes = 0;
  {
    std::lock_guard<std::mutex> lock(tables().mutex);
    const auto it = tables().mappings.find(reinterpret_cast<uintptr_t>(address));
    if (it == tables().mappings.end()) fail(ACL_ERROR_RT_PARAM_INVALID, "virPtr %p is no mapping", address);
    card = it->second.memory->card;
    bytes = it->second.bytes;
  }
  if (config().strict) check_unused(address, bytes, "virPtr");
  wait_for_card(card);
  std::lock_guard<std::mutex> lock(tables().mutex);
  const auto it = tables().mappings.find(reinterpret_cast<uintptr_t>(address));
  if (it != tables().mappings.end()) end_mapping(it);
}

uint64_t export_physical(aclrtDrvMemHandle handle, bool anyone) {
  std::lock_guard<std::mutex> lock(tables().mutex);
  Physical& memory = checked(handle);
  if (memory.foreign_fd >= 0)
    fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "memory imported from another process cannot be exported again");
  memory.unwritten = false;
  return publish({card_file(memory.card), memory.offset, memory.bytes}, anyone);
}

aclrtDrvMemHandle import_physical(uint64_t share, int card) {
  const SharedPages pages = open_share(share);
  close_in_child(pages.fd);
  return bring_to_life(card, pages.fd, pages.bytes, pages.offset);
}

void release_all_physical(int card) {
  std::lock_guard<std::mutex> lock(tables().mutex);
  for (auto it = tables().mappings.begin(); it != tables().mappings.end();) {
    const auto next = std::next(it);
    if (it->second.memory->card == card) end_mapping(it);
    it = next;
  }
  g_physical.for_each([&](Physical& memory) {
    if (!memory.alive() || memory.card != card) return;
    memory.end();
    return_memory(&memory);
  });
  std::erase_if(tables().reservations, [&](const auto& item) {
    if (item.second.card != card) return false;
    release_addresses(card, item.first, item.second.bytes);
    return true;
  });
}

}  // namespace softnpu
