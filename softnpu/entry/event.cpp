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
    const CompletionPtr completion = Event::checked(event).current();
    ++g_counters.synchronizations;
    if (!completion) return;
    check_not_captured(*completion, "aclrtSynchronizeEvent");
    completion->origin()->await(completion, {});
    if (config().strict) order::host_waited(*completion);
    completion->throw_failure();
  });
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  return guard("aclrtQueryEventStatus", [&] {
    const CompletionPtr completion = Event::checked(event).current();
    if (completion) check_not_captured(*completion, "aclrtQueryEventStatus");
    const bool done = completion && completion->done();
    *required(status, "status") = done ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    if (done && config().strict) order::host_waited(*completion);
  });
}

aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus* status) {
  return guard("aclrtQueryEventWaitStatus", [&] {
    const CompletionPtr completion = Event::checked(event).current();
    *required(status, "waitStatus") =
        completion && completion->waits.load() != 0 ? ACL_EVENT_WAIT_STATUS_NOT_READY : ACL_EVENT_WAIT_STATUS_COMPLETE;
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
