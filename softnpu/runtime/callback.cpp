#include "callback.h"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "error.h"
#include "stream.h"

namespace softnpu {

namespace {

struct Callback {
  aclrtCallback function;
  void* data;
  Stream* stream;
  bool done = false;
};
using CallbackPtr = std::shared_ptr<Callback>;

// The callbacks of one subscribed thread, in the order in which their streams came to them.
struct Inbox {
  std::deque<CallbackPtr> waiting;
  int subscriptions = 0;
};

// Callbacks are rare and slow: one lock for all of them.
struct Reports {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<uint64_t, Inbox> inboxes;          // by thread
  std::map<const Stream*, uint64_t> threads;  // by stream
};

Reports& reports() {
  static Reports* const r = new Reports;
  return *r;
}

class HostFunctionTask final : public Task {
 public:
  HostFunctionTask(aclrtHostFunc function, void* data) : function_(function), data_(data) {}
  void run() override { function_(data_); }
  std::string describe() const override { return "host function"; }
  Waits waits() const noexcept override { return Waits::for_user; }

 private:
  aclrtHostFunc function_;
  void* data_;
};

class CallbackTask final : public Task {
 public:
  CallbackTask(Stream& stream, aclrtCallback function, void* data, bool blocking)
      : callback_(std::make_shared<Callback>(Callback{function, data, &stream})), blocking_(blocking) {}
  std::string describe() const override { return "callback"; }
  Waits waits() const noexcept override { return Waits::for_user; }

  void run() override {
    Reports& r = reports();
    std::unique_lock<std::mutex> lock(r.mutex);
    const auto thread = r.threads.find(callback_->stream);
    if (thread == r.threads.end()) fail(ACL_ERROR_RT_STREAM_NO_CB_REG, "its thread has unsubscribed");
    callback_->done = false;  // graphs run it again
    r.inboxes[thread->second].waiting.push_back(callback_);
    r.changed.notify_all();
    // Looks up now and then: an abort or the end of the process does not know about this queue.
    while (blocking_ && !callback_->done && !abandoned()) r.changed.wait_for(lock, std::chrono::milliseconds(20));
  }

 private:
  CallbackPtr callback_;
  bool blocking_;
};

}  // namespace

void launch_host_function(aclrtStream stream, aclrtHostFunc function, void* data) {
  Stream::launchable(stream).submit(new HostFunctionTask(function, data));
}

void launch_callback(aclrtStream handle, aclrtCallback function, void* data, bool blocking) {
  Stream& stream = Stream::launchable(handle);
  {
    std::lock_guard<std::mutex> lock(reports().mutex);
    if (!reports().threads.count(&stream))
      fail(ACL_ERROR_RT_STREAM_NO_CB_REG, "no thread has subscribed to stream %d (aclrtSubscribeReport)", stream.id());
  }
  stream.submit(new CallbackTask(stream, function, data, blocking));
}

void subscribe_report(uint64_t thread, Stream& stream) {
  std::lock_guard<std::mutex> lock(reports().mutex);
  if (!reports().threads.emplace(&stream, thread).second)
    fail(ACL_ERROR_RT_STREAM_SUBSCRIBE, "stream %d already has a subscriber", stream.id());
  ++reports().inboxes[thread].subscriptions;
}

// What the stream still has in the inbox is given up, and blocked streams go on.
void unsubscribe_report(uint64_t thread, Stream& stream) {
  Reports& r = reports();
  std::lock_guard<std::mutex> lock(r.mutex);
  const auto it = r.threads.find(&stream);
  if (it == r.threads.end() || it->second != thread)
    fail(ACL_ERROR_RT_THREAD_SUBSCRIBE, "thread %llu is not the subscriber of stream %d", (unsigned long long)thread,
         stream.id());
  r.threads.erase(it);
  Inbox& inbox = r.inboxes[thread];
  std::erase_if(inbox.waiting, [&](const CallbackPtr& callback) {
    callback->done |= callback->stream == &stream;
    return callback->stream == &stream;
  });
  if (--inbox.subscriptions == 0) r.inboxes.erase(thread);
  r.changed.notify_all();
}

void process_report(int64_t milliseconds) {
  Reports& r = reports();
  const uint64_t thread = static_cast<uint64_t>(pthread_self());
  std::unique_lock<std::mutex> lock(r.mutex);
  if (!r.inboxes.count(thread)) fail(ACL_ERROR_RT_THREAD_SUBSCRIBE, "this thread has not subscribed to a stream");
  const auto ready = [&] {
    const auto inbox = r.inboxes.find(thread);
    return inbox == r.inboxes.end() || !inbox->second.waiting.empty();
  };
  if (milliseconds < 0) {
    r.changed.wait(lock, ready);
  } else if (!r.changed.wait_for(lock, std::chrono::milliseconds(milliseconds), ready)) {
    fail(ACL_ERROR_RT_REPORT_TIMEOUT, "no callback came within %lld ms", (long long)milliseconds);
  }
  const auto inbox = r.inboxes.find(thread);
  if (inbox == r.inboxes.end()) fail(ACL_ERROR_RT_THREAD_SUBSCRIBE, "this thread was unsubscribed while it waited");
  const CallbackPtr callback = inbox->second.waiting.front();
  inbox->second.waiting.pop_front();
  lock.unlock();
  callback->function(callback->data);
  lock.lock();
  callback->done = true;
  r.changed.notify_all();
}

}  // namespace softnpu
