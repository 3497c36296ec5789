#include "profiler/launches.h"

#include <c10/util/ApproximateClock.h>
#include <c10/util/ScopeExit.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

namespace npu::kernel_trace {

namespace {

constexpr uint64_t kSweep = 64;  // launches

// A moment in the task queue: when the thread that runs it came by. The launch outlives it, see Launches::clear.
struct Passing {
  Launch* launch;
  bool first;
};

void run_passing(void* payload) {
  const auto [launch, first] = *static_cast<Passing*>(payload);
  (first ? launch->run_begin : launch->run_end) = c10::getTime();
  launch->runner = thread_number();
}

void push_passing(Launch* launch, bool first) {
  if (task_queue::level() == 0) return;
  const Passing passing{launch, first};
  task_queue::push_keeping_errors(&run_passing, &passing, sizeof(passing));
}

int64_t nanoseconds(float milliseconds) { return static_cast<int64_t>(static_cast<double>(milliseconds) * 1e6); }

bool write_all(int file, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t count = ::write(file, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

}  // namespace

int32_t thread_number() {
  thread_local const auto number = static_cast<int32_t>(syscall(SYS_gettid));
  return number;
}

Launches& Launches::all() {
  static auto* one = new Launches;  // leaked: threads may outlive static destruction
  return *one;
}

void Launches::remember_origin(Stream stream) {
  const auto [entry, is_new] = origins_.try_emplace(stream.device_index());
  if (!is_new) return;
  const int64_t before = c10::getTime();
  entry->second.event.record(stream);
  entry->second.event.synchronize();
  entry->second.ns = before + (c10::getTime() - before) / 2;
}

Launch* Launches::begin(const char* name, Kind kind, uint64_t operation, Stream stream, Traffic traffic) {
  std::unique_ptr<Launch> made(new Launch{name, kind, 0, operation, stream, std::move(traffic)});
  Launch* const launch = made.get();
  {
    std::lock_guard lock(mutex_);
    remember_origin(stream);
    launch->correlation = ++last_number_;
    if (last_number_ % kSweep == 0) locate_finished();
    launches_.push_back(std::move(made));
  }
  launch->caller = thread_number();
  launch->call_begin = c10::getTime();
  try {
    push_passing(launch, true);
    launch->begin.record(stream);
  } catch (const std::exception& error) {
    launch->refused = true;
    launch->complete.store(true, std::memory_order_release);
    TORCH_WARN_ONCE("The profile lacks a launch of ", name, ": ", error.what());
    return nullptr;
  }
  return launch;
}

void Launches::end(Launch* launch, bool refused) {
  launch->refused = true;  // unless all of this succeeds
  const auto over = c10::make_scope_exit([&] { launch->complete.store(true, std::memory_order_release); });
  push_passing(launch, false);
  launch->end.record(launch->stream);
  launch->call_end = c10::getTime();
  launch->refused = refused;
}

void Launches::clear() {
  std::vector<std::unique_ptr<Launch>> over;
  {
    std::lock_guard lock(mutex_);
    const auto rest = std::stable_partition(launches_.begin(), launches_.end(),
                                            [](const auto& launch) { return !launch->complete.load(); });
    over.assign(std::make_move_iterator(rest), std::make_move_iterator(launches_.end()));
    launches_.erase(rest, launches_.end());
    origins_.clear();
    anchors_.clear();
    next_ = 0;
  }
  if (!over.empty()) task_queue::drain_keeping_errors();
}

void Launches::locate(Launch& launch) {
  if (launch.located) return;
  const auto origin = origins_.find(launch.stream.device_index());
  TORCH_CHECK(origin != origins_.end(), "the launch belongs to an earlier session");
  auto& anchor = anchors_[{launch.stream.device_index(), launch.stream.id()}];
  if (!anchor.event) anchor = {&origin->second.event, origin->second.ns, nullptr};
  int64_t begin = anchor.ns + nanoseconds(anchor.event->elapsed_time(launch.begin));
  const int64_t earliest = std::max(launch.call_begin, launch.run_begin);
  if (begin < earliest) {
    advance(launch.stream.device_index(), earliest - begin);
    begin = earliest;
  }
  launch.device_end = begin + nanoseconds(launch.begin.elapsed_time(launch.end));
  launch.device_begin = begin;
  launch.located = true;
  launch.end = Event(true);
  if (anchor.launch) anchor.launch->begin = Event(true);
  anchor = {&launch.begin, begin, &launch};
}

void Launches::advance(c10::DeviceIndex device, int64_t ns) {
  origins_[device].ns += ns;
  for (auto& [lane, anchor] : anchors_)
    if (lane.first == device) anchor.ns += ns;
}

void Launches::locate_finished() {
  for (; next_ < launches_.size(); ++next_) {
    Launch& launch = *launches_[next_];
    if (!launch.complete.load(std::memory_order_acquire)) return;
    try {
      if (launch.refused || launch.located) continue;
      if (!launch.end.query()) return;
      locate(launch);
    } catch (const std::exception&) {  // it failed: the program hears of it where it waits
    }
  }
}

size_t Launches::size() {
  std::lock_guard lock(mutex_);
  return launches_.size();
}

int64_t write_finished(int file) {
  std::string text;
  int64_t lines = 0;
  auto& all = Launches::all();
  all.for_each([&](Launch& launch) {
    if (launch.written || !(launch.located || launch.end.query())) return;
    launch.written = true;
    try {
      all.locate(launch);
    } catch (const std::exception&) {  // it failed: the program hears of it where it waits
      return;
    }
    const auto& traffic = launch.traffic;
    text +=
        c10::str(launch.name, '\t', launch_counts::name_of(launch.kind), '\t',
                 static_cast<int>(launch.stream.device_index()), '\t', launch.stream.id(), '\t', launch.device_begin,
                 '\t', launch.device_end - launch.device_begin, '\t', launch.operation, '\t', launch.correlation, '\t',
                 traffic.bytes, '\t', traffic.direction ? traffic.direction : traffic.group.c_str(), '\n');
    lines++;
  });
  return write_all(file, text) ? lines : -1;
}

}  // namespace npu::kernel_trace
