// Events.
#include "runtime/event.h"

#include "entry.h"
#include "runtime/graph.h"
#include "runtime/order.h"
#include "runtime/stream.h"
#include "runtime/trace.h"

using namespace softnpu;

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag) {
  return guard("aclrtCreateEventWithFlag", [&] {
    current_context();
    *required(event, "event") = &Event::create(flag);
  });
}

aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag) {
  return guard("aclrtCreateEventExWithFlag", [&] {
    current_context();
    *required(event, "event") = &Event::create(flag);
  });
}

aclError aclrtDestroyEvent(aclrtEvent event) {
  return guard_release("aclrtDestroyEvent", [&] { Event::destroy(event); });
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  return guard("aclrtRecordEvent", [&] { Stream::launchable(stream).record(Event::checked(event)); });
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
  return guard("aclrtResetEvent", [&] { Stream::launchable(stream).reset(Event::checked(event)); });
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  return guard("aclrtStreamWaitEvent", [&] { Stream::launchable(stream).wait_for(Event::checked(event)); });
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
  return guard("aclrtSynchronizeEvent", [&] {
    const Event& known = Event::checked(event);
    ++g_counters.synchronizations;
    if (const uint64_t number = known.recorded_elsewhere()) return known.shared()->await(number);
    const CompletionPtr completion = known.current();
    if (!completion) return;
    check_not_captured(*completion, "aclrtSynchronizeEvent");
    completion->origin()->await(completion, {});
    if (config().strict) order::host_waited(*completion);
    completion->throw_failure();
  });
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  return guard("aclrtQueryEventStatus", [&] {
    const Event& known = Event::checked(event);
    const uint64_t number = known.recorded_elsewhere();
    const CompletionPtr completion = number ? nullptr : known.current();
    if (completion) check_not_captured(*completion, "aclrtQueryEventStatus");
    const bool done = number ? known.shared()->done(number) : completion && completion->done();
    *required(status, "status") = done ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    if (completion && done && config().strict) order::host_waited(*completion);
  });
}

aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus* status) {
  return guard("aclrtQueryEventWaitStatus", [&] {
    const Event& known = Event::checked(event);
    const CompletionPtr completion = known.current();
    const auto shared = known.shared();
    const bool waits = (completion && completion->waits.load() != 0) || (shared && shared->waits.load() != 0);
    *required(status, "waitStatus") = waits ? ACL_EVENT_WAIT_STATUS_NOT_READY : ACL_EVENT_WAIT_STATUS_COMPLETE;
  });
}

aclError aclrtEventElapsedTime(float* milliseconds, aclrtEvent start, aclrtEvent end) {
  return guard("aclrtEventElapsedTime", [&] {
    required(milliseconds, "ms");
    const uint64_t from = Event::checked(start).nanoseconds("startEvent");
    const uint64_t to = Event::checked(end).nanoseconds("endEvent");
    if (to < from) fail(ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, "endEvent was recorded before startEvent");
    *milliseconds = static_cast<float>(static_cast<double>(to - from) * 1e-6);
  });
}

aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t* timestamp) {
  return guard("aclrtEventGetTimestamp",
               [&] { *required(timestamp, "timestamp") = Event::checked(event).nanoseconds("event") / 1000; });
}

// ---- Between processes: see Note [Events between processes] ----

aclError aclrtIpcGetEventHandle(aclrtEvent event, aclrtIpcEventHandle* handle) {
  return guard("aclrtIpcGetEventHandle", [&] {
    const auto shared = Event::checked(event).shared();
    if (!shared) fail(ACL_ERROR_RT_PARAM_INVALID, "event was created without ACL_EVENT_IPC and cannot be shared");
    *required(handle, "handle") = shared->handle();
  });
}

aclError aclrtIpcOpenEventHandle(aclrtIpcEventHandle handle, aclrtEvent* event) {
  return guard("aclrtIpcOpenEventHandle", [&] {
    current_context();
    required(event, "event");
    *event = &Event::open(handle);
  });
}
