#include "runtime/recovery.h"

#include <c10/util/Exception.h>

#include <exception>

#include "acl/check.h"
#include "acl/library.h"
#include "acl/memory_fault.h"
#include "acl/runtime_symbol.h"
#include "runtime/device.h"
#include "runtime/stream.h"
#include "runtime/task_queue.h"

namespace npu::recovery {

std::atomic<uint64_t> watched_cards{0};

namespace {

std::atomic<uint64_t> g_stopped{0};
std::atomic<uint64_t> g_renewals{0};

uint64_t bit(c10::DeviceIndex device) { return uint64_t{1} << device; }
bool is_stopped(c10::DeviceIndex device) { return (g_stopped.load(std::memory_order_acquire) & bit(device)) != 0; }

// What dropped work left behind is no news for who goes on after it.
void discard_failures(c10::DeviceIndex device) {
  try {
    task_queue::drain();
  } catch (const std::exception&) {
  }
  if (!has_primary_context(device)) return;
  DeviceGuard guard(device);
  acl::api().aclrtSynchronizeDevice();
  acl::api().aclGetRecentErrMsg();
}

void repair_memory(c10::DeviceIndex device) {
  auto fault = acl::memory_fault(device);
  if (!fault.ranges.empty()) {
    using Repair = decltype(::aclrtMemUceRepair);
    auto* const repair = reinterpret_cast<Repair*>(acl::runtime_symbol("aclrtMemUceRepair"));
    TORCH_CHECK_NOT_IMPLEMENTED(repair, "This version of CANN cannot repair memory (aclrtMemUceRepair).");
    NPU_CHECK(repair(device, fault.ranges.data(), fault.ranges.size()));
  }
  acl::forget_memory_fault(device);
}

}  // namespace

void watch(c10::DeviceIndex device) noexcept { watched_cards.fetch_or(bit(device)); }

void check_not_stopped(c10::DeviceIndex device) {
  if (is_stopped(device)) acl::throw_acl_error(ACL_ERROR_RT_DEVICE_TASK_ABORT, "stop_device", __FILE__, __LINE__);
}

void before_launch() {
  static thread_local uint64_t t_seen = 0;
  check_not_stopped(t_current.device);
  const auto renewals = g_renewals.load(std::memory_order_acquire);
  if (t_seen != renewals) t_current.handle = nullptr;
  t_seen = renewals;
}

bool stop_device(c10::DeviceIndex device) {
  init();
  check_device_index(device);
  const auto abort = acl::api().aclrtDeviceTaskAbort;
  TORCH_CHECK_NOT_IMPLEMENTED(abort, "This version of CANN cannot stop the work of a card (aclrtDeviceTaskAbort).");
  watch(device);
  g_stopped.fetch_or(bit(device));  // first: nothing is launched behind the work that is dropped
  if (abort(device, 0) != 0) {
    g_stopped.fetch_and(~bit(device));
    return false;
  }
  task_queue::drain_keeping_errors();  // what is queued finds the card stopped
  return true;
}

void restart_device(c10::DeviceIndex device, bool renew_streams) {
  init();
  check_device_index(device);
  if (is_stopped(device)) discard_failures(device);
  repair_memory(device);
  if (renew_streams) {
    npu::renew_streams(device);
    g_renewals.fetch_add(1);
    watch(device);
  }
  g_stopped.fetch_and(~bit(device));
}

}  // namespace npu::recovery
