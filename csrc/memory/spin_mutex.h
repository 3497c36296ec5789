// A mutex for sections of nanoseconds that never block: half the price of std::mutex when nobody else wants it, because
// unlocking is a plain store. Whoever has to wait gives up its core between looks, so that a holder that was preempted
// gets to run.
#pragma once

#include <atomic>
#include <thread>

namespace npu {

class SpinMutex {
 public:
  void lock() noexcept {
    while (__builtin_expect(locked_.exchange(true, std::memory_order_acquire), false)) wait();
  }
  bool try_lock() noexcept { return !locked_.exchange(true, std::memory_order_acquire); }
  void unlock() noexcept { locked_.store(false, std::memory_order_release); }

 private:
  [[gnu::noinline]] void wait() const noexcept {
    for (int looks = 0; locked_.load(std::memory_order_relaxed); ++looks) {
      if (looks >= 64) std::this_thread::yield();
    }
  }
  std::atomic<bool> locked_{false};
};

}  // namespace npu
