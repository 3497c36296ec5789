// The PrivateUse1 hooks: what torch's CPU code asks of the accelerator (torch.accelerator, pin_memory, generators,
// growing a storage). Registered when the library is loaded; nothing here touches a card before it must.
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/StorageImpl.h>

#include "acl/check.h"
#include "acl/library.h"
#include "memory/caching_allocator.h"
#include "memory/host_allocator.h"
#include "runtime/device.h"
#include "runtime/generator.h"
#include "runtime/stream.h"
#include "runtime/task_queue.h"

namespace npu {

namespace {

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
  aclrtStream stream;
};

void run_copy(void* payload) {
  const auto* copy = static_cast<Copy*>(payload);
  NPU_CHECK(acl::api().aclrtMemcpyAsync(copy->to, copy->bytes, copy->from, copy->bytes, ACL_MEMCPY_DEVICE_TO_DEVICE,
                                        copy->stream));
}

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return is_available(); }
  bool hasPrimaryContext(c10::DeviceIndex device) const override { return has_primary_context(device); }
  void init() const override { npu::init(); }

  c10::DeviceIndex deviceCount() const override { return device_count(); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  void setCurrentDevice(c10::DeviceIndex device) const override { set_device(device); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override { return exchange_device(device); }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override { return maybe_exchange_device(device); }

  c10::Allocator* getPinnedMemoryAllocator() const override { return host_allocator::get(); }
  bool isPinnedPtr(const void* data) const override { return host_allocator::is_pinned(data); }

  c10::Device getDeviceFromPtr(void* data) const override {
    npu::init();
    DeviceGuard guard(current_device());
    const auto query = acl::api().aclrtPointerGetAttributes;
    TORCH_CHECK_NOT_IMPLEMENTED(query, "This CANN runtime cannot tell the card of a pointer; name the device.");
    aclrtPtrAttributes attributes{};
    NPU_CHECK(query(data, &attributes));
    TORCH_CHECK(attributes.location.type == ACL_MEM_LOCATION_TYPE_DEVICE,
                "The specified pointer resides on host memory and is not registered with any NPU device.");
    return {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(attributes.location.id)};
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override { return default_generator(device); }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override { return create_generator(device); }

  // The old memory may be reused as soon as it is freed: its next user is behind the copy on the same stream.
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t size) const override {
    auto* impl = storage.unsafeGetStorageImpl();
    TORCH_CHECK(impl->resizable(), "Trying to resize storage that is not resizable");
    auto* allocator = impl->allocator() ? impl->allocator() : caching_allocator::get();
    DeviceGuard guard(impl->device().index());
    auto data = size == 0 ? c10::DataPtr(nullptr, impl->device()) : allocator->allocate(size);
    const size_t keep = std::min(size, impl->nbytes());
    if (keep > 0 && impl->data()) {
      const Copy copy{data.get(), impl->data(), keep, current_stream_handle()};
      task_queue::push(run_copy, &copy, sizeof(copy));
    }
    impl->set_data_ptr_noswap(std::move(data));
    impl->set_nbytes(size);
  }
};

// Gives the device its hooks and its name, also in a program without Python. Another plugin of this device type may
// have come first; throwing here would end the process while it loads.
[[maybe_unused]] const bool g_registered = [] {
  try {
    if (at::isPrivateUse1HooksRegistered()) return false;
    c10::register_privateuse1_backend("npu");
    at::RegisterPrivateUse1HooksInterface(new Hooks);
    return true;
  } catch (const c10::Error&) {
    return false;
  }
}();

}  // namespace

}  // namespace npu
