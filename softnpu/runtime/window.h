// The reservation behind all device addresses, dealt out in granules. See Note [Separate memory] in memory.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "address.h"
#include "free_ranges.h"

namespace softnpu {

constexpr size_t kPage = 4096;
constexpr size_t kGranule = size_t{64} << 20;

// Makes the reservation (g_window) when the first card is opened. Throws Failure(207001) when no address space is left.
void open_window();

// The descriptor of a file without a name that holds memory. Throws Failure(207005) when no descriptor is left.
int memory_file(const char* name);

// Consecutive granules for one card, 0 when there are none left. Callers hold the memory lock.
uintptr_t claim_granules(size_t bytes, int card);
void release_granules(uintptr_t address, size_t bytes);

// Device addresses of one card, cut from granules of the window. Used twice for each card: for memory that lies at its
// own address in the card's file, and for addresses whose memory is mapped later. Callers hold the memory lock.
class AddressPool {
 public:
  // `on_change` is told about granules that come (true) or go (false).
  using OnChange = void (*)(int card, uintptr_t address, size_t bytes, bool claimed);
  AddressPool(int card, OnChange on_change) : card_(card), on_change_(on_change) {}

  uintptr_t allocate(size_t bytes, size_t alignment);  // whole pages; 0 when there is no room
  void free(uintptr_t address, size_t bytes);
  // Returns granules that are wholly free. Only when another pool is short of them: claiming and mapping costs time.
  void trim();

 private:
  int card_;
  OnChange on_change_;
  FreeRanges free_;
};

}  // namespace softnpu
