// The kinds of steps: one call of a function of the headers, both phases of an operator, or one call of an operator of
// the interface before aclnn. Each tells the journal what it is about to do.
#pragma once

#include "library.h"
#include "targets.h"
#include "values.h"

namespace fuzz {

// What a thread is doing, in memory that the parent process shares: read after a crash.
struct Journal {
  std::atomic<uint64_t> calls;
  std::atomic<uint64_t> accepted;  // that returned success
  char text[2000];
};

void call_function(const Target& target, Values& values, Journal& journal);
void call_operator(const Target& target, Values& values, Journal& journal);
void call_legacy(const Target& target, Values& values, Journal& journal);

// Writes the call, and what else there is to know of it, into the journal, makes it, and counts it.
uint64_t make_call(const char* name, void* function, const Arguments& arguments, Journal& journal,
                   const std::string& note = "");

}  // namespace fuzz
