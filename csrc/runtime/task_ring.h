// The ring behind task_queue.h: who pushes tasks, who runs them, who waits. See Note [Task queue] in task_ring.cpp.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/macros/Macros.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>

#include "runtime/task_queue.h"

namespace npu::task_queue {

extern thread_local constinit bool t_in_task;  // always true on the consumer

class StandIn;
struct Slot;

class TaskRing {
 public:
  TaskRing();
  Ticket push(Run run, const void* payload, size_t bytes);
  Ticket last() const noexcept { return pushed_.load(std::memory_order_acquire); }
  bool is_done(Ticket ticket) const noexcept { return done_.load(std::memory_order_acquire) >= ticket; }
  void wait_done(Ticket ticket);
  bool try_finish(Ticket ticket);
  void raise_error() {
    if (C10_UNLIKELY(failed_.load(std::memory_order_acquire))) rethrow();
  }
  void stop();
  Ticket backlog() const noexcept {
    const Ticket done = done_.load(std::memory_order_acquire);  // first, so that it is not the greater
    return pushed_.load() - done;
  }

 private:
  using Clock = std::chrono::steady_clock;
  enum class State : uint8_t { awake, dozing, asleep };  // of the consumer
  static constexpr Ticket kNobody = std::numeric_limits<Ticket>::max(), kEverything = kNobody;

  void start();
  void rethrow();

  // With the role of the runner, or to get it: Note [Who runs a queued task].
  bool try_take();
  void give_up();
  void run_until(Ticket ticket, StandIn* stand_in);  // or all there is
  void run(Slot& slot, StandIn* stand_in) noexcept;
  bool has_work() const noexcept { return pushed_.load() > done_.load(std::memory_order_relaxed); }

  // The consumer.
  void consume();
  void doze(std::chrono::microseconds nap);
  void sleep();
  void wake();

  // Who waits.
  bool run_as_stand_in(Ticket ticket);
  void finish(Ticket ticket);
  void notify_waiters();
  void want(Ticket ticket);  // with sleep_mutex_
  void sleep_until_done_or_free(Ticket ticket);
  bool sleep_until_done(Ticket ticket, Clock::time_point deadline);  // false when the deadline came first

  std::unique_ptr<Slot[]> slots_;
  std::thread consumer_;
  std::mutex producers_;
  std::atomic<Ticket> pushed_{0};
  std::atomic<uint64_t> waits_{
      0};  // how often a thread has had to wait: tells the consumer what kind of program this is

  alignas(64) std::atomic<Ticket> done_{0};
  std::atomic<bool> taken_{false};  // the role of the runner

  alignas(64) std::atomic<State> state_{State::awake};  // from here on read by everybody and seldom written
  std::atomic<bool> stopping_{false};                   // for good: from then on a push runs its task itself
  std::atomic<Ticket> wanted_{kNobody};                 // the nearest ticket somebody sleeps for
  std::mutex sleep_mutex_;
  std::condition_variable work_, progress_;

  std::atomic<bool> failed_{false};
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

}  // namespace npu::task_queue
