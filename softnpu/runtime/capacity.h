// How many bytes the cards have and who uses them.
//
// Note [Capacity]
// A card has the memory of its chip (or SOFTNPU_MEMORY), but all cards of all processes live on one host. So:
//  - the pool is what the host or the container may have in total, less a reserve; no card is larger than the pool;
//  - an allocation is refused (207001) when its card is full, when the pool is full, or when the host has not that much
//    available at this moment: the kernel's out-of-memory killer must never be asked. What is told to be free does not
//    follow the host's memory, by which programs would plan that expect a card's;
//  - a card's use is the sum over the user's processes, each of which keeps a locked record (records.h). A process that
//    is killed loses its lock and its memory at the same instant, so its bytes come back without anybody's help;
//  - the check and the entry in the record are one step under the folder's lock. Pages are committed afterwards, and
//    until they show up in the host's figures the record says how many are on their way.
#pragma once

#include <cstddef>

namespace softnpu {

size_t card_total();  // bytes of one card, constant for the process

struct CardMemory {
  size_t total = 0;
  size_t free = 0;       // of the card and the pool
  size_t used = 0;       // by all processes
  size_t used_here = 0;  // by this process
};
CardMemory card_memory(int card);

// Enters `bytes` of `card` into this process's record, or throws Failure(207001) with the numbers. Call settle(bytes)
// when the pages have been committed or could not be had, and discharge(card, bytes) when they are gone.
void charge(int card, size_t bytes);
void settle(size_t bytes) noexcept;
void discharge(int card, size_t bytes) noexcept;

class Records;
Records& records();  // opened at first use

}  // namespace softnpu
