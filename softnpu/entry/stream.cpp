// Streams, callbacks, and the values streams wait for.
#include "runtime/stream.h"

#include "entry.h"
#include "runtime/address.h"
#include "runtime/callback.h"
#include "runtime/copy.h"
#include "runtime/float_status.h"
#include "runtime/graph.h"
#include "runtime/memory.h"
#include "runtime/order.h"
#include "runtime/resource_limits.h"
#include "runtime/trace.h"

using namespace softnpu;

namespace {

void synchronize_stream(aclrtStream handle, int64_t milliseconds) {
  Stream& stream = Stream::checked(handle);
  check_not_captured(stream, "aclrtSynchronizeStream");
  ++g_counters.synchronizations;
  if (!stream.synchronize(Deadline::after_milliseconds(milliseconds)))
    fail(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "stream %d was not done within %lld ms", stream.id(),
         (long long)milliseconds);
  if (config().strict) check_red_zones(stream.context().card);
}

void switch_overflow(Stream& stream, uint32_t flag) {
  stream.overflow_switch = flag;
  if (flag) g_overflow_watched = true;
}

}  // namespace

aclError aclrtCreateStream(aclrtStream* stream) {
  return guard("aclrtCreateStream", [&] { *required(stream, "stream") = Stream::create(current_context(), 0, 0); });
}

aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag) {
  return guard("aclrtCreateStreamWithConfig",
               [&] { *required(stream, "stream") = Stream::create(current_context(), priority, flag); });
}

aclError aclrtDestroyStream(aclrtStream stream) {
  return guard_release("aclrtDestroyStream",
                       [&] { Stream::checked(required(stream, "stream")).destroy(Stream::Ending::drained); });
}

aclError aclrtDestroyStreamForce(aclrtStream stream) {
  return guard_release("aclrtDestroyStreamForce",
                       [&] { Stream::checked(required(stream, "stream")).destroy(Stream::Ending::forced); });
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
  return guard("aclrtSynchronizeStream", [&] { synchronize_stream(stream, -1); });
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
  return guard("aclrtSynchronizeStreamWithTimeout", [&] {
    if (timeout < -1) fail(ACL_ERROR_RT_PARAM_INVALID, "timeout %d is below -1 (for ever)", timeout);
    synchronize_stream(stream, timeout);
  });
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
  return guard("aclrtStreamQuery", [&] {
    Stream& asked = Stream::checked(stream);
    check_not_captured(asked, "aclrtStreamQuery");
    const bool idle = asked.idle();
    *required(status, "status") = idle ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
    if (idle && config().strict) order::host_waited(asked);
  });
}

aclError aclrtStreamGetId(aclrtStream stream, int32_t* id) {
  return guard("aclrtStreamGetId", [&] { *required(id, "stream_id") = Stream::checked(stream).id(); });
}

aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode) {
  return guard("aclrtSetStreamFailureMode", [&] {
    if (mode != ACL_CONTINUE_ON_FAILURE && mode != ACL_STOP_ON_FAILURE)
      fail(ACL_ERROR_RT_PARAM_INVALID, "mode %llu is no failure mode", (unsigned long long)mode);
    Stream::checked(required(stream, "stream")).stop_on_failure(mode == ACL_STOP_ON_FAILURE);
  });
}

aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag) {
  return guard("aclrtSetStreamOverflowSwitch", [&] {
    if (flag > 1) fail(ACL_ERROR_RT_PARAM_INVALID, "flag %u is neither 0 nor 1", flag);
    switch_overflow(Stream::checked(stream), flag);
  });
}

aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t* flag) {
  return guard("aclrtGetStreamOverflowSwitch",
               [&] { *required(flag, "flag") = Stream::checked(stream).overflow_switch; });
}

aclError aclrtSetStreamAttribute(aclrtStream stream, aclrtStreamAttr attribute, aclrtStreamAttrValue* value) {
  return guard("aclrtSetStreamAttribute", [&] {
    Stream& target = Stream::checked(stream);
    required(value, "value");
    switch (attribute) {
      case ACL_STREAM_ATTR_FAILURE_MODE:
        target.stop_on_failure(value->failureMode == ACL_STOP_ON_FAILURE);
        return;
      case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
        switch_overflow(target, value->overflowSwitch);
        return;
      case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
        return;  // for the eyes of hardware debuggers
      case ACL_STREAM_ATTR_CACHE_OP_IFNO:
        return;  // graphs always know the names and shapes of their tasks
      default:
        fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "stream attribute %d", static_cast<int>(attribute));
    }
  });
}

aclError aclrtGetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t* value) {
  return guard("aclrtGetStreamResLimit",
               [&] { *required(value, "value") = stream_limit(Stream::checked(stream), type); });
}

aclError aclrtSetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t value) {
  return guard("aclrtSetStreamResLimit", [&] { set_stream_limit(Stream::checked(stream), type, value); });
}

aclError aclrtResetStreamResLimit(aclrtStream stream) {
  return guard("aclrtResetStreamResLimit", [&] { reset_stream_limits(Stream::checked(stream)); });
}

aclError aclrtUseStreamResInCurrentThread(aclrtStream stream) {
  return guard("aclrtUseStreamResInCurrentThread", [&] { use_stream_limits(&Stream::checked(stream)); });
}

aclError aclrtUnuseStreamResInCurrentThread(aclrtStream stream) {
  return guard("aclrtUnuseStreamResInCurrentThread", [&] {
    Stream::checked(stream);
    use_stream_limits(nullptr);
  });
}

aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc function, void* data) {
  return guard("aclrtLaunchHostFunc", [&] { launch_host_function(stream, required(function, "func"), data); });
}

aclError aclrtLaunchCallback(aclrtCallback function, void* data, aclrtCallbackBlockType block, aclrtStream stream) {
  return guard("aclrtLaunchCallback", [&] {
    if (block != ACL_CALLBACK_NO_BLOCK && block != ACL_CALLBACK_BLOCK)
      fail(ACL_ERROR_RT_PARAM_INVALID, "blockType %d is unknown", static_cast<int>(block));
    launch_callback(stream, required(function, "fn"), data, block == ACL_CALLBACK_BLOCK);
  });
}

aclError aclrtSubscribeReport(uint64_t thread, aclrtStream stream) {
  return guard("aclrtSubscribeReport", [&] { subscribe_report(thread, Stream::checked(stream)); });
}

aclError aclrtUnSubscribeReport(uint64_t thread, aclrtStream stream) {
  return guard_release("aclrtUnSubscribeReport", [&] { unsubscribe_report(thread, Stream::checked(stream)); });
}

aclError aclrtProcessReport(int32_t timeout) {
  return guard("aclrtProcessReport", [&] {
    if (timeout < -1) fail(ACL_ERROR_RT_PARAM_INVALID, "timeout %d is below -1 (for ever)", timeout);
    process_report(timeout);
  });
}

aclError aclrtValueWrite(void* address, uint64_t value, uint32_t flag, aclrtStream stream) {
  return guard("aclrtValueWrite", [&] {
    if (flag != 0) fail(ACL_ERROR_RT_PARAM_INVALID, "flag is %u, expected 0", flag);
    value_write(address, value, stream);
  });
}

aclError aclrtValueWait(void* address, uint64_t value, uint32_t flag, aclrtStream stream) {
  return guard("aclrtValueWait", [&] { value_wait(address, value, flag, stream); });
}

// Caches of a software card are the processor's: there is nothing to prefetch or flush.
aclError aclrtCmoAsync(void* src, size_t size, aclrtCmoType type, aclrtStream stream) {
  return guard("aclrtCmoAsync", [&] {
    note("size", size), note("type", type), note("stream", stream);
    Stream::launchable(stream);
    if (type < ACL_RT_CMO_TYPE_PREFETCH || type > ACL_RT_CMO_TYPE_FLUSH)
      fail(ACL_ERROR_RT_PARAM_INVALID, "cmoType %d is unknown", static_cast<int>(type));
    check_allocated(src, size, -1, "src");
  });
}
