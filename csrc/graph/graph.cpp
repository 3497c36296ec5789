// Note [Capture]
// ~~~~~~~~~~~~~~
// Between capture_begin and capture_end the current stream, and every stream that waits for an event of it, runs
// nothing: the provider keeps what it is given. So memory that the capture asks for is the graph's until reset(): its
// requests go to a private arena, in which blocks are reused in the order of the captured work. Random kernels read
// their seed and offset from the card (CapturedPhilox). What needs a result of the device cannot be captured: the
// provider refuses it, and the capture with it.
#include "graph/graph.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <mutex>
#include <vector>

#include "acl/check.h"
#include "acl/library.h"
#include "memory/caching_allocator.h"
#include "memory/host_allocator.h"
#include "memory/memory_pool.h"
#include "profiler/kernel_trace.h"
#include "runtime/device.h"
#include "runtime/generator.h"
#include "runtime/task_queue.h"

namespace npu {

namespace {

struct Execution {
  aclmdlRI model;
  aclrtStream stream;
};

void run_execution(void* payload) {
  const auto& execution = *static_cast<Execution*>(payload);
  NPU_CHECK(acl::api().aclmdlRIExecuteAsync(execution.model, execution.stream));
}

aclmdlRICaptureMode acl_mode(at::GraphCaptureMode mode) {
  switch (mode) {
    case at::GraphCaptureMode::ThreadLocal:
      return ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;
    case at::GraphCaptureMode::Relaxed:
      return ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
    default:
      return ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
  }
}

// Ids of host pools that no graph has and nothing was allocated from. Upstream's allocator keeps what it made for an
// id, 32 KB, until its cache is emptied, and few captures ask for pinned memory.
class UnusedHostPools {
 public:
  c10::MempoolId_t take() {
    std::lock_guard lock(mutex_);
    if (ids_.empty()) return caching_allocator::new_pool_id(false);
    const auto id = ids_.back();
    ids_.pop_back();
    return id;
  }
  void put(c10::MempoolId_t id) {
    std::lock_guard lock(mutex_);
    ids_.push_back(id);
  }

 private:
  std::mutex mutex_;
  std::vector<c10::MempoolId_t> ids_;
};
UnusedHostPools& g_unused_host_pools = *new UnusedHostPools;

void check_support() {
  const auto& api = acl::api();
  TORCH_CHECK_NOT_IMPLEMENTED(api.aclmdlRICaptureBegin && api.aclmdlRICaptureEnd && api.aclmdlRICaptureGetInfo &&
                                  api.aclmdlRIExecuteAsync && api.aclmdlRIDestroy,
                              "The CANN in ", acl::path(), " cannot capture graphs; install a newer one.");
}

}  // namespace

Graph::Graph(const at::GraphImplArgs& args) : keep_graph_(args.keep_graph) {}

Graph::~Graph() {
  if (!is_usable()) return;
  try {
    if (state_ == State::capturing) end_capture();  // whatever stream is current: nobody else can end it
    reset();
  } catch (const std::exception& error) {
    TORCH_WARN("The memory of an npu graph stays in use: ", error.what());
  }
}

void Graph::capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode mode) {
  TORCH_CHECK(state_ == State::empty,
              "This NPUGraph instance already owns a captured graph. To capture a new graph, create a new instance or "
              "call reset() first.");
  check_support();
  const Stream stream = current_stream();
  TORCH_CHECK(stream.id() != 0,
              "NPU graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them on "
              "the default stream.)");
  task_queue::drain();
  pool_ = pool != c10::MempoolId_t{0, 0} ? pool : caching_allocator::new_pool_id(false);
  DeviceGuard guard(stream.device_index());
  NPU_CHECK(acl::api().aclmdlRICaptureBegin(stream.handle(), acl_mode(mode)));
  try {
    start_allocating(stream);
  } catch (...) {
    if (capture_) captures::end(*capture_);
    capture_.reset();
    aclmdlRI nothing = nullptr;
    if (acl::api().aclmdlRICaptureEnd(stream.handle(), &nothing) == 0) acl::api().aclmdlRIDestroy(nothing);
    throw;
  }
  stream_ = stream;
  state_ = State::capturing;
}

// Refused when another capture has the pool.
void Graph::start_allocating(const Stream& stream) {
  auto status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
  aclmdlRI model = nullptr;
  NPU_CHECK(acl::api().aclmdlRICaptureGetInfo(stream.handle(), &status, &model));
  capture_ = std::make_unique<Capture>(stream.device_index(), model);
  captures::begin(*capture_);
  const auto is_captured = [capture = capture_.get()](c10::Stream asked) {
    return captures::of_stream(Stream(asked).handle()) == capture;
  };
  caching_allocator::heap(stream.device_index())
      .begin_allocate_to_pool(pool_, [=, device = stream.unwrap().device()](c10::StreamId id) {
        return is_captured(c10::Stream(c10::Stream::UNSAFE, device, id));
      });
  host_pool_ = g_unused_host_pools.take();
  host_pool_used_ = false;
  host_allocator::get()->begin_allocate_to_pool(host_pool_, [=, this](c10::Stream asked) {  // by requests for memory
    const bool captured = is_captured(asked);
    if (captured) host_pool_used_ = true;
    return captured;
  });
}

void Graph::stop_allocating() noexcept {
  try {
    caching_allocator::heap(capture_->device).end_allocate_to_pool(pool_);
    host_allocator::get()->end_allocate_to_pool(host_pool_);
  } catch (const std::exception& error) {
    TORCH_WARN("Requests for memory still go to a graph: ", error.what());
  }
}

void Graph::release_pool() noexcept {
  try {
    auto& heap = caching_allocator::heap(capture_->device);
    heap.release_pool(pool_);
    heap.empty_cache(pool_);  // unless other graphs have it
    if (host_pool_used_)
      host_allocator::get()->release_pool(host_pool_);
    else
      g_unused_host_pools.put(host_pool_);
  } catch (const std::exception& error) {
    TORCH_WARN("The memory of an npu graph stays in use: ", error.what());
  }
}

void Graph::capture_end() {
  TORCH_CHECK(state_ == State::capturing,
              "capture_end() was called, but no capture is under way: call capture_begin()");
  TORCH_CHECK(current_stream() == *stream_, "Capture must end on the same stream it began on.");
  if (const int code = end_capture()) acl::throw_acl_error(code, "aclmdlRICaptureEnd", __FILE__, __LINE__);
  if (!capture_->has_tasks)
    TORCH_WARN(
        "The NPU Graph is empty. This usually means that the graph was attempted to be captured on wrong device "
        "or stream.");
}

int Graph::end_capture() {
  DeviceGuard guard(capture_->device);
  stop_allocating();
  captures::end(*capture_);
  const int code = acl::api().aclmdlRICaptureEnd(stream_->handle(), &model_);
  state_ = code == 0 ? State::captured : State::empty;
  if (code == 0) return 0;
  model_ = nullptr;
  capture_->generators.clear();
  release_pool();
  return code;
}

// What the provider captured is executable as it is.
void Graph::instantiate() {
  TORCH_CHECK(state_ == State::captured, "instantiate() was called, but nothing has been captured");
  TORCH_CHECK(keep_graph_, "instantiate() is intended to be called by the user only when keep_graph=true");
}

void Graph::replay() {
  TORCH_CHECK(state_ == State::captured, "Called NPUGraph::replay without a preceding successful capture.");
  DeviceGuard guard(capture_->device);
  for (const auto& generator : capture_->generators) advance(*generator);
  const Execution execution{model_, current_stream_handle()};
  const kernel_trace::Span span("aclmdlRIExecuteAsync", kernel_trace::Kind::graph);
  task_queue::push(run_execution, &execution, sizeof(execution));
  if (C10_UNLIKELY(task_queue::launch_blocking())) current_stream().synchronize();
}

// The provider may still run the graph: its memory is given back when the card has done its work.
void Graph::reset() {
  if (state_ != State::captured) return;
  task_queue::drain_keeping_errors();
  DeviceGuard guard(capture_->device);
  {
    const captures::Relaxed relaxed;
    acl::api().aclrtSynchronizeDevice();  // an error of the work is its own matter and is raised elsewhere
  }
  const int code = acl::api().aclmdlRIDestroy(model_);
  model_ = nullptr;
  state_ = State::empty;
  capture_->generators.clear();
  release_pool();
  capture_.reset();
  NPU_CHECK(code);
}

c10::MempoolId_t Graph::pool() const {
  TORCH_CHECK(state_ != State::empty, "Called NPUGraph::pool() without a preceding successful capture.");
  return pool_;
}

// There is always enough for debug_dump().
void Graph::enable_debug_mode() {}

void Graph::debug_dump(const std::string& path) {
  TORCH_CHECK(state_ == State::captured, "Called NPUGraph::debug_dump without a preceding successful capture.");
  TORCH_CHECK_NOT_IMPLEMENTED(acl::api().aclmdlRIDebugJsonPrint, "The CANN in ", acl::path(),
                              " cannot describe graphs.");
  constexpr uint32_t kVerbose = 1;
  NPU_CHECK(acl::api().aclmdlRIDebugJsonPrint(model_, path.c_str(), kVerbose));
}

void begin_task_group(Stream stream) {
  check_support();
  task_queue::drain();
  DeviceGuard guard(stream.device_index());
  NPU_CHECK(acl::api().aclmdlRICaptureTaskGrpBegin(stream.handle()));
}

uintptr_t end_task_group(Stream stream) {
  check_support();
  task_queue::drain();
  DeviceGuard guard(stream.device_index());
  aclrtTaskGrp group = nullptr;
  NPU_CHECK(acl::api().aclmdlRICaptureTaskGrpEnd(stream.handle(), &group));
  return reinterpret_cast<uintptr_t>(group);
}

void begin_task_update(Stream stream, uintptr_t group) {
  check_support();
  task_queue::drain();
  DeviceGuard guard(stream.device_index());
  NPU_CHECK(acl::api().aclmdlRICaptureTaskUpdateBegin(stream.handle(), reinterpret_cast<aclrtTaskGrp>(group)));
}

void end_task_update(Stream stream) {
  check_support();
  task_queue::drain_keeping_errors();  // or the stream would go on updating
  DeviceGuard guard(stream.device_index());
  const int code = acl::api().aclmdlRICaptureTaskUpdateEnd(stream.handle());
  task_queue::drain();  // raises why a call was refused; the code says that its tasks are missing
  if (code) acl::throw_acl_error(code, "aclmdlRICaptureTaskUpdateEnd", __FILE__, __LINE__);
}

namespace {

struct EventCall {
  aclrtEvent event;
  aclrtStream stream;
};

void push_call(task_queue::Run run, aclrtEvent event, Stream stream, c10::DeviceIndex device) {
  TORCH_CHECK_VALUE(stream.device_index() == device, "The event is one of npu:", int{device},
                    ", the stream one of npu:", int{stream.device_index()});
  DeviceGuard guard(device);
  const EventCall call{event, stream.handle()};
  task_queue::push(run, &call, sizeof(call));
}

}  // namespace

ExternalEvent::ExternalEvent() : device_(current_device()) {
  DeviceGuard guard(device_);
  NPU_CHECK(acl::api().aclrtCreateEventExWithFlag(&event_, ACL_EVENT_EXTERNAL));
}

ExternalEvent::~ExternalEvent() {
  if (!is_usable()) return;
  try {
    task_queue::drain_keeping_errors();
    DeviceGuard guard(device_);
    acl::api().aclrtDestroyEvent(event_);
  } catch (...) {  // a destructor: the event is lost
  }
}

void ExternalEvent::record(Stream stream) {
  push_call(
      [](void* call) {
        NPU_CHECK(
            acl::api().aclrtRecordEvent(static_cast<EventCall*>(call)->event, static_cast<EventCall*>(call)->stream));
      },
      event_, stream, device_);
}

void ExternalEvent::wait(Stream stream) {
  push_call(
      [](void* call) {
        NPU_CHECK(acl::api().aclrtStreamWaitEvent(static_cast<EventCall*>(call)->stream,
                                                  static_cast<EventCall*>(call)->event));
      },
      event_, stream, device_);
}

void ExternalEvent::reset(Stream stream) {
  TORCH_CHECK_NOT_IMPLEMENTED(acl::api().aclrtResetEvent, "The CANN in ", acl::path(), " cannot reset events.");
  push_call(
      [](void* call) {
        NPU_CHECK(
            acl::api().aclrtResetEvent(static_cast<EventCall*>(call)->event, static_cast<EventCall*>(call)->stream));
      },
      event_, stream, device_);
}

}  // namespace npu

namespace at {
// Under the name that torch gives the device (rename_privateuse1_backend), in capitals.
using NPUGraph = npu::Graph;
REGISTER_GRAPH_IMPL(NPU, NPUGraph)
}  // namespace at
