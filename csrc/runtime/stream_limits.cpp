#include "runtime/stream_limits.h"

#include <c10/util/Exception.h>

#include "acl/check.h"
#include "acl/runtime_symbol.h"
#include "runtime/device.h"
#include "runtime/task_queue.h"

namespace npu::stream_limits {

std::atomic<bool> g_in_use{false};

namespace {

template <class Function>
Function* function(const char* name) {
  auto* const found = reinterpret_cast<Function*>(acl::runtime_symbol(name));
  TORCH_CHECK_NOT_IMPLEMENTED(found, "This version of CANN cannot limit the cores of a stream (", name, ").");
  return found;
}

}  // namespace

void use(aclrtStream stream) {
  static auto* const use = function<decltype(::aclrtUseStreamResInCurrentThread)>("aclrtUseStreamResInCurrentThread");
  NPU_CHECK(use(stream));
}

uint32_t get(Stream stream, aclrtDevResLimitType type) {
  auto* const get = function<decltype(::aclrtGetStreamResLimit)>("aclrtGetStreamResLimit");
  DeviceGuard guard(stream.device_index());
  uint32_t cores = 0;
  NPU_CHECK(get(stream.handle(), type, &cores));
  return cores;
}

void set(Stream stream, aclrtDevResLimitType type, uint32_t cores) {
  auto* const set = function<decltype(::aclrtSetStreamResLimit)>("aclrtSetStreamResLimit");
  DeviceGuard guard(stream.device_index());
  task_queue::drain();  // what was called before has the limits of before
  NPU_CHECK(set(stream.handle(), type, cores));
  g_in_use.store(true);
}

void reset(Stream stream) {
  auto* const reset = function<decltype(::aclrtResetStreamResLimit)>("aclrtResetStreamResLimit");
  DeviceGuard guard(stream.device_index());
  task_queue::drain();
  NPU_CHECK(reset(stream.handle()));
}

}  // namespace npu::stream_limits
