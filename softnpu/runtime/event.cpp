#include "event.h"

#include <time.h>

#include <algorithm>

#include "arena.h"
#include "error.h"
#include "stream.h"

namespace softnpu {

namespace {

constinit Arena<Event> g_events{"events", 512 * 1024};

constexpr uint32_t kKnownFlags = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE |
                                 ACL_EVENT_DEFAULT | ACL_EVENT_EXTERNAL | ACL_EVENT_IPC;

uint64_t now_nanoseconds() noexcept {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

}  // namespace

Completion::Completion(Stream* origin, bool timed) : origin_(origin), origin_id_(origin->id()), timed_(timed) {}

void Completion::throw_failure() const {
  if (origin_->id() == origin_id_) origin_->throw_failure();
}

bool Completion::failed() const noexcept {
  return failed_.load(std::memory_order_relaxed) && origin_->id() == origin_id_;
}

void Completion::complete(bool failed) noexcept {
  failed_.store(failed, std::memory_order_relaxed);
  if (timed_) nanoseconds_ = now_nanoseconds();
  std::vector<Stream*> blocked;
  {
    std::lock_guard<SpinLock> lock(lock_);
    done_.store(true, std::memory_order_seq_cst);
    blocked.swap(blocked_);
  }
  for (Stream* stream : blocked) stream->kick();
  if (shared) shared->event->end_record(shared->number, failed);
}

bool Completion::call_back(Stream* stream) {
  std::lock_guard<SpinLock> lock(lock_);
  if (done()) return false;
  if (std::find(blocked_.begin(), blocked_.end(), stream) == blocked_.end()) blocked_.push_back(stream);
  return true;
}

Event& Event::create(uint32_t flags) {
  if (flags & ~kKnownFlags) fail(ACL_ERROR_RT_PARAM_INVALID, "flag 0x%x has bits that are no event flag", flags);
  return begin_event(flags, (flags & ACL_EVENT_IPC) != 0 ? SharedEvent::create() : nullptr);
}

Event& Event::open(const aclrtIpcEventHandle& handle) { return begin_event(ACL_EVENT_IPC, SharedEvent::open(handle)); }

Event& Event::begin_event(uint32_t flags, std::shared_ptr<SharedEvent> shared) {
  Event* event = g_events.acquire();
  event->flags_ = flags;
  event->shared_ = std::move(shared);
  event->begin();
  return *event;
}

namespace {

Event& require(Event* event, aclrtEvent handle) {
  if (event) return *event;
  if (!handle) fail(ACL_ERROR_INVALID_PARAM, "event is NULL");
  fail(ACL_ERROR_RT_INVALID_HANDLE, "event %p is no live event (destroyed before, or not made by aclrtCreateEvent...)",
       handle);
}

}  // namespace

Event& Event::checked(aclrtEvent handle) { return require(g_events.find(handle), handle); }

void Event::destroy(aclrtEvent handle) {
  Event& event = require(g_events.end(handle), handle);
  std::shared_ptr<SharedEvent> shared;
  {
    std::lock_guard<SpinLock> lock(event.lock_);
    shared.swap(event.shared_);
  }
  event.reset();
  g_events.release(&event);
}

void Event::set_current(CompletionPtr record) {
  std::lock_guard<SpinLock> lock(lock_);
  record.swap(current_);
}

void Event::record(Stream& stream) {
  auto completion = std::make_shared<Completion>(&stream, (flags_ & ACL_EVENT_TIME_LINE) != 0);
  if (auto seen_by_others = shared()) {
    const uint64_t number = seen_by_others->begin_record();
    completion->shared.reset(new SharedRecord{std::move(seen_by_others), number});
  }
  set_current(completion);
  stream.record(std::move(completion));
}

void Event::set_done(Stream& stream) {
  auto completion = std::make_shared<Completion>(&stream, (flags_ & ACL_EVENT_TIME_LINE) != 0);
  completion->complete();
  set_current(std::move(completion));
}

void Event::reset() {
  CompletionPtr previous;
  std::lock_guard<SpinLock> lock(lock_);
  previous.swap(current_);
  if (shared_) shared_->reset();
}

CompletionPtr Event::current() const {
  std::lock_guard<SpinLock> lock(lock_);
  return shared_ && shared_->recorded_by_others() ? nullptr : current_;
}

std::shared_ptr<SharedEvent> Event::shared() const {
  std::lock_guard<SpinLock> lock(lock_);
  return shared_;
}

uint64_t Event::recorded_elsewhere() const {
  std::lock_guard<SpinLock> lock(lock_);
  return shared_ ? shared_->recorded_by_others() : 0;
}

uint64_t Event::nanoseconds(const char* which) const {
  const CompletionPtr completion = current();
  if (!(flags_ & ACL_EVENT_TIME_LINE))
    fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "%s was created without ACL_EVENT_TIME_LINE and has no time", which);
  if (!completion) fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "%s has not been recorded", which);
  if (!completion->done()) fail(ACL_ERROR_RT_EVENT_NOT_COMPLETE, "the record of %s is not complete yet", which);
  return completion->nanoseconds();
}

}  // namespace softnpu
