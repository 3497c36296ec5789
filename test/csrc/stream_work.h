// Work for a stream whose end a test controls: a host callback that waits, and one that notes when it ran.
#pragma once

#include <atomic>
#include <future>
#include <memory>

#include "acl/check.h"
#include "acl/library.h"
#include "runtime/device.h"
#include "runtime/stream.h"
#include "runtime/task_queue.h"

// Queues a host callback behind the stream's work, through the task queue as operators do.
inline void push_callback(npu::Stream stream, aclrtHostFunc function, void* argument) {
  struct Callback {
    aclrtStream stream;
    aclrtHostFunc function;
    void* argument;
  } const callback{stream.handle(), function, argument};
  npu::DeviceGuard guard(stream.device_index());
  npu::task_queue::push(
      [](void* payload) {
        const auto* c = static_cast<Callback*>(payload);
        NPU_CHECK(npu::acl::api().aclrtLaunchHostFunc(c->stream, c->function, c->argument));
      },
      &callback, sizeof(callback));
}

// Keeps streams busy from hold() until open() or its end.
class Gate {
 public:
  ~Gate() { open(); }
  void hold(npu::Stream stream) {
    push_callback(
        stream,
        [](void* argument) {
          const std::unique_ptr<Future> opened(static_cast<Future*>(argument));
          opened->wait();
        },
        new Future(opened_));
  }
  void open() {
    if (!std::exchange(is_open_, true)) promise_.set_value();
  }

 private:
  using Future = std::shared_future<void>;
  std::promise<void> promise_;
  Future opened_ = promise_.get_future().share();
  bool is_open_ = false;
};

// Says whether the work before it on a stream has run.
class Mark {
 public:
  void put(npu::Stream stream) {
    push_callback(
        stream,
        [](void* argument) {
          const std::unique_ptr<Flag> flag(static_cast<Flag*>(argument));
          **flag = true;
        },
        new Flag(reached_));
  }
  bool reached() const { return *reached_; }

 private:
  using Flag = std::shared_ptr<std::atomic<bool>>;
  Flag reached_ = std::make_shared<std::atomic<bool>>(false);
};
