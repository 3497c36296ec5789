#include "memory/expandable_range.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "acl/check.h"
#include "acl/library.h"
#include "memory/units.h"

namespace npu::caching_allocator {
namespace {

constexpr uint64_t kHugePages = 1;

// Null when the card is full.
aclrtDrvMemHandle allocate_page(c10::DeviceIndex device, size_t bytes) {
  aclrtPhysicalMemProp property{};
  property.handleType = ACL_MEM_HANDLE_TYPE_NONE;
  property.allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED;
  property.memAttr = ACL_HBM_MEM_HUGE;
  property.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
  property.location.id = static_cast<uint32_t>(device);
  aclrtDrvMemHandle handle = nullptr;
  const int code = acl::api().aclrtMallocPhysical(&handle, bytes, &property, 0);
  if (code == ACL_ERROR_RT_MEMORY_ALLOCATION) return nullptr;
  NPU_CHECK(code);
  return handle;
}

}  // namespace

bool ExpandableRange::supported() {
  const auto& api = acl::api();
  return api.aclrtReserveMemAddress && api.aclrtReleaseMemAddress && api.aclrtMallocPhysical && api.aclrtFreePhysical &&
         api.aclrtMapMem && api.aclrtUnmapMem;
}

std::unique_ptr<ExpandableRange> ExpandableRange::reserve(c10::DeviceIndex device, size_t page, size_t least) {
  size_t free = 0, total = 0;
  memory_info(device, &free, &total);
  DeviceGuard guard(device);
  least = round_up(least, page);
  for (size_t size = std::max(round_up(total, page), least);; size = std::max(round_up(size / 2, page), least)) {
    void* base = nullptr;
    if (acl::api().aclrtReserveMemAddress(&base, size, 0, nullptr, kHugePages) == 0)
      return std::unique_ptr<ExpandableRange>(new ExpandableRange(device, static_cast<char*>(base), size, page));
    if (size == least) return nullptr;
  }
}

ExpandableRange::~ExpandableRange() {
  if (is_usable()) acl::api().aclrtReleaseMemAddress(base_);
}

bool ExpandableRange::map(char* address, size_t bytes) {
  size_t free = 0, total = 0;
  memory_info(device_, &free, &total);
  if (free < bytes) return false;  // rather than to find out after hundreds of pages
  DeviceGuard guard(device_);
  const size_t first = (address - base_) / page_, end = first + bytes / page_;
  for (size_t i = first; i < end; ++i) {
    aclrtDrvMemHandle memory = allocate_page(device_, page_);
    const int code = memory != nullptr ? acl::api().aclrtMapMem(base_ + i * page_, page_, 0, memory, 0) : 0;
    if (memory != nullptr && code == 0) {
      pages_[i] = memory;
      continue;
    }
    unmap(address, (i - first) * page_);
    if (memory == nullptr) return false;
    acl::api().aclrtFreePhysical(memory);
    NPU_CHECK(code);
  }
  return true;
}

void ExpandableRange::unmap(char* address, size_t bytes) noexcept {
  if (!is_usable()) return;
  try {
    DeviceGuard guard(device_);
    const size_t first = (address - base_) / page_, end = first + bytes / page_;
    for (size_t i = first; i < end; ++i) {
      NPU_CHECK(acl::api().aclrtUnmapMem(base_ + i * page_));
      NPU_CHECK(acl::api().aclrtFreePhysical(std::exchange(pages_[i], nullptr)));
    }
  } catch (const std::exception& error) {
    TORCH_WARN("Memory of npu:", static_cast<int>(device_), " could not be given back: ", error.what());
  }
}

}  // namespace npu::caching_allocator
