#include "distributed/watchdog.h"

#include <c10/util/Logging.h>
#include <c10/util/thread_name.h>

#include "distributed/flight_recorder.h"
#include "runtime/device.h"

namespace npu::distributed {

namespace {

constexpr auto kInterval = std::chrono::milliseconds(100);
constexpr auto kPublish = std::chrono::seconds(1);

// The device's own time-out, of whole seconds, has better words: it may come first.
std::chrono::milliseconds patience(std::chrono::milliseconds timeout) {
  constexpr auto margin = std::chrono::milliseconds(500);
  return std::chrono::ceil<std::chrono::seconds>(timeout) + margin;
}

void try_to_settle(Execution& execution) noexcept {
  try {
    if (is_usable()) execution.settle();
  } catch (const std::exception&) {  // is_over() tells it
  }
}

std::string key(int rank) { return "hccl_progress/" + std::to_string(rank); }

}  // namespace

Watchdog::Watchdog(c10::intrusive_ptr<c10d::Store> store, int rank, int ranks, std::string group,
                   std::function<void(const std::string&)> on_failure)
    : store_(std::move(store)),
      rank_(rank),
      ranks_(ranks),
      group_(std::move(group)),
      on_failure_(std::move(on_failure)),
      thread_([this] { run(); }) {}

void Watchdog::watch(ExecutionPtr execution) {
  const Execution::Description& description = execution->description();
  std::lock_guard<std::mutex> lock(mutex_);
  if (description.collective) progress_ = {description.number, description.title};
  executions_.push_back(std::move(execution));
}

void Watchdog::settle() {
  ExecutionPtr last;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!executions_.empty()) last = executions_.back();
  }
  if (last) try_to_settle(*last);
}

bool Watchdog::wait_until_idle(std::chrono::milliseconds timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, timeout, [&] { return executions_.empty() || failure_; }) && executions_.empty();
}

std::vector<Watchdog::ExecutionPtr> Watchdog::pending() {
  std::lock_guard<std::mutex> lock(mutex_);
  return {executions_.begin(), executions_.end()};
}

std::optional<Failure> Watchdog::failure() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

std::string Watchdog::last_title() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return progress_.title;
}

void Watchdog::stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Watchdog::restart() {
  stop();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    executions_.clear();
    failure_.reset();
    stopping_ = false;
  }
  thread_ = std::thread([this] { run(); });
}

void Watchdog::run() {
  c10::setThreadName("npu_hccl_watch");
  auto published = std::chrono::steady_clock::now();
  for (;;) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait_for(lock, kInterval, [&] { return stopping_; });
      if (stopping_) return;
    }
    if (!is_usable()) continue;
    look();
    if (std::chrono::steady_clock::now() - published >= kPublish) {
      publish();
      published = std::chrono::steady_clock::now();
    }
  }
}

void Watchdog::look() {
  const std::vector<ExecutionPtr> pending = this->pending();
  for (const ExecutionPtr& execution : pending) try_to_settle(*execution);  // before a failure ends communicators
  for (const ExecutionPtr& execution : pending) {
    if (!is_over(execution)) continue;
    FlightRecorder::get().done(execution->failure() ? std::nullopt : execution->trace);
    execution->release();
    std::lock_guard<std::mutex> lock(mutex_);
    executions_.remove(execution);
    if (executions_.empty()) changed_.notify_all();
  }
}

bool Watchdog::is_over(const ExecutionPtr& execution) {
  try {
    if (execution->settle()) return true;
    auto failure = execution->failure();
    const Execution::Description& what = execution->description();
    if (!failure && execution->is_late(patience(what.timeout)))
      failure = Failure{c10::str(execution->describe(), " of group ", group_, " did not end within ",
                                 what.timeout.count(), " ms.", what.collective ? late_ranks(what.number) : ""),
                        true};
    if (failure) fail(execution, *failure);
    return failure && execution->is_done();
  } catch (const std::exception& e) {
    fail(execution, {e.what()});
    return true;
  }
}

void Watchdog::publish() {
  Progress now;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (progress_ == published_) return;
    now = published_ = progress_;
  }
  try {
    const std::string text = std::to_string(now.number) + " " + now.title;
    store_->set(key(rank_), std::vector<uint8_t>(text.begin(), text.end()));
  } catch (const std::exception&) {  // the store's process has ended: nobody reads it any more
  }
}

void Watchdog::fail(const ExecutionPtr& execution, const Failure& failure) {
  execution->fail(failure);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (failure_) return;
    failure_ = failure;
    changed_.notify_all();
  }
  on_failure_(failure.text);
}

std::string Watchdog::late_ranks(uint64_t reached) {
  publish();
  std::this_thread::sleep_for(kPublish + kInterval);  // the others publish what they did last
  std::string late;
  try {
    for (int rank = 0; rank < ranks_; ++rank) {
      if (rank == rank_) continue;
      std::string last = "nothing yet";
      uint64_t number = 0;
      if (store_->check({key(rank)})) {
        const std::vector<uint8_t> value = store_->get(key(rank));
        const std::string text(value.begin(), value.end());
        number = std::stoull(text);
        last = c10::str(text.substr(text.find(':') + 1), " #", number);
      }
      if (number < reached)
        late += c10::str(late.empty() ? " Late: " : ", ", "rank ", rank, " (last called ", last, ")");
    }
  } catch (const std::exception& e) {
    return c10::str(" The store does not answer: ", e.what());
  }
  return late.empty() ? " All ranks have called it." : late + ".";
}

}  // namespace npu::distributed
