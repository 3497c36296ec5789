// Note [Who runs a task]
// Handing a task to another thread costs more than most tasks do, and on few cores a kernel with a team of threads
// stalls when a host thread runs beside it. So a task is run by the thread that submits it, provided that the stream is
// idle: no entry queued, nobody running (the token, one atomic exchange, is free), and the task is not one that
// waits. A launch then costs its own work and little else, and a synchronise finds nothing to wait for.
//
// Otherwise the task is queued. Queues are run by
//  - the stream's worker thread, started when something is first queued;
//  - threads that wait for the stream and would sleep otherwise: they help, taking the token between tasks. A helper
//    that finds the head waiting for another stream's event drains that stream first. Helpers leave tasks that wait for
//    user code to the worker, do not help under a deadline, and never help from inside a task or a callback. A task
//    that waits for peers (a collective) may be run by a helper: whoever helps waits for that very task anyway, and the
//    peers' tasks have workers of their own, so nobody depends on the helping thread. A worker lets helpers go first
//    there: a submitter that waits at once then needs no other thread to wake up. Nor does it wake the worker for each
//    collective of a series: a worker that has seen one dozes for a while, looking at the queue by the clock.
// SOFTNPU_ASYNC=1: no inline runs and no helpers, everything goes through the workers, as on a real device. A worker
// that runs dry spins for 20 us before it sleeps; nobody spins while a task runs.
//
// The order of a stream is kept because everyone runs entries only with the token, from the head of the queue, and
// inline only while the queue is empty. Nothing gets lost between "queue it" and "look whether there is work": both
// sides change their own variable first and read the other's afterwards (token_ and state_, sequentially consistent).
#include <pthread.h>
#include <signal.h>

#include <cstdio>
#include <thread>

#include "activity.h"
#include "config.h"
#include "error.h"
#include "hostility.h"
#include "order.h"
#include "planned_faults.h"
#include "process_exit.h"
#include "stream.h"

namespace softnpu {

namespace {

constexpr size_t kQueueDepth = 65536;  // then the submitter waits
constexpr int kHelpDepth = 16;         // a chain of streams that wait for each other is followed so far
constexpr auto kSpin = std::chrono::microseconds(20);
constexpr auto kDoze = std::chrono::microseconds(50);  // before a worker takes a collective, and between looks
constexpr int kDozes = 40;                             // after the last collective, before a worker sleeps

bool asynchronous() noexcept {
  static const bool value = config().async;
  return value;
}

bool strict() noexcept {
  static const bool value = config().strict;
  return value;
}

// Something is done around each task.
bool watched() noexcept {
  static const bool value = strict() || (hostile() && asynchronous());
  return value;
}

// Something is done before a task is taken.
bool screened() noexcept {
  static const bool value = strict() || !config().faults.empty();
  return value;
}

bool traced() noexcept {
  static const bool value = config().trace;
  return value;
}

}  // namespace

Deadline Deadline::after_milliseconds(int64_t milliseconds) {
  if (milliseconds < 0) return {};
  return {true, std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds)};
}

bool Stream::take_token(Token token) noexcept {
  uint8_t expected = free;
  return token_.load(std::memory_order_relaxed) == free &&
         token_.compare_exchange_strong(expected, token, std::memory_order_acquire, std::memory_order_relaxed);
}

void Stream::release_token() noexcept {
  token_.store(free, std::memory_order_seq_cst);
  if (state_.load(std::memory_order_seq_cst) != 0) kick();
}

// With the token nobody else can be running, so an empty queue means an idle stream.
bool Stream::take_token_if_idle(Token token) noexcept {
  if (queued() != 0 || !take_token(token)) return false;
  if (queued() == 0) return true;
  release_token();
  return false;
}

void Stream::submit(Task* task) {
  if (__builtin_expect(diversion() != Diversion::none, false)) return give_to_graph(task);
  if (screened()) task = screen(task);
  if (__builtin_expect(activity::wanted(), false)) return submit_recorded(task);
  give(task, 0);
}

void Stream::submit_recorded(Task* task) {
  const activity::Submission submission(task->name());
  give(task, submission.number());
}

void Stream::give(Task* task, uint64_t number) {
  const bool may_run_here = !asynchronous() && !t_thread.running && !exiting();
  bool done = false;
  if (may_run_here && take_token_if_idle(running)) {
    done = run(task, task->waits() == Task::Waits::never ? Part::whole : Part::beginning, number);
    release_token();
  }
  if (done) return;
  task->leave_thread();
  enqueue({task, nullptr, false, number});
}

Task* Stream::screen(Task* task) {
  try {
    if (strict()) order::submitted(*this, *task);
    return config().faults.empty() ? task : planned::submitted(context_->card, task);
  } catch (...) {
    task->release();
    throw;
  }
}

void Stream::record(CompletionPtr completion) {
  if (strict()) order::recorded(*this, *completion);
  if (take_token_if_idle(held)) {
    completion->complete(failed_.load(std::memory_order_relaxed));
    release_token();
  } else {
    enqueue({nullptr, std::move(completion), false});
  }
}

void Stream::wait_for(const CompletionPtr& completion) {
  if (!completion || completion->origin() == this) return;
  if (strict()) order::waits(*this, *completion);
  if (completion->done()) return adopt_failure(*completion);
  completion->waits.fetch_add(1, std::memory_order_relaxed);
  enqueue({nullptr, completion, true});
}

bool Stream::idle() const noexcept {
  // In this order: a running entry has left the queue while its thread already held the token.
  return queued() == 0 && token_.load(std::memory_order_acquire) != running;
}

void Stream::enqueue(Entry entry) {
  if (exiting()) {
    drop(entry);
    return;
  }
  bool full = false, gone = false;
  try {
    std::lock_guard<std::mutex> lock(mutex_);
    gone = retired_;
    if (!gone) {
      if (!worker_started_) start_worker();
      queue_.push_back(entry);
      state_.fetch_add(1, std::memory_order_seq_cst);
      full = entry.task && queue_.size() > kQueueDepth;  // drain() itself queues a record
      wake_worker();
    }
  } catch (...) {
    drop(entry);
    throw;
  }
  if (gone) drop(entry);
  if (full && !t_thread.running) drain({});
}

// Instead of running it. Records complete, because somebody may wait for them.
void Stream::drop(Entry& entry) noexcept {
  if (entry.task)
    entry.task->release();
  else
    execute(entry);
}

// Tasks after a failure are dropped if the stream is to stop on failure, until the failure has been collected.
bool Stream::run(Task* task, Part part, uint64_t number) noexcept {
  bool done = true;
  Stream* const outer = t_thread.running;
  t_thread.running = this;
  const bool drop = abandoned_.load(std::memory_order_relaxed) ||
                    (failed_.load(std::memory_order_relaxed) && stop_on_failure_.load(std::memory_order_relaxed));
  if (__builtin_expect(!drop, true)) {
    if (watched()) begin_watch(task);
    const uint64_t begin = number ? activity::now() : 0;
    try {
      if (part == Part::beginning) done = task->begin();
      if (traced() && done)
        fprintf(stderr, "softnpu: card %d stream %d: %s\n", context_->card, id(), task->describe().c_str());
      if (part == Part::whole) task->run();
    } catch (const Failure& f) {
      remember_failure(f.code, task, f.what());
    } catch (const std::exception& e) {
      remember_failure(ACL_ERROR_RT_INTERNAL_ERROR, task, e.what());
    } catch (...) {
      remember_failure(ACL_ERROR_RT_INTERNAL_ERROR, task, "unknown C++ exception");
    }
    if (number && done) activity::ran(number, *task, context_->card, id(), begin);
    if (watched()) end_watch();
    if (done) executed_.store(executed_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  if (done) task->release();
  t_thread.running = outer;
  return done;
}

void Stream::begin_watch(const Task* task) noexcept {
  if (asynchronous()) hesitate();
  std::lock_guard<std::mutex> lock(mutex_);
  running_task_ = task;
}

void Stream::end_watch() noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  running_task_ = nullptr;
}

const char* Stream::user_of(const char* begin, size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (running_task_ && t_thread.running != this && running_task_->uses(begin, bytes)) return running_task_->name();
  for (const Entry& entry : queue_)
    if (entry.task && entry.task->uses(begin, bytes)) return entry.task->name();
  return nullptr;
}

std::string Stream::describe() {
  const bool busy = token_.load(std::memory_order_acquire) == running;
  if (!open() || !alive() || (executed() == 0 && queued() == 0 && !busy)) return "";
  const char* const name = running_name_.load(std::memory_order_relaxed);
  const std::string what = name   ? "\"" + std::string(name) + "\""
                           : busy ? "\"a task, on the thread that launched it\""
                                  : "null";
  return "{\"device\": " + std::to_string(device_of_card(context_->card)) + ", \"stream\": " + std::to_string(id()) +
         ", \"queued\": " + std::to_string(queued()) + ", \"done\": " + std::to_string(executed()) +
         ", \"running\": " + what + "}";
}

void Stream::execute(Entry& entry) noexcept {
  if (entry.task) {
    running_name_.store(entry.task->name(), std::memory_order_relaxed);
    run(entry.task, Part::whole, entry.number);
    running_name_.store(nullptr, std::memory_order_relaxed);
  } else if (entry.wait) {
    entry.completion->waits.fetch_sub(1, std::memory_order_relaxed);
    adopt_failure(*entry.completion);
  } else {
    entry.completion->complete(failed_.load(std::memory_order_relaxed));
  }
  entry.completion.reset();
}

bool Stream::runnable(Role role) {
  if (queue_.empty()) return false;
  const Entry& head = queue_.front();
  if (head.wait) return !head.completion->call_back(this);
  return role == Role::worker || !head.task || head.task->waits() != Task::Waits::for_user;
}

// Runs entries until the queue is empty, its head is not for this role or has to wait, or `until` is there. Holds the
// token on entry, gives it up on return.
void Stream::run_queue(Role role, const Completion* until) {
  Context* const outer = t_thread.context;
  t_thread.context = context_;
  for (;;) {
    Entry entry;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!runnable(role) || (until && until->done())) {
        token_.store(free, std::memory_order_seq_cst);
        break;
      }
      if (queue_.front().task) token_.store(running, std::memory_order_relaxed);
      entry = std::move(queue_.front());
      queue_.pop_front();
      ++taken_;
      state_.fetch_sub(1, std::memory_order_seq_cst);
    }
    execute(entry);
    token_.store(held, std::memory_order_release);
    if (state_.load(std::memory_order_seq_cst) >= kWaiter) {
      std::lock_guard<std::mutex> lock(mutex_);
      progress_.notify_all();
    }
  }
  t_thread.context = outer;
  if (state_.load(std::memory_order_seq_cst) != 0) kick();
}

// Lock held. One that dozes finds a collective by itself.
void Stream::wake_worker() noexcept {
  if (!dozing_ || !head_waits_for_peers()) work_.notify_one();
}

bool Stream::head_waits_for_peers() const noexcept {
  return !queue_.empty() && queue_.front().task && queue_.front().task->waits() == Task::Waits::for_peers;
}

void Stream::kick() noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  wake_worker();
  progress_.notify_all();
}

CompletionPtr Stream::awaited_by_head() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (queue_.empty() || !queue_.front().wait || queue_.front().completion->done()) return nullptr;
  return queue_.front().completion;
}

bool Stream::await(const CompletionPtr& completion, const Deadline& deadline) {
  if (completion->done()) return true;
  if (t_thread.running == this)
    fail(ACL_ERROR_RT_STREAM_NOT_COMPLETE, "a task or callback of stream %d waits for its own stream", id());
  const bool helps = !deadline.finite && !t_thread.running && t_thread.helping < kHelpDepth && !asynchronous();
  for (;;) {
    if (helps && take_token(held)) run_queue(Role::helper, completion.get());
    if (completion->done()) return true;
    if (const CompletionPtr other = helps ? awaited_by_head() : nullptr) {
      ++t_thread.helping;
      other->origin()->await(other, deadline);
      --t_thread.helping;
      continue;
    }
    std::unique_lock<std::mutex> lock(mutex_);
    state_.fetch_add(kWaiter, std::memory_order_seq_cst);
    const auto ready = [&] { return completion->done() || (helps && token_free() && runnable(Role::helper)); };
    bool in_time = true;
    if (deadline.finite)
      in_time = progress_.wait_until(lock, deadline.at, ready);
    else
      progress_.wait(lock, ready);
    state_.fetch_sub(kWaiter, std::memory_order_seq_cst);
    if (!in_time) return completion->done();
  }
}

bool Stream::drain(const Deadline& deadline) {
  if (idle()) {
    if (strict()) order::host_waited(*this);
    return true;
  }
  auto marker = std::make_shared<Completion>(this, false);
  record(marker);
  const bool in_time = await(marker, deadline);
  if (strict() && in_time) order::host_waited(*marker);
  return in_time;
}

bool Stream::synchronize(const Deadline& deadline) {
  const bool in_time = drain(deadline);
  if (in_time && failed_.load(std::memory_order_acquire)) throw_failure();
  return in_time;
}

bool Stream::abandon(int code, const char* why, const Deadline& deadline) {
  abandoned_.store(true, std::memory_order_relaxed);
  std::deque<Entry> dropped;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    dropped.swap(queue_);
    state_.fetch_sub(dropped.size(), std::memory_order_seq_cst);
  }
  const bool busy = !dropped.empty() || token_.load(std::memory_order_acquire) == running;
  for (Entry& entry : dropped) drop(entry);
  if (busy && code != 0) remember_failure(code, nullptr, why);
  kick();
  while (!token_free()) {
    if (t_thread.running == this) break;  // called by a task or callback of this very stream
    if (deadline.finite && std::chrono::steady_clock::now() >= deadline.at) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  abandoned_.store(false, std::memory_order_relaxed);
  return true;
}

// Other threads may still know the stream, for instance those that wait for the whole card: what they queued meanwhile
// is dropped, and what they queue from now on (enqueue).
void Stream::retire() noexcept {
  std::deque<Entry> dropped;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    retired_ = true;
    dropped.swap(queue_);
    state_.fetch_sub(dropped.size(), std::memory_order_seq_cst);
    work_.notify_one();
  }
  for (Entry& entry : dropped) drop(entry);
  kick();
}

// Worker threads are daemons: they take no signals and nobody joins them; exit handlers make them stop
// (process_exit.h).
void Stream::start_worker() {
  sigset_t all, old;
  sigfillset(&all);
  for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&all, fault);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  try {
    std::thread([this] { work(); }).detach();
    worker_started_ = true;
  } catch (const std::system_error&) {
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  if (!worker_started_)
    fail(ACL_ERROR_RT_NO_STREAM_RESOURCE, "stream %d cannot have its worker thread: the limit of threads is reached",
         id());
  watch_process_exit();
}

void Stream::work() {
  char name[16];
  snprintf(name, sizeof name, "softnpu-%d", id());
  pthread_setname_np(pthread_self(), name);
  const auto ready = [&] { return retired_ || (token_free() && runnable(Role::worker)); };
  uint64_t left_to_helpers = 0;  // the entry, by how many went before it
  int dozes = 0;
  for (;;) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (dozes > 0) {
        --dozes;
        dozing_ = true;
        work_.wait_for(lock, kDoze, [&] { return retired_ || (!head_waits_for_peers() && ready()); });
        dozing_ = false;
        if (!ready()) continue;
      } else {
        work_.wait(lock, ready);
      }
      if (retired_) {
        worker_started_ = false;
        return;
      }
      if (!asynchronous() && head_waits_for_peers()) {
        dozes = kDozes;
        if (left_to_helpers != taken_ + 1) {
          left_to_helpers = taken_ + 1;
          continue;
        }
      }
    }
    if (take_token(held)) run_queue(Role::worker, nullptr);
    if (!asynchronous()) continue;
    const auto end = std::chrono::steady_clock::now() + kSpin;
    while (queued() == 0 && std::chrono::steady_clock::now() < end) pause_cpu();
  }
}

}  // namespace softnpu
