// The child profiler that kineto asks for the npu's part of a trace. Sessions are made, started and processed by the
// thread that profiles; correlation ids and spans come from any thread.
#include "profiler/kernel_trace.h"

#include <c10/util/ApproximateClock.h>
#include <libkineto.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace npu::kernel_trace {

std::atomic<bool> recording{false};

namespace {

using libkineto::ActivityType;

struct Kernel {
  const char* name;
  uint64_t operation;  // the correlation id of the operator that launched it
  Stream stream;
  Event begin, end;
};

// A card's clock against the host's: an event that was over when the host's clock was read.
struct Origin {
  Event event{/*enable_timing=*/true};
  int64_t host_ns = 0;
};

struct Trace {
  std::mutex mutex;
  std::vector<std::unique_ptr<Kernel>> kernels;
  std::map<c10::DeviceIndex, Origin> origins;
};

Trace& trace() {
  static auto* one = new Trace;  // leaked: threads may outlive static destruction
  return *one;
}

std::atomic<uint64_t> session_number{0};

// The operators that this thread is in, innermost last. What another session left, which ended inside an operator, is
// dropped.
std::vector<uint64_t>& operations() {
  thread_local uint64_t session = 0;
  thread_local std::vector<uint64_t> ids;
  if (session != session_number) ids.clear();
  session = session_number;
  return ids;
}

void remember_origin(Stream stream) {
  std::lock_guard lock(trace().mutex);
  const auto [entry, is_new] = trace().origins.try_emplace(stream.device_index());
  if (!is_new) return;
  entry->second.event.record(stream);
  entry->second.event.synchronize();
  entry->second.host_ns = c10::getTime();
}

class Session : public libkineto::IActivityProfilerSession {
 public:
  void start() override {
    status_ = libkineto::TraceStatus::RECORDING;
    clear();
    session_number++;
    recording = true;
  }
  void stop() override {
    recording = false;
    status_ = libkineto::TraceStatus::PROCESSING;
  }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, [](int32_t) { return nullptr; }, 0, 0);
  }
  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, int64_t from,
                    int64_t to) override {
    std::lock_guard lock(trace().mutex);
    buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
    buffer_->span = libkineto::TraceSpan(from, to, "npu");
    buffer_->gpuOpCount = static_cast<int>(trace().kernels.size());
    for (const auto& kernel : trace().kernels) {
      try {
        log(*kernel, logger, linked);
      } catch (const std::exception& error) {  // the launch has failed: the program hears of it where it waits
        errors_.emplace_back(error.what());
      }
    }
  }

  std::vector<std::string> errors() override { return errors_; }
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override { return nullptr; }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {}; }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override {
    clear();
    return std::move(buffer_);
  }

  void pushCorrelationId(uint64_t id) override { operations().push_back(id); }
  void popCorrelationId() override {
    if (!operations().empty()) operations().pop_back();
  }

 private:
  void log(const Kernel& kernel, libkineto::ActivityLogger& logger,
           const libkineto::getLinkedActivityCallback& linked) {
    const auto nanoseconds = [](float milliseconds) { return static_cast<int64_t>(milliseconds * 1e6); };
    const auto& origin = trace().origins.at(kernel.stream.device_index());
    kernel.end.synchronize();
    const int64_t start = origin.host_ns + nanoseconds(origin.event.elapsed_time(kernel.begin));
    const int64_t duration = nanoseconds(kernel.begin.elapsed_time(kernel.end));
    buffer_->emplace_activity(buffer_->span, ActivityType::CONCURRENT_KERNEL, kernel.name);
    auto& activity = *buffer_->activities.back();
    activity.startTime = start;
    activity.endTime = start + duration;
    activity.device = kernel.stream.device_index();
    activity.resource = static_cast<int32_t>(kernel.stream.id());
    activity.id = static_cast<int32_t>(kernel.operation);
    activity.flow.id = static_cast<uint32_t>(kernel.operation);
    activity.flow.type = libkineto::kLinkAsyncCpuGpu;
    activity.linked = linked(activity.id);
    activity.log(logger);
  }

  static void clear() {
    std::lock_guard lock(trace().mutex);
    trace().kernels.clear();
    trace().origins.clear();
  }

  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
  std::vector<std::string> errors_;
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
  const std::set<ActivityType> activities_{ActivityType::CONCURRENT_KERNEL};
};

REGISTER_PRIVATEUSE1_PROFILER(Profiler);

}  // namespace

void Span::begin(const char* name) {
  const auto stream = current_stream();
  remember_origin(stream);
  begin_ = std::make_unique<Event>(/*enable_timing=*/true);
  begin_->record(stream);
  name_ = name;
}

void Span::end() noexcept {
  try {
    const auto stream = current_stream();
    auto kernel = std::make_unique<Kernel>(
        Kernel{name_, operations().empty() ? 0 : operations().back(), stream, std::move(*begin_), Event(true)});
    kernel->end.record(stream);
    std::lock_guard lock(trace().mutex);
    if (recording) trace().kernels.push_back(std::move(kernel));
  } catch (...) {  // a destructor: this launch is missing in the trace
  }
}

}  // namespace npu::kernel_trace
