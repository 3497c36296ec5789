// The end of the process: worker threads must not run kernels while the libraries under them are torn down.
#pragma once

#include <atomic>

namespace softnpu {

extern std::atomic<bool> g_exiting;
// From the first exit handler on: nothing is run any more, what is submitted is dropped.
inline bool exiting() noexcept { return g_exiting.load(std::memory_order_relaxed); }

// Called when the first worker starts, which is after the libraries that give it work were loaded: handlers run in
// reverse order, so softnpu's comes before their destructors.
void watch_process_exit();

}  // namespace softnpu
