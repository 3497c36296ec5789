#include "runtime/device.h"

#include <c10/core/AutogradState.h>
#include <c10/util/Exception.h>

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "acl/check.h"
#include "acl/config.h"
#include "acl/library.h"
#include "acl/runtime_symbol.h"
#include "runtime/device_query.h"
#include "runtime/gpu_trace.h"
#include "runtime/inspection.h"
#include "runtime/recovery.h"
#include "runtime/stream.h"
#include "runtime/task_queue.h"

namespace npu {

thread_local constinit Current t_current;

namespace {

enum class State : uint8_t { cold, ready, forked, finalized };
std::atomic<State> g_state{State::cold};
std::atomic<c10::DeviceIndex> g_count{0};  // set by init
std::atomic<bool> g_opened[kMaxDevices];   // cards this process has a context on

// ASCEND_RT_VISIBLE_DEVICES when the runtime numbered its cards: softnpu at the first question, CANN in aclInit.
const std::optional<std::string>& visible_devices() {
  static const auto* value = new auto(config::visible_devices());
  return *value;
}

std::vector<void (*)()>& init_functions() {
  static auto* functions = new std::vector<void (*)()>;
  return *functions;
}

State state() noexcept { return g_state.load(std::memory_order_acquire); }

// Runs in the child, on its only thread, which must not go on with the parent's context.
void mark_forked() {
  auto ready = State::ready;
  if (!g_state.compare_exchange_strong(ready, State::forked)) return;
  inspection::forget_in_child();
  t_current.bound = -1;
  t_current.handle = nullptr;
}

void check_not_forked() {
  TORCH_CHECK(state() != State::forked,
              "Cannot re-initialize NPU in forked subprocess. To use NPU with "
              "multiprocessing, you must use the 'spawn' start method");
}

std::string visible_devices_text(const std::optional<std::string>& value) {
  return value ? c10::str("ASCEND_RT_VISIBLE_DEVICES is '", *value, "'") : "ASCEND_RT_VISIBLE_DEVICES is not set";
}

void init_runtime() {
  const auto& api = acl::api();
  const auto& visible = visible_devices();
  const auto config_file = config::acl_init_config();
  const int code = api.aclInit(config_file.empty() ? nullptr : config_file.c_str());
  const bool repeated = code == ACL_ERROR_REPEAT_INITIALIZE || code == ACL_ERROR_RT_REPEATED_INIT;
  if (code != 0 && !repeated) acl::throw_acl_error(code, "aclInit", __FILE__, __LINE__);
  uint32_t count = 0;
  NPU_CHECK(api.aclrtGetDeviceCount(&count));
  TORCH_CHECK(count > 0, "No NPU is visible to this process. ", visible_devices_text(visible),
              visible ? "; it must list existing cards, such as 0,1."
                      : "; check the driver with `npu-smi info`. A container needs --device=/dev/davinci0 "
                        "--device=/dev/davinci_manager --device=/dev/devmm_svm --device=/dev/hisi_hdc.");
  g_count = static_cast<c10::DeviceIndex>(std::min<uint32_t>(count, kMaxDevices));
}

// Note [Backward on the calling thread]: autograd gives each card a thread, to launch the backward pass while the
// caller goes on to other cards. softnpu's kernels run on the launching thread and need the cores themselves: there the
// hand-over only costs, twice per backward pass, and the thread has caches of its own to fill. A thread that uses a
// card of softnpu therefore runs its backward passes itself, as for CPU tensors;
// torch.autograd.set_multithreading_enabled(True) brings the threads back.
void keep_backward_on_this_thread() {
  static thread_local bool t_done = false;
  if (!std::exchange(t_done, true) && acl::provider() == acl::Provider::softnpu)
    c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
}

// Infinities and NaNs as IEEE has them, on cards that could saturate instead.
void keep_infinities() {
  if (const auto set = acl::api().aclrtSetDeviceSatMode) NPU_CHECK(set(ACL_RT_OVERFLOW_MODE_INFNAN));
}

// An operator that hangs ends after the time that the official client gives one. set_op_timeout_ms changes it.
void limit_operators() {
  constexpr uint64_t kMicroseconds = 547'000'000;
  using Set = decltype(::aclrtSetOpExecuteTimeOutV2);
  auto* const set = reinterpret_cast<Set*>(acl::runtime_symbol("aclrtSetOpExecuteTimeOutV2"));
  uint64_t actual = 0;
  if (set) NPU_CHECK(set(kMicroseconds, &actual));
}

void bind(c10::DeviceIndex device) {
  init();
  keep_backward_on_this_thread();
  NPU_CHECK(acl::api().aclrtSetDevice(device));
  if (!g_opened[device].load(std::memory_order_acquire)) {
    keep_infinities();
    static std::once_flag limited;
    std::call_once(limited, limit_operators);
  }
  t_current.bound = device;
  g_opened[device].store(true, std::memory_order_release);
}

// Waits a second for all cards together. A card still at work then is left to the end of the process.
void close_cards() noexcept {
  using namespace std::chrono;
  const auto& api = acl::api();
  const auto deadline = steady_clock::now() + seconds(1);
  const auto wait = api.aclrtSynchronizeDeviceWithTimeout;
  bool all_closed = true;
  for (int device = 0; device < g_count; device++) {
    if (!g_opened[device] || api.aclrtSetDevice(device) != 0) continue;
    const auto left = duration_cast<milliseconds>(deadline - steady_clock::now()).count();
    if (!wait || wait(std::max<int>(1, left)) == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT) {
      all_closed = false;
      continue;
    }
    destroy_streams(device);
    api.aclrtResetDevice(device);
  }
  if (all_closed) api.aclFinalize();
}

void warn_if_visible_devices_changed() noexcept {
  static std::atomic<bool> warned{false};
  try {
    const auto now = config::visible_devices();
    if (now == visible_devices() || warned.exchange(true)) return;
    TORCH_WARN("ASCEND_RT_VISIBLE_DEVICES changed after the NPU was initialised: ", visible_devices_text(now),
               " now, but cards keep the numbers they got before. Set it before the first use of an NPU.");
  } catch (...) {  // a warning turned into an error must not end the process here
  }
}

}  // namespace

void at_init(void (*function)()) { init_functions().push_back(function); }

void init() {
  if (C10_LIKELY(state() == State::ready)) return;
  static std::mutex mutex;
  check_not_forked();
  std::lock_guard lock(mutex);
  if (state() == State::ready) return;
  TORCH_CHECK(state() != State::finalized, "The NPU was already shut down; this happens when the interpreter exits.");
  init_runtime();
  for (const auto function : init_functions()) function();
  pthread_atfork(nullptr, nullptr, mark_forked);
  std::atexit(finalize);  // for C++ programs; Python calls it earlier
  g_state.store(State::ready, std::memory_order_release);
  inspection::start();
}

bool is_initialized() noexcept { return state() == State::ready; }
bool is_in_bad_fork() noexcept { return state() == State::forked; }
bool is_usable() noexcept { return state() == State::ready; }

void finalize() noexcept {
  if (state() != State::ready) return;
  inspection::stop();
  task_queue::stop();
  auto ready = State::ready;
  if (g_state.compare_exchange_strong(ready, State::finalized)) close_cards();
}

c10::DeviceIndex device_count() noexcept {
  if (!acl::available()) return 0;
  const bool cold = state() == State::cold;
  try {
    const auto count = cold ? count_devices() : g_count.load();
    if (!cold || acl::provider() == acl::Provider::softnpu) warn_if_visible_devices_changed();
    return count;
  } catch (...) {
    return 0;
  }
}

bool is_available() noexcept { return device_count() > 0; }

void check_device_index(c10::DeviceIndex device) {
  if (C10_LIKELY(device >= 0 && device < g_count.load(std::memory_order_relaxed))) return;
  const int count = device_count();
  if (device >= 0 && device < count) return;
  acl::api();  // where there is no runtime, that is the reason to give
  const auto seen = count == 0   ? "no NPU"
                    : count == 1 ? "one NPU, npu:0"
                                 : c10::str(count, " NPUs, npu:0 to npu:", count - 1);
  TORCH_CHECK(false, "invalid device ordinal: npu:", int{device}, " was asked for, but this process sees ", seen, ". ",
              visible_devices_text(visible_devices()), ".");
}

bool has_primary_context(c10::DeviceIndex device) noexcept {
  return is_initialized() && device >= 0 && device < kMaxDevices && g_opened[device].load(std::memory_order_acquire);
}

void set_device(c10::DeviceIndex device) {
  auto& t = t_current;
  if (C10_LIKELY(t.device == device && t.bound == device)) return;
  init();
  check_device_index(device);
  if (t.bound != device) bind(device);
  t.device = device;
  t.handle = nullptr;
}

c10::DeviceIndex exchange_device(c10::DeviceIndex device) {
  if (device < 0) return -1;
  const auto previous = t_current.device;
  set_device(device);
  return previous;
}

c10::DeviceIndex maybe_exchange_device(c10::DeviceIndex device) {
  if (device < 0) return -1;
  auto& t = t_current;
  const auto previous = t.device;
  if (previous == device) return previous;
  check_device_index(device);
  if (t.bound != device && has_primary_context(device)) bind(device);
  t.device = device;
  t.handle = nullptr;
  return previous;
}

void restore_device(c10::DeviceIndex device) noexcept {
  try {
    maybe_exchange_device(device);
  } catch (...) {  // the card was current before; the next call reports what happened since
    t_current.device = device;
    t_current.handle = nullptr;
  }
}

void synchronize(c10::DeviceIndex device) {
  if (device < 0) device = current_device();
  init();
  check_device_index(device);
  if (recovery::watched()) recovery::check_not_stopped(device);
  task_queue::drain();
  if (!has_primary_context(device)) return;  // nothing was ever launched on it
  DeviceGuard guard(device);
  static const int timeout = config::device_timeout_ms();
  const auto& api = acl::api();
  if (timeout > 0 && api.aclrtSynchronizeDeviceWithTimeout)
    NPU_CHECK(api.aclrtSynchronizeDeviceWithTimeout(timeout));
  else
    NPU_CHECK(api.aclrtSynchronizeDevice());
  gpu_trace::tell(&gpu_trace::Table::trace_gpu_device_synchronization);
  if (recovery::watched()) recovery::check_not_stopped(device);  // meanwhile
}

void memory_info(c10::DeviceIndex device, size_t* free, size_t* total) {
  DeviceGuard guard(device < 0 ? current_device() : device);
  NPU_CHECK(acl::api().aclrtGetMemInfo(ACL_HBM_MEM, free, total));
}

}  // namespace npu
