#include "runtime/task_queue.h"

#include <c10/util/Exception.h>

#include <atomic>

#include "acl/config.h"
#include "acl/library.h"
#include "runtime/capture.h"
#include "runtime/device.h"
#include "runtime/task_ring.h"
#include "runtime/watchers.h"

namespace npu::task_queue {

namespace {

std::atomic<int> g_level{-1};  // -1: not asked yet

// Never destroyed: a detached consumer may outlive the statics.
TaskRing& queue() {
  static auto* queue = new TaskRing;
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
  if (level() > 0 && !t_in_task) queue().raise_error();
  return push_keeping_errors(run, payload, bytes);
}

Ticket push_keeping_errors(Run run, const void* payload, size_t bytes) {
  if (level() == 0 || t_in_task) {
    if (watchers::has(watchers::capture)) captures::note_task();
    run(const_cast<void*>(payload));
    return 0;
  }
  init();
  return queue().push(run, payload, bytes);
}

void drain() {
  if (t_in_task || is_in_bad_fork()) return;
  wait(queue().last());
}

void drain_keeping_errors() {
  if (!t_in_task && !is_in_bad_fork()) queue().wait_done(queue().last());
}

bool is_done(Ticket ticket) noexcept { return ticket == 0 || queue().is_done(ticket); }

bool try_finish(Ticket ticket) {
  return is_done(ticket) || (!t_in_task && !is_in_bad_fork() && queue().try_finish(ticket));
}

void wait(Ticket ticket) {
  if (t_in_task || is_in_bad_fork()) return;
  queue().wait_done(ticket);
  queue().raise_error();
}

Ticket backlog() noexcept { return level() == 0 ? 0 : queue().backlog(); }

bool in_task() noexcept { return t_in_task; }

void stop() noexcept {
  if (t_in_task || is_in_bad_fork()) return;
  try {
    queue().stop();
    g_level = 0;
  } catch (...) {  // the process ends anyway
  }
}

}  // namespace npu::task_queue
