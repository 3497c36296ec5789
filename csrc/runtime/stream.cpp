#include "runtime/stream.h"

#include <c10/util/Exception.h>

#include <atomic>
#include <mutex>

#include "acl/check.h"
#include "acl/config.h"
#include "acl/library.h"
#include "runtime/device.h"
#include "runtime/gpu_trace.h"
#include "runtime/recovery.h"
#include "runtime/task_queue.h"

// Note [StreamId assignment]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~
// A c10::StreamId is 64 bits that torch stores and gives back; with the card it names a stream:
//
//   0                            the card's default stream
//   bit 0 set                    a pool stream: bit 1 says high priority, bits 2..6 are its index in that pool
//   bit 0 clear, but not 0       an external stream: the id is the aclrtStream itself (pointers are even)
//
// Every stream but the external ones is created when it is first used, also the default one: ACL's own default stream
// (NULL) means whatever context the calling thread has, so a handle of it would be wrong on another thread.
namespace npu {

namespace {

constexpr int kPerPool = 32;
constexpr c10::StreamId kPoolBit = 1, kHighBit = 2;
constexpr int kIndexShift = 2;

struct CardStreams {
  std::atomic<aclrtStream> base;
  std::atomic<aclrtStream> pool[2][kPerPool];  // [high priority][index]
  std::atomic<uint32_t> next[2];
};
CardStreams g_cards[kMaxDevices];

bool is_external(c10::StreamId id) { return id != 0 && (id & kPoolBit) == 0; }
bool is_high(c10::StreamId id) { return (id & kPoolBit) != 0 && (id & kHighBit) != 0; }

std::atomic<aclrtStream>& slot(const c10::Stream& stream) {
  const auto id = stream.id();
  auto& card = g_cards[stream.device_index()];
  if (id == 0) return card.base;
  const auto index = id >> kIndexShift;
  TORCH_CHECK(index >= 0 && index < kPerPool, "StreamId ", id, " names no stream of ", stream.device());
  return card.pool[is_high(id)][index];
}

aclrtStream existing_handle(const c10::Stream& stream) {
  if (is_external(stream.id())) return reinterpret_cast<aclrtStream>(stream.id());
  return slot(stream).load(std::memory_order_acquire);
}

aclrtStream create_acl_stream(bool high) {
  aclrtStream created = nullptr;
  const uint32_t acl_priority = high ? 0 : 1;  // 0 is ACL's highest of eight
  constexpr uint32_t kFlags = ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC;
  NPU_CHECK(acl::api().aclrtCreateStreamWithConfig(&created, acl_priority, kFlags));
  return created;
}

aclrtStream create(const c10::Stream& stream) {
  static std::mutex mutex;
  DeviceGuard guard(stream.device_index());
  aclrtStream created = nullptr;
  {
    std::lock_guard lock(mutex);
    auto& handle = slot(stream);
    created = handle.load(std::memory_order_relaxed);
    if (created) return created;
    created = create_acl_stream(is_high(stream.id()));
    handle.store(created, std::memory_order_release);
  }
  gpu_trace::tell(&gpu_trace::Table::trace_gpu_stream_creation, gpu_trace::number(created));
  return created;
}

c10::DeviceIndex index_or_current(c10::DeviceIndex device) {
  if (device < 0) return current_device();
  check_device_index(device);
  return device;
}

Stream make_stream(c10::DeviceIndex device, c10::StreamId id) {
  return Stream(c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1, device), id));
}

}  // namespace

Stream::Stream(c10::Stream stream) : stream_(stream) {
  TORCH_CHECK(stream.device_type() == c10::DeviceType::PrivateUse1, "Expected an npu stream, but got one of ",
              stream.device());
  TORCH_CHECK(stream.device_index() >= 0 && stream.device_index() < kMaxDevices,
              "An npu stream needs a card, but its "
              "device is ",
              stream.device());
}

aclrtStream Stream::handle() const {
  aclrtStream handle = existing_handle(stream_);
  return C10_LIKELY(handle != nullptr) ? handle : create(stream_);
}

bool Stream::query() const {
  task_queue::drain();
  aclrtStream handle = existing_handle(stream_);
  if (!handle) return true;  // never used
  DeviceGuard guard(device_index());
  aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
  NPU_CHECK(acl::api().aclrtStreamQuery(handle, &status));
  return status == ACL_STREAM_STATUS_COMPLETE;
}

void Stream::synchronize() const {
  if (recovery::watched()) recovery::check_not_stopped(device_index());
  task_queue::drain();
  aclrtStream handle = existing_handle(stream_);
  if (!handle) return;
  DeviceGuard guard(device_index());
  static const int timeout = config::stream_timeout_ms();
  const auto& api = acl::api();
  if (timeout > 0 && api.aclrtSynchronizeStreamWithTimeout)
    NPU_CHECK(api.aclrtSynchronizeStreamWithTimeout(handle, timeout));
  else
    NPU_CHECK(api.aclrtSynchronizeStream(handle));
  gpu_trace::tell(&gpu_trace::Table::trace_gpu_stream_synchronization, gpu_trace::number(handle));
  if (recovery::watched()) recovery::check_not_stopped(device_index());  // meanwhile
}

int Stream::priority() const { return is_high(id()) ? -1 : 0; }

Stream default_stream(c10::DeviceIndex device) { return make_stream(index_or_current(device), 0); }

Stream current_stream(c10::DeviceIndex device) {
  device = index_or_current(device);
  return make_stream(device, t_current.streams[device]);
}

void set_current_stream(Stream stream) {
  auto& t = t_current;
  t.streams[stream.device_index()] = stream.id();
  if (stream.device_index() == t.device) t.handle = nullptr;
}

Stream stream_from_pool(int priority, c10::DeviceIndex device) {
  TORCH_CHECK(priority <= 0, "Expected npu stream priority to be less than or equal to 0, got ", priority);
  init();
  device = index_or_current(device);
  const bool high = priority < 0;
  const auto index = g_cards[device].next[high].fetch_add(1, std::memory_order_relaxed) % kPerPool;
  return make_stream(device, static_cast<c10::StreamId>(index) << kIndexShift | (high ? kHighBit : 0) | kPoolBit);
}

Stream external_stream(aclrtStream handle, c10::DeviceIndex device) {
  const auto id = reinterpret_cast<c10::StreamId>(handle);
  TORCH_CHECK_VALUE(is_external(id), "An external stream must be an aclrtStream, but got ", handle);
  return make_stream(index_or_current(device), id);
}

aclrtStream bind_current_stream() {
  auto& t = t_current;
  set_device(t.device);
  return t.handle = current_stream(t.device).handle();
}

void renew_streams(c10::DeviceIndex device) {
  if (!has_primary_context(device)) return;  // none in use
  DeviceGuard guard(device);
  const auto renew = [](std::atomic<aclrtStream>& slot, bool high) {
    if (slot.load(std::memory_order_acquire)) slot.store(create_acl_stream(high), std::memory_order_release);
  };
  auto& card = g_cards[device];
  renew(card.base, false);
  for (const bool high : {false, true})
    for (auto& stream : card.pool[high]) renew(stream, high);
}

void destroy_streams(c10::DeviceIndex device) noexcept {
  const auto& api = acl::api();
  const auto destroy = api.aclrtDestroyStreamForce ? api.aclrtDestroyStreamForce : api.aclrtDestroyStream;
  const auto clear = [&](std::atomic<aclrtStream>& slot) {
    if (aclrtStream handle = slot.exchange(nullptr)) destroy(handle);
  };
  auto& card = g_cards[device];
  clear(card.base);
  for (auto& pool : card.pool)
    for (auto& stream : pool) clear(stream);
}

}  // namespace npu
