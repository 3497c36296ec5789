// Faults of a card, made on demand: Note [Breakdowns]. softnpu has no hardware that fails, but programs that recover
// from failures are to be tried somewhere. softnpu_break_down() lets a card fail as one does: its streams drop their
// work, and the next synchronise returns the code. A fault of memory is known by its range until it is repaired; a card
// that is lost stays so. Called by tests through the C function, and when SOFTNPU_FAULT says so (planned_faults.h); the
// queries by entry/breakdown.cpp on any thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "acl_types.h"

namespace softnpu {

struct Breakdown {
  int code = 0;  // of the last fault that was not repaired, 0 when there is none
  std::vector<aclrtMemUceInfo> ranges;
};

// The card must be open. `memory` may be NULL; it is the place of a fault of memory, an address of the card.
// `why` is for the message.
void break_down(int card, int code, void* memory, size_t bytes, const std::string& why);
Breakdown breakdown_of(int card);
void repair(int card, const aclrtMemUceInfo* ranges, size_t count);  // throws Failure for a range that has no fault
void repair_all(int card);

}  // namespace softnpu

// 0, or the code of a call that was refused (no such card, a card that is not open).
extern "C" __attribute__((visibility("default"))) int softnpu_break_down(int device, int code, void* memory,
                                                                         size_t bytes);
