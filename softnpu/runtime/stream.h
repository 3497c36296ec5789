// Streams: FIFO queues of tasks, event records and event waits of one card. See Note [Who runs a task] in
// scheduler.cpp.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>

#include "acl_types.h"
#include "context.h"
#include "event.h"
#include "life.h"
#include "task.h"

namespace softnpu {

constexpr int64_t kPatience = 3000;  // milliseconds for a running task when its stream, card or process comes to an end

// A point in time to give up at, or never.
struct Deadline {
  bool finite = false;
  std::chrono::steady_clock::time_point at{};
  static Deadline after_milliseconds(int64_t milliseconds);  // negative: never
};

class alignas(64) Stream : public Life {
 public:
  // ---- Life (stream.cpp) ----
  static Stream* create(Context& context, uint32_t priority, uint32_t flags);
  static Stream& checked(aclrtStream handle);     // any live stream; NULL = default stream of the current context
  static Stream& launchable(aclrtStream handle);  // as checked(), and of the current context

  // Lets the work finish (drained) or drops what has not begun (forced), then ends the stream. A task that still runs
  // at the deadline is left behind.
  enum class Ending { drained, forced };
  void destroy(Ending ending, const Deadline& deadline = Deadline::after_milliseconds(kPatience));

  Context& context() const noexcept { return *context_; }
  int id() const noexcept { return id_.load(std::memory_order_relaxed); }
  bool open() const noexcept { return context_ != nullptr; }

  // Failures of tasks wait here for the next synchronise, which throws and forgets the first of them.
  void throw_failure();
  // The card failed, and its streams with it: what is queued is dropped.
  void break_down(int code, const char* why);
  void stop_on_failure(bool stop) noexcept { stop_on_failure_.store(stop, std::memory_order_relaxed); }

  uint64_t executed() const noexcept { return executed_.load(std::memory_order_relaxed); }
  std::atomic<uint32_t> limits[2];  // aclrtDevResLimitType, 0 when not set
  std::atomic<uint32_t> overflow_switch{0};

  // ---- Work (scheduler.cpp) ----
  void submit(Task* task);
  void record(CompletionPtr completion);
  void wait_for(const CompletionPtr& completion);  // later work of this stream waits

  // ---- Graphs (graph.cpp) ----
  void record(Event& event);
  void wait_for(Event& event);
  void reset(Event& event);
  // Where tasks go instead of being run.
  enum class Diversion : uint8_t { none, capture, update };
  Diversion diversion() const noexcept { return diversion_.load(std::memory_order_relaxed); }
  void divert(Diversion diversion, std::shared_ptr<Graph> graph);
  std::shared_ptr<Graph> graph();

  bool idle() const noexcept;
  // Blocks the calling thread until all that was submitted before is done, and throws what failed; false at the
  // deadline.
  bool synchronize(const Deadline& deadline);
  // As synchronize, but leaves failures for later.
  bool drain(const Deadline& deadline);
  // Blocks the calling thread until a completion of this stream is there.
  bool await(const CompletionPtr& completion, const Deadline& deadline);

  void kick() noexcept;  // something outside of the stream changed: look again
  // Drops what is queued; false when the running task has not ended at the deadline. `code` becomes the stream's
  // failure (0 for none).
  bool abandon(int code, const char* why, const Deadline& deadline);
  // The name of a task, queued or running, that touches these bytes of the kernels' view; NULL when there is none. For
  // SOFTNPU_STRICT, without which the running task is not known.
  const char* user_of(const char* begin, size_t bytes);
  bool abandoned() const noexcept { return abandoned_.load(std::memory_order_relaxed); }
  // For inspection, on any thread and without waiting for anybody: what it is doing, as JSON; empty when it never did
  // anything. Of a task that its submitter runs at once the name is not known.
  std::string describe();

 private:
  struct Entry {
    Task* task = nullptr;      // or
    CompletionPtr completion;  // a record, or with `wait` a wait
    bool wait = false;
    uint64_t number = 0;  // of a task that a tool asks for (activity.h)
  };
  enum class Role { worker, helper };
  // `running` is the only one that makes the stream busy: after the last entry its owner still looks for another one.
  enum Token : uint8_t { free, held, running };

  void give_to_graph(Task* task);
  bool take_token(Token token) noexcept;
  void release_token() noexcept;
  bool take_token_if_idle(Token token) noexcept;
  uint32_t queued() const noexcept { return static_cast<uint32_t>(state_.load(std::memory_order_acquire)); }
  enum class Part { beginning, whole };
  void give(Task* task, uint64_t number);
  void submit_recorded(Task* task);
  bool run(Task* task, Part part,
           uint64_t number) noexcept;  // false when only the beginning is done and the rest is to be queued
  void begin_watch(const Task* task) noexcept;
  void end_watch() noexcept;
  Task* screen(Task* task);  // what is to be taken instead
  void execute(Entry& entry) noexcept;
  void enqueue(Entry entry);
  void drop(Entry& entry) noexcept;
  bool token_free() const noexcept { return token_.load(std::memory_order_seq_cst) == free; }
  bool runnable(Role role);  // the head of the queue, by a thread with the token; lock held
  void run_queue(Role role, const Completion* until);
  CompletionPtr awaited_by_head();
  void retire() noexcept;
  void start_worker();  // lock held
  void wake_worker() noexcept;
  bool head_waits_for_peers() const noexcept;
  void work();
  void remember_failure(int code, const Task* task, const char* why) noexcept;
  // What this stream waited for is the work of one that failed: so has this one, unless that was already collected.
  void adopt_failure(const Completion& completion) noexcept;

  static constexpr uint64_t kWaiter = uint64_t{1} << 32;

  // The hot line: what a launch on an idle stream reads and writes.
  std::atomic<uint8_t> token_{free};  // who has it may take entries from the queue and run them
  std::atomic<bool> failed_{false};
  std::atomic<bool> stop_on_failure_{false};
  std::atomic<bool> abandoned_{false};
  std::atomic<Diversion> diversion_{Diversion::none};
  std::atomic<uint64_t> state_{0};  // low half: queued entries; high half: threads asleep in await()
  std::atomic<uint64_t> executed_{0};
  Context* context_ = nullptr;
  std::atomic<int> id_{-1};

  std::mutex mutex_;                  // queue_, taken_, worker_*, dozing_, failure_*, graph_
  std::condition_variable work_;      // the worker sleeps here
  std::condition_variable progress_;  // waiters sleep here
  std::deque<Entry> queue_;
  const Task* running_task_ = nullptr;              // with SOFTNPU_STRICT
  std::atomic<const char*> running_name_{nullptr};  // of a task that was queued
  uint64_t taken_ = 0;                              // entries that have left the queue to be executed
  bool worker_started_ = false;
  bool dozing_ = false;   // the worker will look at the queue by itself
  bool retired_ = false;  // destroyed: the worker may go
  std::shared_ptr<Graph> graph_;
  int failure_code_ = 0;
  std::string failure_text_;
};

// Waits for the work of all streams of `card`, whose failures stay where they are. Never throws: used by frees.
void wait_for_card(int card) noexcept;
// SOFTNPU_STRICT: throws Failure when a task of any stream has not done with this memory, which `what` is about to end.
void check_unused(const void* address, size_t bytes, const char* what);
// aclrtSynchronizeDevice: all streams of the context; throws the first failure and forgets all. False at the deadline.
bool synchronize(Context& context, const Deadline& deadline);
// aclrtDeviceTaskAbort.
bool abort_tasks(Context& context, const Deadline& deadline);

uint64_t executed_tasks();
std::string describe_streams();  // a JSON list
// Gives up what is queued anywhere and waits for running tasks, kPatience at most. At process exit.
bool stop_all_streams() noexcept;

}  // namespace softnpu
