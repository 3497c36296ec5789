#include "runtime/task_ring.h"

#include <c10/util/Exception.h>

#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "acl/check.h"
#include "runtime/device.h"
#include "runtime/gil.h"
#include "runtime/stream.h"

// Note [Task queue]
// ~~~~~~~~~~~~~~~~~
// A ring of fixed slots. Producers take a mutex, fill the next slot and publish it by advancing `pushed`; whoever has
// the role of the runner runs slots in order and advances `done`. A ticket is the value of `pushed` after the push, so
// "ticket t is done" is `done >= t`.
//   A slot holds a function and plain bytes: addresses and metadata, never a tensor. That is safe because memory is
// returned to the caching allocator for reuse on the same stream only, and the launch that reuses it is queued behind
// the launch that used it. Everything whose order matters to a stream goes through the queue: launches, copies, event
// records and waits. What looks at the device from outside (synchronise, query, free, capture) drains the queue first.
//   A task that throws does not stop the queue: the first error is kept, later tasks run, and the error is raised by
// the next push, drain or wait of any thread, once.
//   A forked child has no consumer. It must not use a card anyway, so push refuses there and nothing ever waits.
//
// Note [Who runs a queued task]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// The consumer is a thread that does nothing else. A thread that waits for a ticket does not sleep until the consumer
// has got there: it takes the role itself if that is free (`taken`, one exchange) and runs the tasks up to its ticket,
// with their card and stream current and its own back afterwards. A hand-over between threads costs several times a
// small launch, and much more where the consumer has no core. Taking the role acquires what the last runner released,
// so a task may touch what only tasks touch, whatever thread it is on. A task that waits or pushes is served at once:
// nobody runs a task inside a task.
//   When there is nothing to run, the consumer spins for a moment and then sleeps until the next push wakes it, which
// costs that push a system call. But it dozes if somebody has waited since it last looked: a program that waits after
// every few launches runs them itself, and a consumer that is awake would only take its core and its cache lines. It
// looks again when a nap is over (naps get longer while it finds nothing), or when kBacklog tasks have gathered and a
// push wakes it, so that a program that stops waiting has its work done soon. A producer that is far ahead while nobody
// has the role, because the consumer has not got a core, runs the tasks too.
//   Who is about to sleep announces it and looks again before he does; the other side publishes first and then looks
// for sleepers. Both use sequentially consistent operations, so one of them sees the other: push and a sleeping
// consumer (`pushed`, `state`), a finished task or a role given up and a sleeping waiter (`done`, `taken`, `wanted`). A
// doze needs none of that, because it ends.
namespace npu::task_queue {

thread_local constinit bool t_in_task = false;

constexpr size_t kInlineBytes = 480;  // a slot is 512 bytes

struct Slot {
  Run run;
  void* heap;  // a payload too big for the slot, else null
  c10::StreamId stream;
  c10::DeviceIndex device;
  alignas(16) std::byte bytes[kInlineBytes];
};
static_assert(sizeof(Slot) == 512);

namespace {

using Clock = std::chrono::steady_clock;
constexpr uint64_t kSlots = 1024;
constexpr auto kSpin = std::chrono::microseconds(20);
constexpr auto kFirstNap = std::chrono::microseconds(50), kLongestNap = std::chrono::microseconds(2000);
constexpr Ticket kBacklog = 8;    // so many tasks end a nap
constexpr Ticket kFarAhead = 16;  // so many that nobody runs are run by the producer
constexpr auto kStopTime = std::chrono::seconds(1);
constexpr uint64_t kRoom = kSlots / 4;  // so many slots must be free before a producer that met a full ring goes on

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

void fill(Slot& slot, Run run, const void* payload, size_t bytes) {
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

}  // namespace

// A waiting thread in the role of the consumer. Its own card and streams, which are copied only if a task needs others,
// are current again afterwards.
class StandIn {
 public:
  StandIn() { t_in_task = true; }
  ~StandIn() {
    t_in_task = false;
    if (!own_) return;
    std::copy(std::begin(own_->streams), std::end(own_->streams), t_current.streams);
    t_current.handle = nullptr;
    restore_device(own_->device);
  }
  void before_change() {
    if (!own_) own_ = t_current;
  }

 private:
  const acl::AsynchronousErrors asynchronous_;
  std::optional<Current> own_;
};

TaskRing::TaskRing() = default;

Ticket TaskRing::push(Run run, const void* payload, size_t bytes) {
  std::unique_lock lock(producers_);
  if (C10_UNLIKELY(!consumer_.joinable())) {
    if (stopping_.load()) return lock.unlock(), run(const_cast<void*>(payload)), 0;
    start();
  }
  Ticket before = pushed_.load(std::memory_order_relaxed);
  while (C10_UNLIKELY(before >= kSlots && !is_done(before + 1 - kSlots))) {
    lock.unlock();  // waiting may take the GIL back, and its owner may be waiting for this lock
    without_gil([&] { finish(before + kRoom - kSlots); });
    lock.lock();
    before = pushed_.load(std::memory_order_relaxed);
  }
  fill(slots_[before % kSlots], run, payload, bytes);
  pushed_.store(before + 1);
  const State state = state_.load();
  if (C10_UNLIKELY(state != State::awake) && (state == State::asleep || backlog() >= kBacklog)) wake();
  lock.unlock();
  // A consumer that got no core all the while is not waited for.
  if (C10_UNLIKELY(before % kFarAhead == 0 && backlog() > kFarAhead && !taken_.load(std::memory_order_relaxed)))
    without_gil([&] { run_as_stand_in(before + 1); });
  return before + 1;
}

void TaskRing::wait_done(Ticket ticket) {
  if (is_done(ticket)) return;
  waits_.fetch_add(1, std::memory_order_relaxed);
  without_gil([&] { finish(ticket); });
}

bool TaskRing::try_finish(Ticket ticket) {
  if (is_done(ticket)) return true;
  waits_.fetch_add(1, std::memory_order_relaxed);
  without_gil([&] { run_as_stand_in(ticket); });
  return is_done(ticket);
}

void TaskRing::rethrow() {
  std::exception_ptr error;
  {
    std::lock_guard lock(error_mutex_);
    error = std::exchange(error_, nullptr);
    failed_.store(false, std::memory_order_release);
  }
  if (error) std::rethrow_exception(error);
}

// Leaves the tasks to the consumer: one that never ends must not hold up the end of the process.
void TaskRing::stop() {
  std::lock_guard lock(producers_);
  if (!consumer_.joinable()) {
    stopping_.store(true);
    return;
  }
  wake();
  const bool idle = sleep_until_done(pushed_.load(), Clock::now() + kStopTime);
  {
    std::lock_guard sleep_lock(sleep_mutex_);
    stopping_.store(true);
  }
  work_.notify_one();
  idle ? consumer_.join() : consumer_.detach();
}

void TaskRing::start() {
  slots_ = std::make_unique<Slot[]>(kSlots);
  sigset_t all, before;  // signals are for the user's threads
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  consumer_ = std::thread([this] { consume(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(consumer_.native_handle(), "npu-task-queue");
}

// ---- running: see Note [Who runs a queued task] ----

bool TaskRing::try_take() {
  return !taken_.load(std::memory_order_relaxed) && !taken_.exchange(true, std::memory_order_acquire);
}

void TaskRing::give_up() {
  taken_.store(false);
  if (C10_UNLIKELY(wanted_.load() != kNobody)) notify_waiters();
}

void TaskRing::run_until(Ticket ticket, StandIn* stand_in) {
  for (Ticket next = done_.load(std::memory_order_relaxed); next < ticket && has_work(); next++) {
    run(slots_[next % kSlots], stand_in);
    done_.store(next + 1);
    if (C10_UNLIKELY(next + 1 >= wanted_.load())) notify_waiters();
  }
}

void TaskRing::run(Slot& slot, StandIn* stand_in) noexcept {
  auto& t = t_current;
  try {
    if (t.device != slot.device || t.streams[slot.device] != slot.stream) {
      if (stand_in) stand_in->before_change();
      t.streams[slot.device] = slot.stream;
      t.handle = nullptr;
    }
    set_device(slot.device);
    slot.run(slot.heap ? slot.heap : slot.bytes);
  } catch (...) {
    std::lock_guard lock(error_mutex_);
    if (!error_) error_ = std::current_exception();
    failed_.store(true, std::memory_order_release);
  }
  std::free(slot.heap);
}

// ---- the consumer ----

void TaskRing::consume() {
  t_in_task = true;
  const acl::AsynchronousErrors asynchronous;
  uint64_t waits = 0;
  auto nap = kFirstNap;
  while (true) {
    const uint64_t seen = std::exchange(waits, waits_.load(std::memory_order_relaxed));
    const bool others_run = waits != seen;
    if (has_work() && (!others_run || backlog() >= kBacklog) && try_take()) {
      run_until(kEverything, nullptr);
      give_up();
      nap = kFirstNap;
    }
    if (stopping_.load() && !has_work()) return;
    if (!others_run && !has_work()) {
      if (!spin_until([&] { return has_work() || stopping_.load(); })) sleep();
      continue;
    }
    doze(has_work() ? kFirstNap : nap);
    nap = std::min(2 * nap, kLongestNap);
  }
}

void TaskRing::doze(std::chrono::microseconds nap) {
  std::unique_lock lock(sleep_mutex_);
  state_.store(State::dozing);
  work_.wait_for(lock, nap, [&] { return state_.load() == State::awake || stopping_.load(); });
  state_.store(State::awake);
}

void TaskRing::sleep() {
  std::unique_lock lock(sleep_mutex_);
  state_.store(State::asleep);
  if (!has_work()) work_.wait(lock, [&] { return state_.load() == State::awake || stopping_.load(); });
  state_.store(State::awake);
}

C10_NOINLINE void TaskRing::wake() {
  {
    std::lock_guard lock(sleep_mutex_);
    state_.store(State::awake);
  }
  work_.notify_one();
}

// ---- who waits ----

bool TaskRing::run_as_stand_in(Ticket ticket) {
  if (!try_take()) return false;
  {
    StandIn stand_in;
    run_until(ticket, &stand_in);
  }
  give_up();
  return true;
}

void TaskRing::finish(Ticket ticket) {
  while (!is_done(ticket)) {
    if (run_as_stand_in(ticket)) continue;
    const auto ready = [&] { return is_done(ticket) || !taken_.load(); };
    if (!spin_until(ready)) sleep_until_done_or_free(ticket);
  }
}

void TaskRing::notify_waiters() {
  {
    std::lock_guard lock(sleep_mutex_);
    wanted_.store(kNobody);
  }
  progress_.notify_all();
}

void TaskRing::want(Ticket ticket) {
  if (wanted_.load() > ticket) wanted_.store(ticket);
}

void TaskRing::sleep_until_done_or_free(Ticket ticket) {
  std::unique_lock lock(sleep_mutex_);
  for (want(ticket); done_.load() < ticket && taken_.load(); want(ticket)) progress_.wait(lock);
}

bool TaskRing::sleep_until_done(Ticket ticket, Clock::time_point deadline) {
  std::unique_lock lock(sleep_mutex_);
  for (want(ticket); done_.load() < ticket; want(ticket))
    if (progress_.wait_until(lock, deadline) == std::cv_status::timeout) return done_.load() >= ticket;
  return true;
}

}  // namespace npu::task_queue
