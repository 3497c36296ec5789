#include "distributed/watchdog.h"

#include <c10/util/Logging.h>
#include <c10/util/thread_name.h>

#include "distributed/flight_recorder.h"
#include "runtime/device.h"

namespace npu::distributed {

namespace {

constexpr auto kInterval = std::chrono::milliseconds(100);
constexpr auto kPublish = std::chrono::seconds(1);
constexpr auto kMargin =
    std::chrono::milliseconds(500);  // the device's own time-out has better words: let it come first

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

void Watchdog::watch(WorkPtr work, bool collective) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (collective) progress_ = {work->description().number, work->description().title};
  works_.push_back(std::move(work));
}

bool Watchdog::wait_until_idle(std::chrono::milliseconds timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, timeout, [&] { return works_.empty() || failure_; }) && works_.empty();
}

std::vector<Watchdog::WorkPtr> Watchdog::pending() {
  std::lock_guard<std::mutex> lock(mutex_);
  return {works_.begin(), works_.end()};
}

std::optional<std::string> Watchdog::failure() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

void Watchdog::stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
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
  for (const WorkPtr& work : pending()) {
    try {
      const bool done = work->isCompleted();
      if (auto text = work->error()) {
        fail(work, *text);
      } else if (!done) {
        const auto limit = work->description().timeout + kMargin;
        if (work->is_late(limit))
          fail(work, c10::str(work->describe(), " of group ", group_, " did not end within ",
                              work->description().timeout.count(), " ms. ", late_ranks(*work)));
        continue;
      }
    } catch (const std::exception& e) {
      fail(work, e.what());
    }
    FlightRecorder::get().done(work->isSuccess() ? work->trace : std::nullopt);
    work->release();
    std::lock_guard<std::mutex> lock(mutex_);
    works_.remove(work);
    if (works_.empty()) changed_.notify_all();
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

void Watchdog::fail(const WorkPtr& work, const std::string& text) {
  work->fail(text);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (failure_) return;
    failure_ = text;
    changed_.notify_all();
  }
  on_failure_(text);
}

std::string Watchdog::late_ranks(const WorkHCCL& work) {
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
      if (number < work.description().number)
        late += c10::str(late.empty() ? "Late: " : ", ", "rank ", rank, " (last called ", last, ")");
    }
  } catch (const std::exception& e) {
    return c10::str("The store does not answer: ", e.what());
  }
  return late.empty() ? "All ranks have called it." : late + ".";
}

}  // namespace npu::distributed
