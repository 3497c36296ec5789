// The half of an event that processes share. Events that were made with ACL_EVENT_IPC, or opened from a handle, have
// one.
//
// Note [Events between processes]
// Each such event has a page of shared memory, published as card memory is (share.h). A record, by whichever process,
// takes the next number there and says later that it is complete. Whoever waits, queries or synchronises looks for the
// highest number of that moment, so that Note [Event versions] holds between processes too. A record of this process
// is waited for by its completion, as that of any other event. For one of another process a task blocks the stream's
// worker until the page says so; it looks from time to time whether the recording process still lives.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "acl_types.h"

namespace softnpu {

struct EventPage;
class Stream;

class SharedEvent : public std::enable_shared_from_this<SharedEvent> {
 public:
  static std::shared_ptr<SharedEvent> create();
  static std::shared_ptr<SharedEvent> open(const aclrtIpcEventHandle& handle);  // throws Failure(107000) or (507022)
  ~SharedEvent();
  SharedEvent(const SharedEvent&) = delete;

  aclrtIpcEventHandle handle();  // publishes it, at the first call

  uint64_t begin_record();  // its number; waits while too many records are not complete
  void end_record(uint64_t number, bool failed) noexcept;
  uint64_t last() const noexcept;                // the number of the last record since reset(), 0 for none
  uint64_t recorded_by_others() const noexcept;  // last() unless begin_record() of this object gave it, else 0
  void reset() noexcept;

  bool done(uint64_t number) const;   // throws Failure when its process ended before
  void await(uint64_t number) const;  // by the host or by a task; throws the same, and if work before the record failed
  void hold_up(Stream& stream, uint64_t number);  // later work of the stream waits

  std::atomic<int> waits{0};  // of streams of this process that have not passed yet

 private:
  SharedEvent(int fd, EventPage* page) : fd_(fd), page_(page) {}
  int join();

  const int fd_;  // -1 if opened
  EventPage* const page_;
  std::atomic<int> place_{-1};  // among those that record the event, from the first record on
  std::mutex publishing_;
  uint64_t share_ = 0;
};

// What a completion tells other processes.
struct SharedRecord {
  std::shared_ptr<SharedEvent> event;
  uint64_t number;
};

}  // namespace softnpu
