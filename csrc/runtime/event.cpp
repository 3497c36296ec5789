#include "runtime/event.h"

#include <c10/util/Exception.h>

#include <mutex>
#include <utility>
#include <vector>

#include "acl/check.h"
#include "acl/library.h"
#include "runtime/device.h"
#include "runtime/gpu_trace.h"
#include "runtime/recovery.h"

namespace npu {

namespace {

struct Pool {
  std::mutex mutex;
  std::vector<aclrtEvent> events;
};

// Never destroyed, so that events in static storage can be released at exit.
Pool& pool(c10::DeviceIndex device, bool timing) {
  static auto* pools = new Pool[kMaxDevices][2];
  return pools[device][timing];
}

aclrtEvent take_pooled(c10::DeviceIndex device, bool timing) {
  auto& from = pool(device, timing);
  std::lock_guard lock(from.mutex);
  if (from.events.empty()) return nullptr;
  aclrtEvent event = from.events.back();
  from.events.pop_back();
  return event;
}

struct StreamAndEvent {
  aclrtStream stream;
  aclrtEvent event;
};

void run_record(void* payload) {
  const auto* task = static_cast<StreamAndEvent*>(payload);
  NPU_CHECK(acl::api().aclrtRecordEvent(task->event, task->stream));
}

void run_wait(void* payload) {
  const auto* task = static_cast<StreamAndEvent*>(payload);
  NPU_CHECK(acl::api().aclrtStreamWaitEvent(task->stream, task->event));
}

void check_ipc() {
  const auto& api = acl::api();
  TORCH_CHECK_NOT_IMPLEMENTED(api.aclrtIpcGetEventHandle && api.aclrtIpcOpenEventHandle,
                              "This CANN runtime has no events between processes: create the event without "
                              "interprocess=True, and let the processes tell each other after synchronize().");
}

}  // namespace

Event& Event::operator=(Event&& other) noexcept {
  if (this != &other) {
    release();
    take(other);
  }
  return *this;
}

void Event::take(Event& other) noexcept {
  event_ = std::exchange(other.event_, nullptr);
  record_ticket_ = std::exchange(other.record_ticket_, 0);
  device_ = std::exchange(other.device_, -1);
  recorded_ = std::exchange(other.recorded_, false);
  timing_ = other.timing_;
  ipc_ = other.ipc_;
}

void Event::release() noexcept {
  aclrtEvent event = std::exchange(event_, nullptr);
  if (!event || !is_usable()) return;
  try {
    gpu_trace::tell(&gpu_trace::Table::trace_gpu_event_deletion, gpu_trace::number(event));
    if (ipc_) {  // another process may have it open
      task_queue::wait(record_ticket_);
      DeviceGuard guard(device_);
      acl::api().aclrtDestroyEvent(event);
    } else {
      auto& to = pool(device_, timing_);
      std::lock_guard lock(to.mutex);
      to.events.push_back(event);
    }
  } catch (...) {  // a destructor: the event is lost
  }
}

void Event::create(c10::DeviceIndex device) {
  if (ipc_) check_ipc();
  DeviceGuard guard(device);
  if (!ipc_) event_ = take_pooled(device, timing_);
  if (!event_) {
    const uint32_t flags = ipc_ ? ACL_EVENT_IPC : timing_ ? ACL_EVENT_TIME_LINE | ACL_EVENT_SYNC : ACL_EVENT_SYNC;
    NPU_CHECK(acl::api().aclrtCreateEventExWithFlag(&event_, flags));
  }
  device_ = device;
  gpu_trace::tell(&gpu_trace::Table::trace_gpu_event_creation, gpu_trace::number(event_));
}

void Event::record(Stream stream) {
  if (C10_UNLIKELY(!event_)) create(stream.device_index());
  TORCH_CHECK(device_ == stream.device_index(), "Event device ", int{device_},
              " does not match recording stream's "
              "device ",
              int{stream.device_index()}, ".");
  DeviceGuard guard(device_);
  const StreamAndEvent task{stream.handle(), event_};
  gpu_trace::tell(&gpu_trace::Table::trace_gpu_event_record, gpu_trace::number(event_), gpu_trace::number(task.stream));
  record_ticket_ = task_queue::push_keeping_errors(run_record, &task, sizeof(task));
  recorded_ = true;
  if (ipc_) task_queue::wait(record_ticket_);
}

void Event::record_once(Stream stream) {
  if (!recorded_) record(stream);
}

void Event::block(Stream stream) const {
  if (!recorded_) return;
  DeviceGuard guard(stream.device_index());
  const StreamAndEvent task{stream.handle(), event_};
  gpu_trace::tell(&gpu_trace::Table::trace_gpu_event_wait, gpu_trace::number(event_), gpu_trace::number(task.stream));
  const auto ticket = task_queue::push(run_wait, &task, sizeof(task));
  if (ipc_) task_queue::wait(ticket);
}

bool Event::poll() const { return (!recorded_ || task_queue::try_finish(record_ticket_)) && query(); }

bool Event::query() const {
  if (!recorded_) return true;
  if (!task_queue::is_done(record_ticket_)) return false;
  DeviceGuard guard(device_);
  auto status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
  NPU_CHECK(acl::api().aclrtQueryEventStatus(event_, &status));
  return status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
}

void Event::synchronize() const {
  if (!recorded_) return;
  task_queue::wait(record_ticket_);
  DeviceGuard guard(device_);
  NPU_CHECK(acl::api().aclrtSynchronizeEvent(event_));
  gpu_trace::tell(&gpu_trace::Table::trace_gpu_event_synchronization, gpu_trace::number(event_));
  if (recovery::watched()) recovery::check_not_stopped(device_);  // work that was dropped is no work done
}

float Event::elapsed_time(const Event& end) const {
  TORCH_CHECK_VALUE(timing_ && end.timing_, "Both events must be created with argument 'enable_timing=True'.");
  TORCH_CHECK_VALUE(recorded_ && end.recorded_, "Both events must be recorded before calculating elapsed time.");
  TORCH_CHECK(query() && end.query(), "Both events must be completed before calculating elapsed time.");
  DeviceGuard guard(device_);
  float milliseconds = 0;
  const auto& api = acl::api();
  const int code = api.aclrtEventElapsedTime(&milliseconds, event_, end.event_);
  if (code ==
      ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL) {  // as on CUDA, the time from a later event to an earlier one is negative
    NPU_CHECK(api.aclrtEventElapsedTime(&milliseconds, end.event_, event_));
    return -milliseconds;
  }
  if (code != 0) acl::throw_acl_error(code, "aclrtEventElapsedTime", __FILE__, __LINE__);
  return milliseconds;
}

uint64_t Event::recorded_time() const {
  TORCH_CHECK_VALUE(timing_, "The event must be created with argument 'enable_timing=True' to have a time.");
  TORCH_CHECK_VALUE(recorded_, "The event must be recorded before its time can be read.");
  TORCH_CHECK(query(), "The event must be completed before its time can be read.");
  const auto get = acl::api().aclrtEventGetTimestamp;
  TORCH_CHECK_NOT_IMPLEMENTED(get, "This CANN runtime cannot tell the time of an event; use elapsed_time().");
  DeviceGuard guard(device_);
  uint64_t microseconds = 0;
  NPU_CHECK(get(event_, &microseconds));
  return microseconds;
}

aclrtIpcEventHandle Event::ipc_handle() {
  TORCH_CHECK_VALUE(ipc_, "Only an event that was created with argument 'interprocess=True' has a handle.");
  if (!event_) create(current_device());
  DeviceGuard guard(device_);
  aclrtIpcEventHandle handle = {};
  NPU_CHECK(acl::api().aclrtIpcGetEventHandle(event_, &handle));
  recorded_ = true;  // by another process, for all that is known here
  return handle;
}

Event Event::from_ipc_handle(c10::DeviceIndex device, const aclrtIpcEventHandle& handle) {
  check_ipc();
  Event event(false, true);
  event.device_ = device < 0 ? current_device() : device;
  DeviceGuard guard(event.device_);
  NPU_CHECK(acl::api().aclrtIpcOpenEventHandle(handle, &event.event_));
  event.recorded_ = true;
  return event;
}

}  // namespace npu
