// Who looks at launches: bits of one word, which a launch reads once. 0 in nearly every process.
#pragma once

#include <c10/macros/Macros.h>

#include <atomic>
#include <cstdint>

namespace npu::watchers {

// profiler/kernel_trace.h, dump/session.h, aclnn/origins.h, runtime/capture.h, profiler/launch_counts.h
enum Watcher : uint8_t { trace = 1, dump = 2, origin = 4, capture = 8, count = 16 };

inline constinit std::atomic<uint8_t> active{0};

inline bool any() noexcept { return C10_UNLIKELY(active.load(std::memory_order_relaxed) != 0); }
inline bool has(Watcher watcher) noexcept {
  return C10_UNLIKELY((active.load(std::memory_order_relaxed) & watcher) != 0);
}
inline void set(Watcher watcher, bool on) noexcept {
  on ? active.fetch_or(watcher) : active.fetch_and(static_cast<uint8_t>(~watcher));
}

}  // namespace npu::watchers
