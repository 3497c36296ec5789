// The child profiler that kineto asks for the npu's part of a trace. Sessions are made, started and processed by the
// thread that profiles; correlation ids and spans come from any thread.
#include "profiler/kernel_trace.h"

#include <libkineto.h>
#include <output_base.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "profiler/launches.h"
#include "runtime/capture.h"

namespace npu::kernel_trace {

namespace {

using libkineto::ActivityType;

std::atomic<uint64_t> session_number{0};

// Where the task queue's runs are shown: one at a time, by whichever thread runs the queue between its own work.
constexpr int32_t kQueueLane = std::numeric_limits<int32_t>::max() - 1;

// The operators that this thread is in, innermost last. What another session left, which ended inside an operator, is
// dropped.
std::vector<uint64_t>& operations() {
  thread_local uint64_t session = 0;
  thread_local std::vector<uint64_t> ids;
  if (session != session_number) ids.clear();
  session = session_number;
  return ids;
}

class Session : public libkineto::IActivityProfilerSession {
 public:
  void start() override {
    status_ = libkineto::TraceStatus::RECORDING;
    Launches::all().clear();
    session_number++;
    watchers::set(watchers::trace, true);
  }
  void stop() override {
    watchers::set(watchers::trace, false);
    status_ = libkineto::TraceStatus::PROCESSING;
  }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, [](int32_t) { return nullptr; }, 0, 0);
  }
  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, int64_t from,
                    int64_t to) override {
    buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
    buffer_->span = libkineto::TraceSpan(from, to, "npu");
    std::set<std::pair<int, int64_t>> lanes;
    auto& all = Launches::all();
    all.for_each([&](Launch& launch) {
      try {
        if (!launch.located) launch.end.synchronize();
        all.locate(launch);
      } catch (const std::exception& error) {  // the launch has failed: the program hears of it where it waits
        errors_.emplace_back(error.what());
        return;
      }
      buffer_->gpuOpCount++;
      log(launch, logger, linked);
      lanes.emplace(launch.stream.device_index(), launch.stream.id());
    });
    name_lanes(lanes, logger, from);
    if (queued_) logger.handleResourceInfo({kQueueLane, kQueueLane, getpid(), "Task queue"}, from);
  }

  std::vector<std::string> errors() override { return errors_; }
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override { return nullptr; }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {}; }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override {
    Launches::all().clear();
    return std::move(buffer_);
  }

  void pushCorrelationId(uint64_t id) override { operations().push_back(id); }
  void popCorrelationId() override {
    if (!operations().empty()) operations().pop_back();
  }

 private:
  // See Note [What the trace shows of a launch].
  void log(const Launch& launch, libkineto::ActivityLogger& logger,
           const libkineto::getLinkedActivityCallback& linked) {
    const bool queued = launch.run_end != 0;
    auto& call = add(ActivityType::PRIVATEUSE1_RUNTIME, (queued ? "Enqueue@" : "AscendCL@") + std::string(launch.name),
                     launch.call_begin, launch.call_end, launch, linked);
    on_thread(call, launch.caller);
    keep_inside(call);
    call.flow.start = 1;
    call.log(logger);
    if (queued) {
      auto& run = add(ActivityType::PRIVATEUSE1_RUNTIME, "Dequeue@" + std::string(launch.name), launch.run_begin,
                      launch.run_end, launch, linked);
      on_thread(run, kQueueLane);
      run.addMetadata("thread", launch.runner);
      run.flow = {};
      run.log(logger);
      queued_ = true;
    }
    const bool copy = launch.kind == Kind::copy;
    auto& work = add(copy ? ActivityType::GPU_MEMCPY : ActivityType::CONCURRENT_KERNEL, launch.name,
                     launch.device_begin, launch.device_end, launch, linked);
    work.device = launch.stream.device_index();
    work.resource = static_cast<int32_t>(launch.stream.id());
    work.addMetadata("device", static_cast<int>(launch.stream.device_index()));
    work.addMetadata("stream", launch.stream.id());
    if (launch.traffic.bytes) work.addMetadata("bytes", launch.traffic.bytes);
    if (copy) work.addMetadataQuoted("kind", launch.traffic.direction);
    if (launch.kind == Kind::collective) work.addMetadataQuoted("group", launch.traffic.group);
    if (launch.kind == Kind::graph) work.addMetadata("graph", 1);
    work.log(logger);
  }

  libkineto::GenericTraceActivity& add(ActivityType type, const std::string& name, int64_t begin, int64_t end,
                                       const Launch& launch, const libkineto::getLinkedActivityCallback& linked) {
    buffer_->emplace_activity(buffer_->span, type, name);
    auto& activity = *buffer_->activities.back();
    activity.startTime = begin;
    activity.endTime = end;
    activity.id = static_cast<int32_t>(launch.operation);
    activity.flow.id = static_cast<uint32_t>(launch.correlation);
    activity.flow.type = libkineto::kLinkAsyncCpuGpu;
    activity.linked = linked(activity.id);
    activity.addMetadata("correlation", launch.correlation);
    return activity;
  }

  static void on_thread(libkineto::GenericTraceActivity& activity, int32_t thread) {
    activity.device = static_cast<int32_t>(getpid());
    activity.resource = thread;
    activity.threadId = thread;
  }

  // Operators' times come from another clock, which is tens of nanoseconds off: a call does not outlast its operator.
  static void keep_inside(libkineto::GenericTraceActivity& call) {
    if (!call.linked) return;
    const int64_t begin = call.linked->timestamp(), end = begin + call.linked->duration();
    call.startTime = std::clamp(call.startTime, begin, end);
    call.endTime = std::clamp(call.endTime, call.startTime, end);
  }

  static void name_lanes(const std::set<std::pair<int, int64_t>>& lanes, libkineto::ActivityLogger& logger,
                         int64_t time) {
    int last = -1;
    for (const auto& [device, stream] : lanes) {
      if (device != last)
        logger.handleDeviceInfo({device, device + libkineto::kExceedMaxPid, "npu", c10::str("NPU ", device)}, time);
      last = device;
      logger.handleResourceInfo({stream, stream, device, c10::str("Stream ", stream)}, time);
    }
  }

  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
  std::vector<std::string> errors_;
  bool queued_ = false;  // something came through the task queue
};

class Profiler : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override { return name_; }
  const std::set<ActivityType>& availableActivities() const override { return activities_; }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>& wanted,
                                                                 const libkineto::Config&) override {
    if (!wanted.count(ActivityType::CONCURRENT_KERNEL)) return nullptr;
    return std::make_unique<Session>();
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t, int64_t, const std::set<ActivityType>& wanted,
                                                                 const libkineto::Config& config) override {
    return configure(wanted, config);
  }

 private:
  const std::string name_{"npu"};
  const std::set<ActivityType> activities_{ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY,
                                           ActivityType::PRIVATEUSE1_RUNTIME};
};

REGISTER_PRIVATEUSE1_PROFILER(Profiler);

}  // namespace

void Span::begin(const char* name, Kind kind, Stream stream, Traffic traffic) {
  if (captures::of_stream(stream.handle()) != nullptr) return;  // nothing runs now; the replay is a launch
  exceptions_ = std::uncaught_exceptions();
  if (launch_counts::counting()) call_ = launch_counts::begin(name, kind, stream);
  if (!recording()) return;
  const uint64_t operation = operations().empty() ? 0 : operations().back();
  launch_ = Launches::all().begin(name, kind, operation, stream, std::move(traffic));
}

void Span::end() noexcept {
  const bool refused = std::uncaught_exceptions() > exceptions_;
  try {
    if (launch_) Launches::all().end(launch_, refused);
  } catch (...) {  // a destructor: this launch is missing in the trace
  }
  if (call_.count) launch_counts::end(call_, refused);
}

}  // namespace npu::kernel_trace
