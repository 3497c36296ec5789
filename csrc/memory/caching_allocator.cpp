#include "memory/caching_allocator.h"

#include <c10/core/StreamGuard.h>

#include <array>
#include <atomic>
#include <mutex>
#include <unordered_map>

#include "acl/check.h"
#include "acl/library.h"
#include "memory/allocator_config.h"
#include "memory/uncached_allocator.h"
#include "memory/units.h"
#include "runtime/device.h"
#include "runtime/gpu_trace.h"
#include "runtime/inspection.h"
#include "runtime/task_queue.h"

namespace npu::caching_allocator {
namespace {

// ---- one heap per card, never destroyed: tensors may outlive everything ---------------------------------------------

std::array<std::atomic<DeviceHeap*>, kMaxDevices> g_heaps;
std::mutex g_mutex;  // creation of heaps, history settings
HistorySettings g_history;

DeviceHeap* existing_heap(c10::DeviceIndex device) { return g_heaps[device].load(std::memory_order_acquire); }

C10_NOINLINE DeviceHeap& make_heap(c10::DeviceIndex device) {
  init();
  check_device_index(device);
  settings::load();
  std::lock_guard lock(g_mutex);
  if (DeviceHeap* heap = existing_heap(device)) return *heap;
  auto* heap = new DeviceHeap(device);
  heap->record_history(g_history, false);
  g_heaps[device].store(heap, std::memory_order_release);
  return *heap;
}

template <class Visit>
void for_each_heap(Visit visit) {
  for (c10::DeviceIndex device = 0; device < kMaxDevices; ++device) {
    if (DeviceHeap* heap = existing_heap(device)) visit(*heap);
  }
}

// ---- blocks as DataPtr ----------------------------------------------------------------------------------------------

// A forked child has the parent's blocks but not its device, and perhaps a lock that nobody will open.
void delete_block(void* context) {
  if (C10_UNLIKELY(is_in_bad_fork())) return;
  auto* block = static_cast<Block*>(context);
  gpu_trace::tell(&gpu_trace::Table::trace_gpu_memory_deallocation, gpu_trace::number(block->ptr));
  block->pool->heap()->free(block);
}

Block* block_of(const c10::DataPtr& ptr) {
  if (C10_LIKELY(ptr.get_deleter() == &delete_block)) return static_cast<Block*>(ptr.get_context());
  // Behind another owner: copy-on-write, DLPack, a shared storage.
  DeviceHeap* heap = ptr.get() != nullptr && ptr.device().index() >= 0 ? existing_heap(ptr.device().index()) : nullptr;
  return heap != nullptr ? heap->find(ptr.get()) : nullptr;
}

struct DeviceCopy {
  void* to;
  const void* from;
  size_t bytes;
  aclrtStream stream;
};

void run_copy(void* payload) {
  const auto& copy = *static_cast<DeviceCopy*>(payload);
  NPU_CHECK(acl::api().aclrtMemcpyAsync(copy.to, copy.bytes, copy.from, copy.bytes, ACL_MEMCPY_DEVICE_TO_DEVICE,
                                        copy.stream));
}

class CachingAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const Current& current = t_current;
    const c10::DeviceIndex device = current.device;
    if (C10_UNLIKELY(bytes == 0)) return {nullptr, nullptr, &delete_block, npu_device(device)};
    DeviceHeap* heap = existing_heap(device);
    if (C10_UNLIKELY(heap == nullptr)) {
      if (settings::caching_disabled()) return uncached::allocate(bytes, device);
      heap = &make_heap(device);
    }
    Block* block = heap->malloc(bytes, current.streams[device]);
    gpu_trace::tell(&gpu_trace::Table::trace_gpu_memory_allocation, gpu_trace::number(block->ptr));
    return {block->ptr, block, &delete_block, npu_device(device)};
  }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    const DeviceCopy copy{to, from, bytes, current_stream_handle()};
    task_queue::push(run_copy, &copy, sizeof(copy));
  }

  // The context of our pointers is a block, not the address, so upstream's raw interface is not for them. Nor is its
  // copy-on-write, see Note [Lazy clones] in ops/families/factory.cpp.
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }

  bool initialized() override { return is_initialized(); }
  void emptyCache(c10::MempoolId_t owner) override {
    for_each_heap([&](DeviceHeap& heap) { heap.empty_cache(owner); });
  }
  void recordStream(const c10::DataPtr& ptr, c10::Stream stream) override {
    if (Block* block = block_of(ptr)) block->pool->heap()->record_stream(block, stream);
  }
  DeviceStats getDeviceStats(c10::DeviceIndex device) override { return heap(device).stats(); }
  void resetAccumulatedStats(c10::DeviceIndex device) override { heap(device).reset_accumulated_stats(); }
  void resetPeakStats(c10::DeviceIndex device) override { heap(device).reset_peak_stats(); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    size_t free = 0, total = 0;
    memory_info(device, &free, &total);
    return {free, total};
  }
};

CachingAllocator* const g_native = new CachingAllocator;
std::atomic<c10::DeviceAllocator*> g_current{g_native};
REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, g_native)

// ---- the part "memory" of an inspection -----------------------------------------------------------------------------

std::string memory_part() {
  std::string cards;
  for_each_heap([&](DeviceHeap& heap) {
    const Usage usage = heap.usage();
    cards +=
        c10::str(cards.empty() ? "" : ", ", "{\"card\": ", int{heap.device()}, ", \"allocated\": ", usage.allocated,
                 ", \"reserved\": ", usage.reserved, ", \"peak_allocated\": ", usage.peak_allocated,
                 ", \"peak_reserved\": ", usage.peak_reserved, "}");
  });
  return "[" + cards + "]";
}

[[maybe_unused]] const bool g_is_inspected = (inspection::add("memory", &memory_part), true);

// ---- addresses given to other libraries -----------------------------------------------------------------------------

std::mutex g_raw_mutex;
auto& g_raw = *new std::unordered_map<void*, c10::DataPtr>;

}  // namespace

c10::DeviceAllocator* get() { return g_current.load(std::memory_order_relaxed); }

const char* backend_name() { return get() == g_native ? "native" : "pluggable"; }

void change_current_allocator(PluggableAllocator allocator) {
  std::lock_guard lock(g_mutex);
  bool used = get() != g_native;
  for_each_heap([&](DeviceHeap&) { used = true; });
  TORCH_CHECK(!used, "Can't swap an already initialized allocator");
  g_current = make_device_allocator(allocator, g_native);
  c10::SetAllocator(c10::DeviceType::PrivateUse1, get());
}

c10::DataPtr allocate_workspace(size_t bytes) { return get()->allocate(bytes); }

void* raw_alloc(size_t bytes, Stream stream) {
  c10::StreamGuard guard(stream);
  c10::DataPtr ptr = get()->allocate(bytes);
  void* address = ptr.get();
  if (address == nullptr) return nullptr;
  std::lock_guard lock(g_raw_mutex);
  g_raw.emplace(address, std::move(ptr));
  return address;
}

void raw_delete(void* address) {
  if (address == nullptr) return;
  c10::DataPtr ptr;
  std::lock_guard lock(g_raw_mutex);
  const auto found = g_raw.find(address);
  TORCH_CHECK_VALUE(found != g_raw.end(), "invalid device pointer: ", address);
  ptr = std::move(found->second);
  g_raw.erase(found);
}

void empty_cache() { get()->emptyCache({0, 0}); }
void record_stream(const c10::DataPtr& ptr, Stream stream) { get()->recordStream(ptr, stream); }
void set_memory_fraction(double fraction, c10::DeviceIndex device) { heap(device).set_memory_fraction(fraction); }
double get_memory_fraction(c10::DeviceIndex device) { return heap(device).memory_fraction(); }

DeviceHeap& heap(c10::DeviceIndex device) {
  DeviceHeap* heap = device >= 0 && device < kMaxDevices ? existing_heap(device) : nullptr;
  return heap != nullptr ? *heap : make_heap(device);
}

Snapshot snapshot(c10::MempoolId_t owner, bool with_traces) {
  Snapshot result;
  result.traces.resize(device_count());
  for_each_heap([&](DeviceHeap& heap) {
    auto segments = heap.segments(owner);
    std::move(segments.begin(), segments.end(), std::back_inserter(result.segments));
    if (with_traces) result.traces.at(heap.device()) = heap.history();
  });
  return result;
}

void record_history(const HistorySettings& settings, bool clear) {
  std::lock_guard lock(g_mutex);
  g_history = settings;
  for_each_heap([&](DeviceHeap& heap) { heap.record_history(settings, clear); });
}

bool is_history_enabled() {
  std::lock_guard lock(g_mutex);
  return g_history.enabled;
}

std::shared_ptr<c10::GatheredContext> context_of(const void* address) {
  std::shared_ptr<c10::GatheredContext> context;
  for_each_heap([&](DeviceHeap& heap) {
    if (const Block* block = heap.find(address)) context = block->context;
  });
  return context;
}

}  // namespace npu::caching_allocator
