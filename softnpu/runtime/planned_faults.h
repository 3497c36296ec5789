// SOFTNPU_FAULT: faults of cards at a place that is chosen beforehand, so that a program can be tried in which the card
// breaks at its hundredth launch. What happens then is that of breakdown.h; here is when. Note [Planned faults]:
//  - launches are what streams are given: operators, asynchronous copies, collectives, graphs (as one). Collectives,
//    sends and receives are counted by themselves as well, and so are allocations. Each card counts its own, from 1, in
//    each process;
//  - a fault at a launch comes when that work would run, which it then does not, so the order of the stream is kept;
//  - a slow link delays each collective from the one named on. A failed allocation is one that finds the card too full:
//    neither it nor a later one of its size or a larger one is served, while smaller ones are, so that the caching
//    allocator's second try does not hide it.
// Without the variable nothing of this is on the path of a launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace softnpu {

class Task;

struct PlannedFault {
  enum class Kind : uint8_t { ecc, timeout, lost, link, slow, oom };
  enum class Place : uint8_t { launch, collective, allocation };
  Kind kind;
  Place place;
  uint64_t number = 1;  // of that place's counter
  int card = -1;        // -1: every card
  int milliseconds = 100;
  std::string text;  // as the user wrote it
};

extern const char* const kFaultForms;  // what may be written, for messages
// Entries separated by commas; false when one makes no sense.
bool parse_faults(const std::string& text, std::vector<PlannedFault>* faults);

namespace planned {

// The task that is to be given to a stream of `card` instead of `task`, which is often the same. Takes ownership.
Task* submitted(int card, Task* task);
// Throws Failure(207001) when the allocation is to fail.
void allocates(int card, size_t bytes);

}  // namespace planned

}  // namespace softnpu
