// The two kinds of steps: one call of a function of the headers, or both phases of an operator. Each tells the journal
// what it is about to do.
#pragma once

#include <string>
#include <vector>

#include "library.h"
#include "values.h"

namespace fuzz {

// What a thread is doing, in memory that the parent process shares: read after a crash.
struct Journal {
  std::atomic<uint64_t> calls;
  std::atomic<uint64_t> accepted;  // that returned success
  char text[1000];
};

struct Parameter {
  std::string type, name;  // "const int64_t*", "view_dims"
};

struct Target {
  std::string name, result;
  std::vector<Parameter> parameters;
  void* one = nullptr;  // the function, or an operator's phase one
  void* two = nullptr;
};

void call_function(const Target& target, Values& values, Journal& journal);
void call_operator(const Target& target, Values& values, Journal& journal);

// Writes the call into the journal, makes it, and counts it.
uint64_t make_call(const char* name, void* function, const Arguments& arguments, Journal& journal);

}  // namespace fuzz
