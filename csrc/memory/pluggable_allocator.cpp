#include "memory/pluggable_allocator.h"

#include <c10/util/Exception.h>

#include "runtime/device.h"
#include "runtime/stream.h"
#include "runtime/task_queue.h"

namespace npu::caching_allocator {
namespace {

struct Allocation {
  PluggableAllocator::Free* free;
  void* memory;
  size_t bytes;
  c10::DeviceIndex device;
  aclrtStream stream;
};

void delete_allocation(void* context) {
  const Allocation allocation = *static_cast<Allocation*>(context);
  delete static_cast<Allocation*>(context);
  if (!is_usable()) return;
  task_queue::drain_keeping_errors();  // the user's function knows the stream, not what is still on its way there
  allocation.free(allocation.memory, static_cast<ssize_t>(allocation.bytes), allocation.device, allocation.stream);
}

class PluggableDeviceAllocator final : public c10::DeviceAllocator {
 public:
  PluggableDeviceAllocator(PluggableAllocator functions, c10::DeviceAllocator* native)
      : functions_(functions), native_(native) {}

  c10::DataPtr allocate(size_t bytes) override {
    const c10::DeviceIndex device = current_device();
    const c10::Device npu(c10::DeviceType::PrivateUse1, device);
    if (bytes == 0) return {nullptr, nullptr, &delete_allocation, npu};
    aclrtStream stream = current_stream_handle();
    void* memory = functions_.allocate(static_cast<ssize_t>(bytes), device, stream);
    TORCH_CHECK_WITH(OutOfMemoryError, memory != nullptr, "The pluggable allocator gave no memory for ",
                     c10::CachingAllocator::format_size(bytes), " on ", npu);
    return {memory, new Allocation{functions_.free, memory, bytes, device, stream}, &delete_allocation, npu};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { native_->copy_data(to, from, bytes); }
  bool initialized() override { return is_initialized(); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override { return native_->getMemoryInfo(device); }

  // The user's functions know what there is to know about streams.
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override { unsupported("getDeviceStats"); }
  void resetAccumulatedStats(c10::DeviceIndex) override { unsupported("resetAccumulatedStats"); }
  void resetPeakStats(c10::DeviceIndex) override { unsupported("resetPeakStats"); }

 private:
  [[noreturn]] static void unsupported(const char* what) {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "NPUPluggableAllocator does not yet support ", what);
    __builtin_unreachable();
  }
  const PluggableAllocator functions_;
  c10::DeviceAllocator* const native_;
};

}  // namespace

c10::DeviceAllocator* make_device_allocator(PluggableAllocator functions, c10::DeviceAllocator* native) {
  return new PluggableDeviceAllocator(functions, native);
}

}  // namespace npu::caching_allocator
