// The child process that makes the calls, and what it shares with the parent.
#pragma once

#include "steps.h"

namespace fuzz {

constexpr int kMostThreads = 16;

struct Options {
  uint64_t seed = 1, calls = 0, per_seed = 20000;
  uint64_t each = 0;  // calls of every target by itself
  int threads = 1;
  Selection selection;
};

struct Shared {
  Journal journals[kMostThreads];
};

// Makes options.calls calls, from all threads together, and ends the process.
[[noreturn]] void child(const Options& options, Shared& shared);

}  // namespace fuzz
