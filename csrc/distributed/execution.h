// What the device does for a work: when it is done, and whether it went well. The user's work and the watchdog share
// it, so it holds no results: those are the user's alone. What must outlive a collective that runs aside is kept until
// somebody waits for it, or it is done.
//
// Note [Which collective failed]
// An event says that a collective is over, not how; a communicator says that something failed, not what. So a
// collective is good when it was over while its communicator had no failure, and whoever looks writes that down
// (settle): the watchdog, the user's questions, and each launch for the one before it. A failed communicator fails
// everything on it that is not known to be good. Collectives of a communicator end in order: what comes before a good
// one is good.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "distributed/communicator.h"
#include "runtime/event.h"

namespace npu::distributed {

class Execution {
 public:
  struct Description {
    c10d::OpType type = c10d::OpType::UNKNOWN;
    const char* title = "";  // for profilers, as upstream has it: "hccl:all_reduce"
    uint64_t number = 0;     // in the group: collectives, or sends and receives
    std::chrono::milliseconds timeout{0};
    bool collective = false, barrier = false, timed = false;
    int peer = -1;  // of a send or receive, in the group
  };
  Execution(Description description, c10::Device device) : description_(description), device_(device) {}

  // ---- While it is being launched ----
  void begin(Stream stream);  // `stream` is where it runs; several for a batch
  void end(Stream stream, std::shared_ptr<Communicator> communicator);
  void keep(const std::vector<at::Tensor>& tensors);
  std::optional<uint64_t> trace;  // entry of the flight recorder

  // ---- Afterwards, on any thread ----
  const Description& description() const { return description_; }
  c10::Device device() const { return device_; }
  std::string describe() const;  // "all_reduce #3"
  bool is_done() const;
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  bool is_late(std::chrono::milliseconds limit) const { return std::chrono::steady_clock::now() - start_ > limit; }
  bool settle();                     // true when it is known to be done and good
  std::optional<Failure> failure();  // its own, or its communicators'
  void fail(Failure failure);        // the first one counts
  void block(Stream stream) const;   // later work on `stream` waits for it
  Stream stream() const { return streams_.back(); }
  void release();  // lets go of the tensors
  void absorb();   // after a failure that the caller tells: the streams' next synchronise does not tell it again
  void abort();
  float duration() const;  // milliseconds; waits

 private:
  bool is_good() const;

  Description description_;
  const c10::Device device_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::vector<Stream> streams_;
  std::vector<Event> begins_, ends_;
  std::vector<std::shared_ptr<Communicator>> communicators_;
  std::atomic<bool> good_{false};
  std::mutex mutex_;  // of the following
  std::vector<at::Tensor> kept_;
  std::optional<Failure> failure_;
};

}  // namespace npu::distributed
