// A lock for a handful of instructions: no system call, no allocation, 1 byte. Yields when the holder was descheduled.
#pragma once

#include <sched.h>

#include <atomic>
#include <mutex>

namespace softnpu {

inline void pause_cpu() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class SpinLock {
 public:
  void lock() noexcept {
    for (int spins = 0; taken_.exchange(true, std::memory_order_acquire); ++spins) {
      if (spins < 64)
        pause_cpu();
      else
        sched_yield();
    }
  }
  void unlock() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> taken_{false};
};

}  // namespace softnpu
