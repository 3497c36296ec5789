// What the process has done so far, counted. Tests and the profiler read it; see also SOFTNPU_TRACE.
#pragma once

#include <atomic>
#include <cstdint>

#pragma GCC visibility push(default)
namespace softnpu {

struct Counters {
  std::atomic<uint64_t> h2d_copies{0}, d2h_copies{0}, d2d_copies{0};
  std::atomic<uint64_t> copy_helpers{0};      // threads started to share a large copy
  std::atomic<uint64_t> synchronizations{0};  // calls that wait: stream, event, device
  std::atomic<uint64_t> allocations{0}, frees{0};
};
extern Counters g_counters;

}  // namespace softnpu
#pragma GCC visibility pop

// The value of one counter: "tasks" (run on streams), "h2d_copies", "d2h_copies", "d2d_copies", "copy_helpers",
// "synchronizations", "allocations", "frees". UINT64_MAX for another name. Never reset: take differences.
extern "C" __attribute__((visibility("default"))) uint64_t softnpu_counter(const char* name);
