// The thread that looks after the collectives in flight: notices failed and late ones, and says which rank is late.
//
// Note [Who is late]
// Every rank's watchdog puts the number and name of its last collective into the store when they have changed, about
// once a second. A rank whose collective times out reads what the others wrote: who has not come as far as itself is
// late.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "distributed/execution.h"

namespace npu::distributed {

class Watchdog {
 public:
  using ExecutionPtr = std::shared_ptr<Execution>;
  // `on_failure` is called once, on the watchdog's thread, with the reason.
  Watchdog(c10::intrusive_ptr<c10d::Store> store, int rank, int ranks, std::string group,
           std::function<void(const std::string&)> on_failure);
  ~Watchdog() { stop(); }

  void watch(ExecutionPtr execution);
  void settle();  // before a launch: the last one may be known to be good. See Note [Which collective failed]
  bool wait_until_idle(std::chrono::milliseconds timeout);  // false when something is still in flight
  std::optional<Failure> failure() const;                   // what on_failure was told
  // For inspection: what is in flight, the oldest first.
  std::vector<ExecutionPtr> in_flight() { return pending(); }
  std::string last_title() const;  // of a collective; empty before the first
  void stop();
  void restart();  // forgets what it has watched and seen

 private:
  struct Progress {
    uint64_t number = 0;
    const char* title = "";
    bool operator==(const Progress&) const = default;
  };
  void run();
  std::vector<ExecutionPtr> pending();
  void look();
  bool is_over(const ExecutionPtr& execution);
  void publish();
  void fail(const ExecutionPtr& execution, const Failure& failure);
  std::string late_ranks(uint64_t reached);  // who has not come to this collective

  c10::intrusive_ptr<c10d::Store> store_;
  const int rank_, ranks_;
  const std::string group_;
  const std::function<void(const std::string&)> on_failure_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<ExecutionPtr> executions_;
  Progress progress_, published_;
  std::optional<Failure> failure_;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace npu::distributed
