// SOFTNPU_HOSTILE=seed: what a card leaves open comes out differently every time, so that a client that relies on its
// luck fails here. Note [Hostility]:
//  - memory that nobody has written to reads as NaN or -1 (memory.cpp, physical.cpp), and so does a workspace
//  (call.cpp);
//  - tasks start late, where streams have workers (SOFTNPU_ASYNC=1; scheduler.cpp);
//  - phase one asks for a workspace of another size, or for one at all (plan.cpp);
//  - CanUsePTACache says no for operators that change, and executors that were kept are forgotten (cache.cpp).
// None of it makes a correct client fail. Chance is a function of the seed and of how often it was asked on this
// thread, so a program of one thread fails again with the same seed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "config.h"

#pragma GCC visibility push(default)
namespace softnpu {

// Whoever is on the path of a launch asks this first.
inline bool hostile() noexcept {
  static const bool value = config().hostile != 0;
  return value;
}

// A number below `bound`, 0 when not hostile.
uint32_t by_chance(uint32_t bound) noexcept;

// When hostile, whether the answer for `name` is no for the time being: one name in four, for 64 questions of a thread.
bool out_of_favour(const char* name) noexcept;

// Now and then, some time: mostly tens of microseconds, seldom milliseconds.
void hesitate() noexcept;

constexpr int kUnwritten = 0xff;  // what every byte of memory without contents holds: NaN in every floating-point type

}  // namespace softnpu
#pragma GCC visibility pop
