#include "memory/host_allocator.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <chrono>
#include <cstring>
#include <map>
#include <mutex>

#include "acl/check.h"
#include "acl/library.h"
#include "memory/allocator_config.h"
#include "memory/destructor_event.h"
#include "runtime/capture.h"
#include "runtime/device.h"

namespace npu::host_allocator {
namespace {

// The memory the driver has pinned for us. ACL's own answer about a pointer would need a context.
class PinnedRanges {
 public:
  void add(void* base, size_t bytes) {
    std::lock_guard lock(mutex_);
    ranges_[static_cast<const char*>(base)] = bytes;
  }
  void remove(void* base) {
    std::lock_guard lock(mutex_);
    ranges_.erase(static_cast<const char*>(base));
  }
  bool contain(const void* address) {
    std::lock_guard lock(mutex_);
    auto range = ranges_.upper_bound(static_cast<const char*>(address));
    if (range == ranges_.begin()) return false;
    --range;
    return address < range->first + range->second;
  }

 private:
  std::mutex mutex_;
  std::map<const char*, size_t> ranges_;
};
PinnedRanges& g_ranges = *new PinnedRanges;

// Like torch.cuda: a card that is in use anyway, rather than opening the current one.
c10::DeviceIndex opened_device() {
  for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
    if (has_primary_context(device)) return device;
  }
  return current_device();
}

class Timer {
 public:
  int64_t microseconds() const {
    return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

struct Impl final : at::CachingHostAllocatorImpl<c10::Stream, Event> {
  void allocate_host_memory(size_t bytes, void** memory) override {
    init();
    caching_allocator::settings::load();
    DeviceGuard guard(opened_device());
    const Timer timer;
    const int code = acl::api().aclrtMallocHost(memory, bytes);
    TORCH_CHECK_WITH(OutOfMemoryError, code != ACL_ERROR_RT_MEMORY_ALLOCATION, "Out of pinned host memory. Tried to ",
                     "allocate ", c10::CachingAllocator::format_size(bytes), ".");
    NPU_CHECK(code);
    g_ranges.add(*memory, bytes);
    std::lock_guard lock(stats_.timing_mutex_);
    stats_.host_alloc_time.increase(timer.microseconds());
  }

  void free_block(at::HostBlock<c10::Stream>* block) override {
    g_ranges.remove(block->ptr_);
    if (!is_usable()) return;
    DeviceGuard guard(opened_device());
    const Timer timer;
    NPU_CHECK(acl::api().aclrtFreeHost(block->ptr_));
    std::lock_guard lock(stats_.timing_mutex_);
    stats_.host_free_time.increase(timer.microseconds());
  }

  void record_stream(std::optional<std::vector<Event>>& events, c10::Stream stream) override {
    if (C10_UNLIKELY(stream_is_capturing(stream))) return;  // replays use it too: its owner keeps it
    record_in_destructor(events->emplace_back(), Stream(stream));
  }
  bool query_event(Event& event) override { return event.query(); }
  c10::Stream get_current_stream() const override { return current_stream(); }
  bool stream_is_capturing(c10::Stream stream) const override {
    return captures::any() && captures::of_stream(Stream(stream).handle()) != nullptr;
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }
};

void delete_block(void* context);
using Allocator = at::CachingHostAllocatorInterface<Impl, delete_block>;
Allocator* const g_allocator = new Allocator;  // never destroyed: tensors may outlive everything

// After the runtime was shut down, and in a forked child, the block is nobody's to reuse.
void delete_block(void* context) {
  if (!is_usable()) return;
  try {
    g_allocator->free(context);
  } catch (const std::exception& error) {
    TORCH_WARN("Pinned memory stays in use, because the work of a stream on it cannot be followed: ", error.what());
  }
}

REGISTER_HOST_ALLOCATOR(at::DeviceType::PrivateUse1, g_allocator)

}  // namespace

at::HostAllocator* get() { return g_allocator; }

bool is_pinned(const void* address) { return g_ranges.contain(address); }

}  // namespace npu::host_allocator
