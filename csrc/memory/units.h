// Words that the allocator's files share: sizes in multiples, a card as a device.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>

namespace npu::caching_allocator {

inline size_t round_up(size_t bytes, size_t multiple) { return (bytes + multiple - 1) / multiple * multiple; }

inline c10::Device npu_device(c10::DeviceIndex index) { return {c10::DeviceType::PrivateUse1, index}; }

}  // namespace npu::caching_allocator
