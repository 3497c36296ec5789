#include "stream.h"

#include <algorithm>
#include <string_view>

#include "address.h"
#include "arena.h"
#include "error.h"
#include "graph.h"
#include "order.h"

namespace softnpu {

namespace {

constinit Arena<Stream> g_streams{"streams", 4096};
std::atomic<int> g_next_id{0};

constexpr uint32_t kKnownFlags =
    ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC | ACL_STREAM_PERSISTENT | ACL_STREAM_HUGE | ACL_STREAM_CPU_SCHEDULE;
constexpr uint32_t kLowestPriority = 7;

}  // namespace

Stream* Stream::create(Context& context, uint32_t priority, uint32_t flags) {
  if (priority > kLowestPriority)
    fail(ACL_ERROR_RT_PARAM_INVALID, "priority %u is not in 0 (highest) to %u (lowest)", priority, kLowestPriority);
  if (flags & ~kKnownFlags) fail(ACL_ERROR_RT_PARAM_INVALID, "flag 0x%x has bits that are no stream flag", flags);
  Stream* stream = g_streams.acquire();
  stream->context_ = &context;
  stream->id_ = g_next_id.fetch_add(1);
  stream->failed_.store(false);
  stream->stop_on_failure_.store(false);
  stream->overflow_switch.store(0);
  for (auto& limit : stream->limits) limit.store(0);
  stream->divert(Diversion::none, nullptr);
  {
    std::lock_guard<std::mutex> lock(stream->mutex_);
    stream->retired_ = false;
  }
  {
    std::lock_guard<std::mutex> lock(context.mutex);
    context.streams.push_back(stream);
  }
  stream->begin();
  return stream;
}

Stream& Stream::checked(aclrtStream handle) {
  if (!handle) return default_stream(current_context());
  if (Stream* stream = g_streams.find(handle)) return *stream;
  fail(ACL_ERROR_RT_INVALID_HANDLE,
       "stream %p is no live stream (destroyed before, or not made by aclrtCreateStream...)", handle);
}

Stream& Stream::launchable(aclrtStream handle) {
  Context& context = current_context();
  if (!handle) return default_stream(context);
  Stream& stream = checked(handle);
  if (stream.context_ != &context)
    fail(ACL_ERROR_RT_STREAM_CONTEXT, "stream %d belongs to card %d, but this thread works on card %d", stream.id(),
         stream.context_->card, context.card);
  return stream;
}

void Stream::destroy(Ending ending, const Deadline& deadline) {
  if (t_thread.running == this)
    fail(ACL_ERROR_RT_STREAM_NOT_COMPLETE, "a task or callback of stream %d destroys its own stream", id());
  if (ending == Ending::drained) drain({});
  if (!end()) fail(ACL_ERROR_RT_INVALID_HANDLE, "stream %d was destroyed by another thread", id());
  if (const auto captured = diversion() == Diversion::capture ? graph() : nullptr)
    captured->invalidate("stream " + std::to_string(id()) + " was destroyed");
  {
    std::lock_guard<std::mutex> lock(context_->mutex);
    std::erase(context_->streams, this);
  }
  if (config().strict) order::ended(*this);
  // A task that never ends keeps its slot: it must not find a new stream around itself.
  if (!abandon(0, "", deadline)) return;
  retire();
  g_streams.release(this);
}

void Stream::remember_failure(int code, const Task* task, const char* why) noexcept {
  std::string text;
  try {
    const std::string what = task ? task->describe() + ": " : "";
    if (!std::string_view(why).starts_with(what)) text = what;  // collectives tell their peers who they are
    text += why + (" (stream " + std::to_string(id())) + " of card " + std::to_string(context_->card) + ")";
  } catch (...) {  // a description that fails must not hide the failure
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (failed_.load(std::memory_order_relaxed)) return;  // the first one is the cause of the others, usually
  failure_code_ = code;
  failure_text_.swap(text);
  failed_.store(true, std::memory_order_release);
}

void Stream::adopt_failure(const Completion& completion) noexcept {
  Stream& origin = *completion.origin();
  if (!completion.failed() || &origin == this) return;
  int code = 0;
  std::string text;
  try {
    std::lock_guard<std::mutex> lock(origin.mutex_);
    if (!origin.failed_.load(std::memory_order_relaxed)) return;
    code = origin.failure_code_;
    text = origin.failure_text_;
  } catch (...) {  // no memory for the words
  }
  remember_failure(code, nullptr, text.c_str());
}

void Stream::throw_failure() {
  std::string text;
  int code = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!failed_.load(std::memory_order_relaxed)) return;
    text = failure_text_;
    code = failure_code_;
    failed_.store(context_->lost.load(std::memory_order_relaxed), std::memory_order_release);
  }
  throw Failure(code, text);
}

// The failure first: whoever waits for work that is dropped now is to find it.
void Stream::break_down(int code, const char* why) {
  remember_failure(code, nullptr, why);
  abandon(0, "", Deadline::after_milliseconds(kPatience));
}

void submit(aclrtStream handle, Task* task) {
  Stream* stream = nullptr;
  try {
    stream = &Stream::launchable(handle);
  } catch (...) {
    task->release();
    throw;
  }
  stream->submit(task);
}

Stream& launchable(aclrtStream handle) { return Stream::launchable(handle); }
void submit(Stream& stream, Task* task) { stream.submit(task); }
int card_of(const Stream& stream) noexcept { return stream.context().card; }

bool captured(const Stream& stream) noexcept { return stream.diversion() == Stream::Diversion::capture; }

bool abandoned() noexcept { return t_thread.running && t_thread.running->abandoned(); }

void wait_for_card(int card) noexcept {
  Context* context = open_context(card);
  if (!context) return;
  try {
    for (Stream* stream : streams_of(*context))
      if (stream != t_thread.running) stream->drain({});
  } catch (const std::exception& e) {
    remember("waiting for a card", ACL_ERROR_RT_INTERNAL_ERROR, e.what());
  }
}

void check_unused(const void* address, size_t bytes, const char* what) {
  g_streams.for_each([&](Stream& stream) {
    const char* user = stream.alive() ? stream.user_of(kernel_address(address), bytes) : nullptr;
    if (user)
      fail(ACL_ERROR_RT_PARAM_INVALID,
           "%s: %s on stream %d still uses the memory at %p; synchronise the stream first (SOFTNPU_STRICT)", what, user,
           stream.id(), address);
  });
}

bool synchronize(Context& context, const Deadline& deadline) {
  const auto streams = streams_of(context);
  for (Stream* stream : streams)
    if (!stream->drain(deadline)) return false;
  std::exception_ptr first;
  for (Stream* stream : streams) {
    try {
      stream->throw_failure();
    } catch (const Failure&) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
  return true;
}

bool abort_tasks(Context& context, const Deadline& deadline) {
  bool in_time = true;
  for (Stream* stream : streams_of(context))
    in_time &= stream->abandon(ACL_ERROR_RT_DEVICE_TASK_ABORT, "the tasks of the card were aborted", deadline);
  return in_time;
}

uint64_t executed_tasks() {
  uint64_t sum = 0;
  g_streams.for_each([&](Stream& stream) { sum += stream.executed(); });
  return sum;
}

std::string describe_streams() {
  std::string list;
  g_streams.for_each([&](Stream& stream) {
    const std::string one = stream.describe();
    if (!one.empty()) list += (list.empty() ? "" : ", ") + one;
  });
  return "[" + list + "]";
}

bool stop_all_streams() noexcept {
  const Deadline deadline = Deadline::after_milliseconds(kPatience);
  bool stopped = true;
  g_streams.for_each([&](Stream& stream) {
    if (stream.open()) stopped &= stream.abandon(0, "", deadline);
  });
  return stopped;
}

}  // namespace softnpu
