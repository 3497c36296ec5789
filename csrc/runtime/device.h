// Devices: lazy initialisation, the per-thread current card, counts and properties. torch.npu.<name> == npu::<name>.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

#include "runtime/current.h"

namespace npu {

// Initialises the runtime on first use (aclInit). Throws upstream's message in a forked child.
void init();
void at_init(void (*function)());  // runs once, after the provider is loaded; at library load time only
bool is_initialized() noexcept;
bool is_in_bad_fork() noexcept;  // in a child forked after init(); no card may be used here
bool is_usable() noexcept;       // initialised, not forked, not finalised: what destructors must ask
void finalize() noexcept;        // at exit: drain, close the cards; waits two seconds at most

// Answered without creating a context; 0 when no provider can be loaded.
c10::DeviceIndex device_count() noexcept;
bool is_available() noexcept;

// See Note [Current card and binding] in current.h.
inline c10::DeviceIndex current_device() noexcept { return t_current.device; }
void set_device(c10::DeviceIndex device);  // binds; throws for an unknown index
// Both return the previous card, and -1, changing nothing, for a negative index. The first binds, the second only binds
// a card that the process has already opened.
c10::DeviceIndex exchange_device(c10::DeviceIndex device);
c10::DeviceIndex maybe_exchange_device(c10::DeviceIndex device);
void check_device_index(c10::DeviceIndex device);
bool has_primary_context(c10::DeviceIndex device) noexcept;  // whether the process has opened the card

void synchronize(c10::DeviceIndex device = -1);  // waits for all streams of the card

void restore_device(c10::DeviceIndex device) noexcept;  // as maybe_exchange_device; what is wrong shows at the next use

// Makes a card current and bound for a scope; a negative index is nobody's and changes nothing. Every way to ACL leads
// through one of these, or through current_stream_handle(). Leaving opens no card and does not throw.
class DeviceGuard {
 public:
  explicit DeviceGuard(c10::DeviceIndex device) : previous_(t_current.device) {
    if (C10_UNLIKELY(t_current.bound != device || previous_ != device)) exchange_device(device);
  }
  ~DeviceGuard() {
    if (C10_UNLIKELY(t_current.device != previous_)) restore_device(previous_);
  }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  const c10::DeviceIndex previous_;
};

struct DeviceProperties {
  std::string name;
  uint64_t total_memory = 0;
  int64_t L2_cache_size = 0;
  int32_t multi_processor_count = 0, cube_core_num = 0, vector_core_num = 0;
  std::string uuid;
  bool bf16 = true;
};
const DeviceProperties& get_device_properties(c10::DeviceIndex device);  // without a context
std::string get_soc_name();                                              // without a context
std::string cann_version();                                              // without a context
void memory_info(c10::DeviceIndex device, size_t* free, size_t* total);

}  // namespace npu
