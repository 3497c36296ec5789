// Events. The handle is a name; each record gives it a new completion.
//
// Note [Event versions]
// An event may be recorded again while earlier waits on it are still queued. Those waits must see the record that was
// made before them, not a later one. So aclrtRecordEvent makes a new Completion and puts it into the event; whoever
// waits, queries or synchronises takes the event's completion of that moment. Completions are shared and outlive the
// event.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "acl_types.h"
#include "life.h"
#include "order.h"
#include "shared_event.h"
#include "spin_lock.h"

namespace softnpu {

class Graph;
class Stream;

// A record on a captured stream: the graph, and by stream how many of its nodes stand before it.
struct CaptureMark {
  std::weak_ptr<Graph> graph;
  std::map<int, uint64_t> behind;
};

class Completion {
 public:
  Completion(Stream* origin, bool timed);

  bool done() const noexcept { return done_.load(std::memory_order_seq_cst); }
  // Takes the time, wakes the streams that wait for it. `failed`: its stream had a failure that nobody has seen yet.
  void complete(bool failed = false) noexcept;
  bool failed() const noexcept;  // once done; false when its stream is gone
  // Asks for a kick of `stream` when this completes; false when it already has.
  bool call_back(Stream* stream);

  Stream* origin() const noexcept { return origin_; }
  void throw_failure() const;  // of the origin, unless that stream is gone
  bool timed() const noexcept { return timed_; }
  uint64_t nanoseconds() const noexcept { return nanoseconds_; }  // steady clock, once done

  std::atomic<int> waits{0};             // queued aclrtStreamWaitEvent calls that have not passed yet
  order::Clock clock;                    // with SOFTNPU_STRICT, of the record
  std::unique_ptr<CaptureMark> capture;  // it never completes
  std::unique_ptr<SharedRecord> shared;  // of an event that other processes see

 private:
  std::atomic<bool> done_{false}, failed_{false};
  SpinLock lock_;
  Stream* const origin_;
  const int origin_id_;
  const bool timed_;
  uint64_t nanoseconds_ = 0;
  std::vector<Stream*> blocked_;
};
using CompletionPtr = std::shared_ptr<Completion>;

class Event : public Life {
 public:
  static Event& create(uint32_t flags);
  static Event& open(const aclrtIpcEventHandle& handle);  // of another process
  static Event& checked(aclrtEvent handle);               // throws Failure(107017), or 100000 for NULL
  static void destroy(aclrtEvent handle);

  void record(Stream& stream);    // recorded on `stream`, which is not being captured
  void set_done(Stream& stream);  // recorded by a task of `stream` that runs
  void set_current(CompletionPtr record);
  bool external() const noexcept { return (flags_ & ACL_EVENT_EXTERNAL) != 0; }  // seen from outside of graphs
  void reset();
  CompletionPtr current() const;  // of the last record; NULL when there was none, or another process made it
  std::shared_ptr<SharedEvent> shared() const;  // NULL unless made with ACL_EVENT_IPC
  uint64_t recorded_elsewhere() const;  // the number in shared() of the last record if another process made it, else 0
  // Of a finished, timed record; throws Failure(107006) or (507006).
  uint64_t nanoseconds(const char* which) const;

 private:
  static Event& begin_event(uint32_t flags, std::shared_ptr<SharedEvent> shared);

  uint32_t flags_ = 0;
  mutable SpinLock lock_;
  CompletionPtr current_;
  std::shared_ptr<SharedEvent> shared_;
};

}  // namespace softnpu
