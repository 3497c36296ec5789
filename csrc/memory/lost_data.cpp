#include "memory/lost_data.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>

#include "acl/check.h"
#include "acl/memory_fault.h"
#include "memory/caching_allocator.h"
#include "runtime/device.h"
#include "runtime/recovery.h"

namespace npu::lost_data {

namespace {

std::atomic<bool> g_checked{true};

void check_sound(const void* address, c10::DeviceIndex device) {
  TORCH_CHECK(!is_lost(address, device), "There is unsafe data in a tensor of npu:", int{device},
              ": it was lost when the card failed or was restarted. Fill the whole tensor with copy_() first.\n",
              acl::error_line("ERR00003 PTA invalid value"));
}

bool fills_its_storage(const at::Tensor& t) {
  return t.is_non_overlapping_and_dense() && t.nbytes() == t.storage().nbytes();
}

bool on_npu(const at::Tensor& t) { return t.defined() && t.device().type() == c10::DeviceType::PrivateUse1; }

}  // namespace

void set_checked(bool on) noexcept { g_checked.store(on); }
bool is_checked() noexcept { return g_checked.load(); }

void lose_all(c10::DeviceIndex device) {
  caching_allocator::heap(device).lose_all();
  recovery::watch(device);
}

Hit look_for_fault(c10::DeviceIndex device) {
  init();
  check_device_index(device);
  const auto fault = acl::memory_fault(device);
  if (fault.multi_bit) return live;  // whatever its addresses are
  auto hit = nothing;
  for (const auto& range : fault.ranges) {
    const auto state = caching_allocator::heap(device).lose(static_cast<const char*>(range.addr), range.len);
    hit = std::max(hit, !state ? elsewhere : *state == caching_allocator::Block::State::lost ? live : cached);
  }
  if (hit == live) recovery::watch(device);
  return hit;
}

bool is_lost(const void* address, c10::DeviceIndex device) {
  const auto* block = caching_allocator::heap(device).find(address);
  return block != nullptr && block->state == caching_allocator::Block::State::lost;
}

void restore(const void* address, c10::DeviceIndex device) { caching_allocator::heap(device).restore(address); }

void check(void* const* addresses, size_t count) {
  if (!is_checked()) return;
  for (size_t i = 0; i < count; i++)
    if (addresses[i]) check_sound(addresses[i], t_current.device);
}

void check_copy(const at::Tensor& dst, const at::Tensor& src) {
  if (!is_checked()) return;
  if (on_npu(src)) check_sound(src.const_data_ptr(), src.device().index());
  if (!on_npu(dst)) return;
  if (fills_its_storage(dst)) restore(dst.const_data_ptr(), dst.device().index());
  check_sound(dst.const_data_ptr(), dst.device().index());
}

}  // namespace npu::lost_data
