// Memory of the cards: allocation, the map of live ranges, and the checks on addresses.
//
// Note [Separate memory]
// Device memory must not be readable by accident: on hardware a host dereference of a device pointer faults. So an
// address handed out lies in a reservation without access rights (the window), and the memory behind it, a memfd per
// card, is mapped a second time for kernels, at a constant distance (kernel_address() is one addition):
//
//     window       | card 0 | card 0 | card 1 |  free  | ...      PROT_NONE, what users see
//     kernel view  | file 0 | file 0 | file 1 |        | ...      window + distance, what kernels use
//
// The window is dealt out in granules to whichever card needs them, so one card can grow to the whole of it. A card's
// file is sparse: a plain allocation at window offset x has its pages at file offset x, so a granule is mapped once,
// when it is claimed, and allocations inside it are not mappings of their own. File offsets above the window's size
// hold memory of the virtual-memory interface (physical.h), which is mapped at an address of the user's choice. Pages
// are committed with fallocate and returned by punching a hole; the file also is what other processes get for IPC
// (share.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "acl_types.h"
#include "address.h"

namespace softnpu {

// Opens the card's memory file; called when the card is first used.
void open_card_memory(int card);

void* allocate(int card, size_t bytes);
// Waits for the card's pending work, which may still use the memory, then returns it. Throws Failure(107000) for an
// address that allocate() did not give.
void deallocate(void* address);
void deallocate_all(int card);  // when the card is reset

// SOFTNPU_STRICT, when the work of the card is done: throws Failure(107000) that names an allocation which something
// wrote behind.
void check_red_zones(int card);

size_t peak_use(int card);  // most bytes this process ever had of the card

// ---- For the virtual-memory interface and IPC ----

enum class RegionKind : uint8_t { plain, mapped };

struct Region {
  uintptr_t begin = 0;
  size_t bytes = 0;  // usable
  size_t span = 0;   // whole pages
  int card = -1;
  RegionKind kind = RegionKind::plain;
  int fd = -1;  // of a mapped region: the file and place of its first byte
  size_t offset = 0;
  size_t behind = 0;  // bytes of a red zone beyond the span, which count as nobody's
};

// The live range that contains `address`; false when there is none.
bool find_region(const void* address, Region* region);

// Addresses without memory, and memory without addresses (an offset in the card's file).
uintptr_t reserve_addresses(int card, size_t bytes, size_t alignment);
void release_addresses(int card, uintptr_t address, size_t bytes);
size_t allocate_pages(int card, size_t bytes);
void free_pages(int card, size_t offset, size_t bytes) noexcept;
int card_file(int card);
// The file offset of a plain region's first byte.
size_t file_offset(const Region& region);

// Bytes of a card's file.
struct Extent {
  uint64_t offset;
  uint64_t bytes;
};
// Where [p, p + bytes) lies in the file of `card`, neighbours merged. Throws Failure(107000) unless it is live memory
// of that card, Failure(207000) for memory that another process lent.
std::vector<Extent> extents_of(const void* p, size_t bytes, int card, const char* what);

// Maps pages of `fd` at a reserved device address and makes them a live range of `card`; and the reverse.
void map_pages(int card, uintptr_t address, size_t bytes, int fd, size_t offset);
void unmap_pages(uintptr_t address, size_t bytes);

}  // namespace softnpu
