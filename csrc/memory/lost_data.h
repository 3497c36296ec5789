// Tensors whose contents were lost: by a fault of memory, or because their card was restarted from scratch. Note
// [Recovery] in runtime/recovery.h. Such a block is in State::lost until it is freed, written as a whole by copy_, or
// declared sound; a launch that uses it throws. Memory that is not of the caching allocator is not followed.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

namespace npu::lost_data {

void lose_all(c10::DeviceIndex device);

// The answers of torch.npu.check_uce_in_memory: what the last fault of memory hit. Tensors that were hit are lost then.
enum Hit : int { nothing = 0, elsewhere = 1, cached = 2, live = 3 };
Hit look_for_fault(c10::DeviceIndex device);

bool is_lost(const void* address, c10::DeviceIndex device);
void restore(const void* address, c10::DeviceIndex device);

// For launches on a watched card (recovery::watched()): throws when an address is of lost memory.
void check(void* const* addresses, size_t count);
// The same for a copy, which makes a tensor sound that it fills as a whole; without `dst` for a number that is read.
void check_copy(const at::Tensor& dst, const at::Tensor& src);

void set_checked(bool on) noexcept;  // whether launches look; on at the beginning
bool is_checked() noexcept;

}  // namespace npu::lost_data
