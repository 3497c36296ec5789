// Events: created lazily at the first record, like torch.cuda's. Answers by itself for what was never recorded. ACL
// events are reused: a destroyed Event gives its ACL event to a pool of its card. A record replaces the one before it
// and waits already queued keep the record they saw, so that nothing has to complete first.
//
// An interprocess event goes past the task queue: what another process is told after record() must find the record, and
// a wait must see the record of its own moment.
#pragma once

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "runtime/stream.h"
#include "runtime/task_queue.h"

namespace npu {

// Flags of c10::Event beyond upstream's; see Note [Event objects] in guard.cpp.
inline constexpr auto kInterprocess = static_cast<c10::EventFlag>(3);
inline constexpr auto kGiven = static_cast<c10::EventFlag>(4);

class Event {
 public:
  explicit Event(bool enable_timing = false, bool interprocess = false) : timing_(enable_timing), ipc_(interprocess) {}
  static Event from_ipc_handle(c10::DeviceIndex device, const aclrtIpcEventHandle& handle);
  ~Event() { release(); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  Event(Event&& other) noexcept { take(other); }
  Event& operator=(Event&& other) noexcept;

  void record(Stream stream);  // raises no error of an earlier task, so destructors may record
  void record_once(Stream stream);
  void block(Stream stream) const;  // later work on `stream` waits for the last record
  bool query() const;               // true when never recorded; never waits, not even for the task queue
  bool poll() const;                // the same for a caller that asks until it is true: runs what is queued before it
  void synchronize() const;
  float elapsed_time(const Event& end) const;  // milliseconds; throws as torch.cuda does
  uint64_t recorded_time() const;              // device timestamp in microseconds
  aclrtIpcEventHandle ipc_handle();            // creates it on the current card if it is not; others may record it then
  bool is_created() const { return event_ != nullptr; }
  bool was_recorded() const { return recorded_; }
  bool enable_timing() const { return timing_; }
  c10::DeviceIndex device_index() const { return device_; }
  aclrtEvent handle() const { return event_; }

 private:
  void create(c10::DeviceIndex device);
  void release() noexcept;
  void take(Event& other) noexcept;

  aclrtEvent event_ = nullptr;
  task_queue::Ticket record_ticket_ = 0;  // of the last record
  c10::DeviceIndex device_ = -1;
  bool timing_ = false, ipc_ = false, recorded_ = false;
};

}  // namespace npu
