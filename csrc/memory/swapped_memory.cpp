#include "memory/swapped_memory.h"

#include <c10/util/Exception.h>

#include <cstdint>

#include "acl/check.h"
#include "acl/library.h"
#include "acl/runtime_symbol.h"
#include "runtime/device.h"
#include "runtime/device_memory.h"

namespace npu::swapped_memory {
namespace {

constexpr size_t kPage = 4096;

struct Allocation {
  void* memory;  // of aclrtMallocHost
  void* pages;   // the whole pages in it, which are registered
  c10::DeviceIndex device;
};

template <class F>
F* function(const char* name) {
  auto* found = reinterpret_cast<F*>(acl::runtime_symbol(name));
  TORCH_CHECK_NOT_IMPLEMENTED(found, "This version of CANN has no ", name, ", which empty_with_swapped_memory needs.");
  return found;
}

void delete_allocation(void* context) {
  const Allocation allocation = *static_cast<Allocation*>(context);
  delete static_cast<Allocation*>(context);
  if (!is_usable()) return;
  try {
    device_memory::settle(allocation.device);
    NPU_CHECK(function<decltype(::aclrtHostUnregister)>("aclrtHostUnregister")(allocation.pages));
    NPU_CHECK(acl::api().aclrtFreeHost(allocation.memory));
  } catch (const std::exception& error) {
    TORCH_WARN("Host memory of npu:", static_cast<int>(allocation.device), " could not be freed: ", error.what());
  }
}

}  // namespace

c10::DataPtr allocate(size_t bytes, c10::DeviceIndex device) {
  auto* const map = function<decltype(::aclrtHostRegister)>("aclrtHostRegister");
  const c10::Device place(c10::DeviceType::PrivateUse1, device);
  if (bytes == 0) return {nullptr, place};
  const DeviceGuard guard(device);
  const size_t whole = (bytes + kPage - 1) / kPage * kPage;
  void* memory = nullptr;
  NPU_CHECK(acl::api().aclrtMallocHost(&memory, whole + kPage));
  auto* const pages = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(memory) + kPage - 1) / kPage * kPage);
  void* address = nullptr;
  if (const int code = map(pages, whole, ACL_HOST_REGISTER_MAPPED, &address)) {
    acl::api().aclrtFreeHost(memory);
    acl::throw_acl_error(code, "aclrtHostRegister", __FILE__, __LINE__);
  }
  return {address, new Allocation{memory, pages, device}, &delete_allocation, place};
}

}  // namespace npu::swapped_memory
