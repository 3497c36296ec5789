// Devices and contexts.
#include <unistd.h>

#include <cstring>

#include "entry.h"
#include "runtime/capacity.h"
#include "runtime/context.h"
#include "runtime/graph.h"
#include "runtime/memory.h"
#include "runtime/resource_limits.h"
#include "runtime/settings.h"
#include "runtime/soc.h"
#include "runtime/stream.h"
#include "runtime/trace.h"

using namespace softnpu;

namespace {

void synchronize_device(int64_t milliseconds) {
  Context& context = current_context();
  check_no_capture("aclrtSynchronizeDevice");
  ++g_counters.synchronizations;
  if (!synchronize(context, Deadline::after_milliseconds(milliseconds)))
    fail(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "the device's work was not done within %lld ms", (long long)milliseconds);
  if (config().strict) check_red_zones(context.card);
}

bool busy(int card) {
  Context* context = open_context(card);
  if (!context) return false;
  for (Stream* stream : streams_of(*context))
    if (!stream->idle()) return true;
  return false;
}

}  // namespace

aclError aclrtGetDeviceCount(uint32_t* count) {
  return guard("aclrtGetDeviceCount", [&] { *required(count, "count") = device_count(); });
}

aclError aclrtSetDevice(int32_t device) {
  return guard("aclrtSetDevice", [&] { set_device(device); });
}

aclError aclrtGetDevice(int32_t* device) {
  return guard("aclrtGetDevice", [&] { *required(device, "deviceId") = device_of_card(current_context().card); });
}

aclError aclrtResetDevice(int32_t device) {
  return guard_release("aclrtResetDevice", [&] { reset_device(device, Deadline::after_milliseconds(kPatience)); });
}

aclError aclrtSynchronizeDevice(void) {
  return guard("aclrtSynchronizeDevice", [&] { synchronize_device(-1); });
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
  return guard("aclrtSynchronizeDeviceWithTimeout", [&] {
    if (timeout < -1) fail(ACL_ERROR_RT_PARAM_INVALID, "timeout %d is below -1 (for ever)", timeout);
    synchronize_device(timeout);
  });
}

aclError aclrtDeviceTaskAbort(int32_t device, uint32_t timeout) {
  return guard("aclrtDeviceTaskAbort", [&] {
    note("timeout", timeout);
    Context* context = open_context(card_of_device(device));
    const int64_t milliseconds = timeout == 0 ? -1 : static_cast<int64_t>(timeout);
    if (context && !abort_tasks(*context, Deadline::after_milliseconds(milliseconds)))
      fail(ACL_ERROR_RT_WAIT_TIMEOUT, "a running task of device %d did not end within %u ms", device, timeout);
  });
}

aclError aclrtGetCurrentContext(aclrtContext* context) {
  return guard("aclrtGetCurrentContext", [&] { *required(context, "context") = &current_context(); });
}

aclError aclrtSetCurrentContext(aclrtContext context) {
  return guard("aclrtSetCurrentContext", [&] { t_thread.context = &checked_context(required(context, "context")); });
}

aclError aclrtGetPrimaryCtxState(int32_t device, uint32_t* flags, int32_t* active) {
  return guard("aclrtGetPrimaryCtxState", [&] {
    *required(active, "activate") = is_open(card_of_device(device));
    if (flags) *flags = 0;
  });
}

const char* aclrtGetSocName(void) {
  const char* name = nullptr;
  guard("aclrtGetSocName", [&] { name = checked_config().soc->name; });
  return name;
}

aclError aclrtGetDeviceInfo(uint32_t device, aclrtDevAttr attribute, int64_t* value) {
  return guard("aclrtGetDeviceInfo", [&] {
    const int card = card_of_device(device);
    *required(value, "value") = device_attribute(card, attribute);
  });
}

aclError aclGetDeviceCapability(uint32_t device, aclDeviceInfo info, int64_t* value) {
  return guard("aclGetDeviceCapability", [&] {
    card_of_device(device);
    const Soc& soc = *config().soc;
    required(value, "value");
    switch (info) {
      case ACL_DEVICE_INFO_AI_CORE_NUM:
        *value = soc.ai_cores;
        return;
      case ACL_DEVICE_INFO_VECTOR_CORE_NUM:
        *value = soc.vector_cores;
        return;
      case ACL_DEVICE_INFO_L2_SIZE:
        *value = static_cast<int64_t>(soc.l2_bytes);
        return;
      default:
        fail(ACL_ERROR_INVALID_PARAM, "deviceInfo %d is unknown", static_cast<int>(info));
    }
  });
}

aclError aclrtDeviceCanAccessPeer(int32_t* can, int32_t device, int32_t peer) {
  return guard("aclrtDeviceCanAccessPeer", [&] {
    required(can, "canAccessPeer");
    *can = card_of_device(device) != card_of_device(peer);
  });
}

// Kernels of every card see the memory of all cards of the process: there is nothing to switch on.
aclError aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t flags) {
  return guard("aclrtDeviceEnablePeerAccess", [&] {
    const int card = card_of_device(peer);
    if (current_context().card == card) fail(ACL_ERROR_RT_INVALID_DEVICEID, "device %d is no peer of itself", peer);
    if (flags != 0) fail(ACL_ERROR_RT_PARAM_INVALID, "flags is %u, expected 0", flags);
  });
}

aclError aclrtDeviceGetBareTgid(int32_t* pid) {
  return guard("aclrtDeviceGetBareTgid", [&] { *required(pid, "pid") = getpid(); });
}

aclError aclrtDeviceGetUuid(int32_t device, aclrtUuid* uuid) {
  return guard("aclrtDeviceGetUuid", [&] {
    const int card = card_of_device(device);
    memset(required(uuid, "uuid"), 0, sizeof *uuid);
    memcpy(uuid->bytes, "softnpu", 7);
    uuid->bytes[15] = static_cast<char>(card);
  });
}

aclError aclrtGetLogicDevIdByUserDevId(const int32_t user, int32_t* logical) {
  return guard("aclrtGetLogicDevIdByUserDevId", [&] { *required(logical, "value") = card_of_device(user); });
}

// Cores are busy or not at this moment; there is no history to average over.
aclError aclrtGetDeviceUtilizationRate(int32_t device, aclrtUtilizationInfo* info) {
  return guard("aclrtGetDeviceUtilizationRate", [&] {
    const int card = card_of_device(device);
    required(info, "utilizationInfo");
    const CardMemory memory = card_memory(card);
    info->cubeUtilization = info->vectorUtilization = busy(card) ? 100 : 0;
    info->aicpuUtilization = 0;
    info->memoryUtilization = memory.total ? static_cast<int32_t>(memory.used * 100 / memory.total) : 0;
  });
}

aclError aclrtSetSysParamOpt(aclSysParamOpt option, int64_t value) {
  return guard("aclrtSetSysParamOpt", [&] { set_process_parameter(option, value); });
}

aclError aclrtGetSysParamOpt(aclSysParamOpt option, int64_t* value) {
  return guard("aclrtGetSysParamOpt", [&] { *required(value, "value") = checked_process_parameter(option); });
}

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt option, int64_t value) {
  return guard("aclrtCtxSetSysParamOpt", [&] { set_context_parameter(current_context(), option, value); });
}

// Accepted, because clients of older chips ask for saturation; softnpu's kernels give infinities and NaNs all the same.
aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode) {
  return guard("aclrtSetDeviceSatMode", [&] {
    current_context();
    if (mode != ACL_RT_OVERFLOW_MODE_SATURATION && mode != ACL_RT_OVERFLOW_MODE_INFNAN)
      fail(ACL_ERROR_RT_PARAM_INVALID, "mode %d is no overflow mode", static_cast<int>(mode));
  });
}

// Kernels are not timed out, so any limit is kept.
aclError aclrtSetOpExecuteTimeOut(uint32_t) {
  return guard("aclrtSetOpExecuteTimeOut", [] {});
}

aclError aclrtSetOpExecuteTimeOutV2(uint64_t value, uint64_t* actual) {
  return guard("aclrtSetOpExecuteTimeOutV2", [&] { *required(actual, "actualTimeout") = value; });
}

aclError aclrtSetOpWaitTimeout(uint32_t) {
  return guard("aclrtSetOpWaitTimeout", [] {});
}

aclError aclrtGetDeviceResLimit(int32_t device, aclrtDevResLimitType type, uint32_t* value) {
  return guard("aclrtGetDeviceResLimit",
               [&] { *required(value, "value") = device_limit(card_of_device(device), type); });
}

aclError aclrtSetDeviceResLimit(int32_t device, aclrtDevResLimitType type, uint32_t value) {
  return guard("aclrtSetDeviceResLimit", [&] { set_device_limit(card_of_device(device), type, value); });
}

aclError aclrtResetDeviceResLimit(int32_t device) {
  return guard("aclrtResetDeviceResLimit", [&] { reset_device_limits(card_of_device(device)); });
}

aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t* value) {
  return guard("aclrtGetResInCurrentThread", [&] { *required(value, "value") = thread_limit(type); });
}
