#include "runtime/task_queue.h"

#include <c10/util/Exception.h>

#include <pthread.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "acl/check.h"
#include "acl/config.h"
#include "acl/library.h"
#include "runtime/device.h"
#include "runtime/gil.h"
#include "runtime/stream.h"

// Note [Task queue]
// ~~~~~~~~~~~~~~~~~
// A ring of fixed slots with one consumer thread. Producers take a mutex, fill the next slot and publish it by
// advancing `pushed`; the consumer runs slots in order and advances `done`. A ticket is the value of `pushed` after the
// push, so "ticket t is done" is `done >= t`.
//   A slot holds a function and plain bytes: addresses and metadata, never a tensor. That is safe because memory is
// returned to the caching allocator for reuse on the same stream only, and the launch that reuses it is queued behind
// the launch that used it. Everything whose order matters to a stream goes through the queue: launches, copies, event
// records and waits. What looks at the device from outside (synchronise, query, free, capture) drains the queue first.
//   Both sides spin for a moment and then sleep: a consumer that slept would cost the next push a system call. A
// sleeper announces itself and looks again before it sleeps; the other side publishes first and then looks for
// sleepers. Both use sequentially consistent operations, so one of them sees the other.
//   A task that throws does not stop the queue: the first error is kept, later tasks run, and the error is raised by
// the next push, drain or wait of any thread, once.
//   A forked child has no consumer. It must not use a card anyway, so push refuses there and nothing ever waits.
namespace npu::task_queue {

namespace {

using Clock = std::chrono::steady_clock;
constexpr uint64_t kSlots = 1024;
constexpr size_t kInlineBytes = 480;  // a slot is 512 bytes
constexpr auto kSpin = std::chrono::microseconds(20);
constexpr auto kStopTime = std::chrono::seconds(1);
constexpr Ticket kNobody = std::numeric_limits<Ticket>::max();

struct Slot {
  Run run;
  void* heap;  // a payload too big for the slot, else null
  c10::StreamId stream;
  c10::DeviceIndex device;
  alignas(16) std::byte bytes[kInlineBytes];
};
static_assert(sizeof(Slot) == 512);

std::atomic<int> g_level{-1};  // -1: not asked yet
thread_local constinit bool t_consumer = false;

void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// True as soon as `ready` is, false after a moment.
template <class Ready>
bool spin_until(const Ready& ready) {
  const auto end = Clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; i++) {
      if (ready()) return true;
      relax();
    }
  } while (Clock::now() < end);
  return ready();
}

class Queue {
 public:
  Ticket push(Run run, const void* payload, size_t bytes) {
    std::unique_lock lock(producers_);
    if (C10_UNLIKELY(!consumer_.joinable())) {
      if (stopping_.load()) return lock.unlock(), run(const_cast<void*>(payload)), 0;
      start();
    }
    Ticket before = pushed_.load(std::memory_order_relaxed);
    while (C10_UNLIKELY(before >= kSlots && !is_done(before + 1 - kSlots))) {
      lock.unlock();  // waiting may take the GIL back, and its owner may be waiting for this lock
      wait_done(before + 1 - kSlots);
      lock.lock();
      before = pushed_.load(std::memory_order_relaxed);
    }
    fill(slots_[before % kSlots], run, payload, bytes);
    pushed_.store(before + 1);
    if (sleeping_.load()) {
      std::lock_guard sleep_lock(sleep_mutex_);
      work_.notify_one();
    }
    return before + 1;
  }

  Ticket last() const { return pushed_.load(std::memory_order_acquire); }
  bool is_done(Ticket ticket) const noexcept { return done_.load(std::memory_order_acquire) >= ticket; }

  void wait_done(Ticket ticket) {
    if (is_done(ticket)) return;
    without_gil([&] {
      if (!spin_until([&] { return is_done(ticket); })) sleep_until_done(ticket, std::nullopt);
    });
  }

  void raise_error() {
    if (C10_LIKELY(!failed_.load(std::memory_order_acquire))) return;
    std::exception_ptr error;
    {
      std::lock_guard lock(error_mutex_);
      error = std::exchange(error_, nullptr);
      failed_.store(false, std::memory_order_release);
    }
    if (error) std::rethrow_exception(error);
  }

  void stop() {
    std::lock_guard lock(producers_);
    if (!consumer_.joinable()) {
      stopping_.store(true);
      return;
    }
    const bool idle = sleep_until_done(pushed_.load(), Clock::now() + kStopTime);
    {
      std::lock_guard sleep_lock(sleep_mutex_);
      stopping_.store(true);
      work_.notify_one();
    }
    idle ? consumer_.join() : consumer_.detach();
  }

 private:
  void start() {
    slots_ = std::make_unique<Slot[]>(kSlots);
    sigset_t all, before;  // signals are for the user's threads
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    consumer_ = std::thread([this] { consume(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_setname_np(consumer_.native_handle(), "npu-task-queue");
  }

  static void fill(Slot& slot, Run run, const void* payload, size_t bytes) {
    slot.run = run;
    slot.device = t_current.device;
    slot.stream = t_current.streams[slot.device];
    slot.heap = nullptr;
    void* to = slot.bytes;
    if (C10_UNLIKELY(bytes > kInlineBytes)) {
      to = slot.heap = std::malloc(bytes);
      if (!to) throw std::bad_alloc();
    }
    if (bytes) std::memcpy(to, payload, bytes);
  }

  void consume() {
    t_consumer = true;
    acl::mark_thread_asynchronous();
    for (Ticket next = 0;; next++) {
      const auto ready = [&] { return pushed_.load() > next || stopping_.load(); };
      if (!spin_until(ready)) {
        std::unique_lock lock(sleep_mutex_);
        sleeping_.store(true);
        work_.wait(lock, ready);
        sleeping_.store(false);
      }
      if (pushed_.load() <= next) return;  // stopping
      run(slots_[next % kSlots]);
      done_.store(next + 1);
      if (next + 1 >= wanted_.load()) {
        std::lock_guard lock(sleep_mutex_);
        wanted_.store(kNobody);
        progress_.notify_all();
      }
    }
  }

  void run(Slot& slot) noexcept {
    try {
      set_device(slot.device);
      if (t_current.streams[slot.device] != slot.stream) {
        t_current.streams[slot.device] = slot.stream;
        t_current.handle = nullptr;
      }
      slot.run(slot.heap ? slot.heap : slot.bytes);
    } catch (...) {
      std::lock_guard lock(error_mutex_);
      if (!error_) error_ = std::current_exception();
      failed_.store(true, std::memory_order_release);
    }
    std::free(slot.heap);
  }

  // False when the deadline came first.
  bool sleep_until_done(Ticket ticket, std::optional<Clock::time_point> deadline) {
    std::unique_lock lock(sleep_mutex_);
    while (true) {
      if (wanted_.load() > ticket) wanted_.store(ticket);
      if (done_.load() >= ticket) return true;
      if (!deadline)
        progress_.wait(lock);
      else if (progress_.wait_until(lock, *deadline) == std::cv_status::timeout)
        return done_.load() >= ticket;
    }
  }

  std::unique_ptr<Slot[]> slots_;
  std::thread consumer_;
  std::mutex producers_;
  std::atomic<Ticket> pushed_{0};

  alignas(64) std::atomic<Ticket> done_{0};
  std::atomic<bool> sleeping_{false};    // the consumer waits for work_
  std::atomic<bool> stopping_{false};    // for good: from then on a push runs its task itself
  std::atomic<Ticket> wanted_{kNobody};  // the nearest ticket somebody sleeps for
  std::mutex sleep_mutex_;
  std::condition_variable work_, progress_;

  std::atomic<bool> failed_{false};
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

// Never destroyed: a detached consumer may outlive the statics.
Queue& queue() {
  static auto* queue = new Queue;
  return *queue;
}

int initial_level() {
  if (launch_blocking()) return 0;
  if (const auto level = config::task_queue_level()) return *level;
  return acl::available() && acl::provider() == acl::Provider::cann ? 1 : 0;
}

}  // namespace

int level() noexcept {
  const int level = g_level.load(std::memory_order_relaxed);
  if (C10_LIKELY(level >= 0)) return level;
  int unset = -1;
  try {
    g_level.compare_exchange_strong(unset, initial_level());
  } catch (...) {  // a warning turned into an error
    g_level.compare_exchange_strong(unset, 0);
  }
  return g_level;
}

void set_level(int level) {
  TORCH_CHECK_VALUE(level >= 0 && level <= 2, "The task queue level must be 0, 1 or 2, but got ", level);
  drain();
  g_level = launch_blocking() ? 0 : level;
}

bool launch_blocking() noexcept {
  static const bool blocking = config::launch_blocking();
  return blocking;
}

Ticket push(Run run, const void* payload, size_t bytes) {
  if (level() > 0 && !t_consumer) queue().raise_error();
  return push_keeping_errors(run, payload, bytes);
}

Ticket push_keeping_errors(Run run, const void* payload, size_t bytes) {
  if (level() == 0 || t_consumer) {
    run(const_cast<void*>(payload));
    return 0;
  }
  init();
  return queue().push(run, payload, bytes);
}

void drain() {
  if (t_consumer || is_in_bad_fork()) return;
  wait(queue().last());
}

bool is_done(Ticket ticket) noexcept { return ticket == 0 || queue().is_done(ticket); }

void wait(Ticket ticket) {
  if (t_consumer || is_in_bad_fork()) return;
  queue().wait_done(ticket);
  queue().raise_error();
}

bool on_consumer_thread() noexcept { return t_consumer; }

void stop() noexcept {
  if (t_consumer || is_in_bad_fork()) return;
  try {
    queue().stop();
    g_level = 0;
  } catch (...) {  // the process ends anyway
  }
}

}  // namespace npu::task_queue
