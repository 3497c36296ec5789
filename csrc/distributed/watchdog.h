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

#include "distributed/work.h"

namespace npu::distributed {

class Watchdog {
 public:
  using WorkPtr = c10::intrusive_ptr<WorkHCCL>;
  // `on_failure` is called once, on the watchdog's thread, with the reason.
  Watchdog(c10::intrusive_ptr<c10d::Store> store, int rank, int ranks, std::string group,
           std::function<void(const std::string&)> on_failure);
  ~Watchdog() { stop(); }

  void watch(WorkPtr work, bool collective);
  bool wait_until_idle(std::chrono::milliseconds timeout);  // false when something is still in flight
  std::vector<WorkPtr> pending();
  std::optional<std::string> failure() const;  // what on_failure was told
  void stop();

 private:
  struct Progress {
    uint64_t number = 0;
    const char* title = "";
    bool operator==(const Progress&) const = default;
  };
  void run();
  void look();
  void publish();
  void fail(const WorkPtr& work, const std::string& text);
  std::string late_ranks(const WorkHCCL& work);

  c10::intrusive_ptr<c10d::Store> store_;
  const int rank_, ranks_;
  const std::string group_;
  const std::function<void(const std::string&)> on_failure_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<WorkPtr> works_;
  Progress progress_, published_;
  std::optional<std::string> failure_;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace npu::distributed
