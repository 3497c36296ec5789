// Whether the object behind a handle lives, decided in one word. Of several threads that end it one succeeds; who reads
// it may hold it for a moment, so that it neither ends nor is used for something else meanwhile. Each life of a slot
// has its own number, which tells a handle's object from a later one at the same place.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "spin_lock.h"

namespace softnpu {

class Life {
 public:
  bool alive() const noexcept { return (word_.load(std::memory_order_acquire) & kState) != dead; }
  uint64_t number() const noexcept { return word_.load(std::memory_order_relaxed) >> kShift; }
  bool alive(uint64_t number) const noexcept {
    const uint64_t now = word_.load(std::memory_order_acquire);
    return (now & kState) != dead && now >> kShift == number;
  }

  // By whoever has the slot for itself, when everything is in place.
  void begin() noexcept { word_.store((number() + 1) << kShift | live, std::memory_order_release); }
  // False when another thread was faster, or the life with that number is over. Waits for holders.
  bool end() noexcept { return change(dead); }
  bool hold(uint64_t number = kAny) noexcept { return change(held, number); }
  void let_go() noexcept { word_.store(number() << kShift | live, std::memory_order_release); }
  void end_held() noexcept { word_.store(number() << kShift, std::memory_order_release); }

  static constexpr uint64_t kAny = ~uint64_t{0};

 private:
  enum State : uint64_t { dead, live, held };
  static constexpr int kShift = 2;
  static constexpr uint64_t kState = 3;

  bool change(State to, uint64_t wanted = kAny) noexcept {
    uint64_t now = word_.load(std::memory_order_acquire);
    for (int spins = 0;;) {
      const State state = static_cast<State>(now & kState);
      if (state == dead || (wanted != kAny && now >> kShift != wanted)) return false;
      if (state == live) {
        if (word_.compare_exchange_weak(now, (now & ~kState) | to, std::memory_order_acq_rel)) return true;
      } else {
        spins++ < 64 ? pause_cpu() : static_cast<void>(sched_yield());
        now = word_.load(std::memory_order_acquire);
      }
    }
  }

  std::atomic<uint64_t> word_{dead};
};

}  // namespace softnpu
